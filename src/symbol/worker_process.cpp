#include "symbol/worker_process.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <new>
#include <optional>

#include "base/limits.hpp"
#include "symbol/confinement.hpp"
#include "symbol/file_names.hpp"

namespace vitrine::symbol {
namespace {

constexpr auto for_ever = std::chrono::hours(24 * 365);

void answer_questions(int socket, int file, int debug, int used, bool with_dwarf,
                      const Limits& limits) {
  Channel channel{FileDescriptor(socket)};
  const std::uint64_t at_first = resident_bytes(used);
  std::optional<FileNames> names;
  for (;;) {
    const auto until = Channel::Clock::now() + for_ever;
    auto message = channel.receive(limits::symbol_batch * sizeof(Address), until);
    if (!message || message->kind != Kind::question) return;
    const auto addresses = decode_question(message->bytes);
    if (!addresses) return;
    allow_time(limits.time);
    if (!names) names.emplace(FileDescriptor(file), FileDescriptor(debug), with_dwarf, limits);
    Reply reply;
    for (const Address address : *addresses) reply.answer.frames.push_back(names->find(address));
    reply.answer.problem = names->problem();
    const std::uint64_t now = resident_bytes(used);
    reply.memory = now > at_first ? now - at_first : 0;
    if (!channel.send(Kind::answer, encode_reply(reply), until)) return;
  }
}

}  // namespace

void serve(int socket, const Subject& subject, const Limits& limits) {
  int kept[8] = {
      socket, ::open("/proc/self/statm", O_RDONLY), subject.file, subject.debug, -1, -1, -1, -1};
  leave_everything(kept);
  confine(kept[0], kept[1], limits.worker_memory);
  try {
    answer_questions(kept[0], kept[2], kept[3], kept[1], subject.with_dwarf, limits);
  } catch (const std::bad_alloc&) {
    ::_exit(out_of_memory);
  } catch (...) {
    ::_exit(1);
  }
  ::_exit(0);
}

}  // namespace vitrine::symbol
