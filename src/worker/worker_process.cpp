#include "worker/worker_process.hpp"

#include <unistd.h>

#include <new>

#include "child/beginning.hpp"
#include "worker/confinement.hpp"

namespace vitrine::worker {
namespace {

constexpr auto for_ever = std::chrono::hours(24 * 365);

void answer_questions(int socket, const Limits& limits,
                      const std::function<std::unique_ptr<Service>()>& make) {
  Channel channel{FileDescriptor(socket)};
  std::unique_ptr<Service> service;
  for (;;) {
    const auto until = Channel::Clock::now() + for_ever;
    auto message = channel.receive(question_bytes, until);
    if (!message || message->kind != Kind::question) return;
    allow_time(limits.time);
    if (service == nullptr) service = make();
    const auto answer = service->answer(message->bytes, std::move(message->descriptor));
    if (!channel.send(Kind::answer, answer, until)) return;
  }
}

}  // namespace

void serve(int socket, pid_t parent, const char* name, const Limits& limits,
           const std::function<std::unique_ptr<Service>()>& make) {
  socket = child::leave_everything(socket);
  confine(socket, parent, name, limits.memory);
  try {
    answer_questions(socket, limits, make);
  } catch (const std::bad_alloc&) {
    ::_exit(out_of_memory);
  } catch (...) {
    ::_exit(1);
  }
  ::_exit(0);
}

}  // namespace vitrine::worker
