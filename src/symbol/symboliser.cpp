#include "symbol/symboliser.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <map>
#include <optional>
#include <unordered_map>

#include "base/limits.hpp"
#include "file/file_memory.hpp"
#include "symbol/debug_places.hpp"
#include "symbol/naming_service.hpp"
#include "symbol/wire.hpp"
#include "worker/worker.hpp"

namespace vitrine::symbol {
namespace {

/// How much of a file is parsed: what it could not stand is not tried again.
enum class Extent { all, symbol_tables, nothing };

struct KnownFile {
  Extent extent = Extent::all;
  std::string problem;                   ///< why it is not all
  std::optional<worker::Worker> worker;  ///< none: not started, or ended to make room
  std::string worker_problem;            ///< what it said last
  std::uint64_t memory = 0;              ///< of the worker
  std::unordered_map<Address, Frames> frames;
  std::uint64_t used = 0;  ///< when it was last asked about
};

Result<worker::Worker> start_worker(const Limits& limits) {
  return worker::Worker::start("vitrine-symbols", {limits.worker_memory, limits.time},
                               [limits] { return make_naming_service(limits); });
}

}  // namespace

struct Symboliser::State {
  Limits limits;
  Place place = Place::address;
  std::map<file::FileIdentity, KnownFile> files;
  std::uint64_t questions = 0;

  /// The frames of addresses that are not known yet, a batch at a time.
  void learn(const File& file, KnownFile& known, std::span<const Address> addresses);
  bool ask(const File& file, KnownFile& known, std::span<const Address> addresses);
  void make_room(const KnownFile& present);
};

Symboliser::Symboliser(Limits limits, Place place) : state_(std::make_unique<State>()) {
  state_->limits = limits;
  state_->place = place;
}

Symboliser::~Symboliser() = default;

/// One question to the file's worker. False: it did not survive that.
bool Symboliser::State::ask(const File& file, KnownFile& known,
                            std::span<const Address> addresses) {
  const bool fresh = !known.worker;
  if (fresh) {
    auto started = start_worker(limits);
    if (!started) {  // that is not the file's fault
      known.worker_problem = started.error().message;
      return true;
    }
    known.worker = std::move(*started);
  }
  const DebugPlaces places{file.root_dirs, file.path};
  const Question question{std::vector(addresses.begin(), addresses.end()), places.search(),
                          known.extent == Extent::all, place};
  auto bytes = known.worker->ask(pack::pack(question), fresh ? file.descriptor : -1,
                                 limits::symbol_answer, places.open());
  auto answer = bytes.and_then(
      [&](const auto& packed) { return decode_answer(packed, addresses.size(), limits); });
  if (!answer && bytes) answer = known.worker->made_no_sense();
  if (!answer) {
    known.worker.reset();
    known.memory = 0;
    known.problem = answer.error().message;
    return false;
  }
  known.memory = known.worker->memory();
  known.worker_problem = std::move(answer->problem);
  for (std::size_t i = 0; i < addresses.size(); ++i)
    known.frames[addresses[i]] = std::move(answer->frames[i]);
  return true;
}

void Symboliser::State::learn(const File& file, KnownFile& known,
                              std::span<const Address> addresses) {
  for (std::size_t at = 0; at < addresses.size(); at += limits::symbol_batch) {
    const auto batch = addresses.subspan(at, std::min(limits::symbol_batch, addresses.size() - at));
    while (known.extent != Extent::nothing && !ask(file, known, batch)) {
      const bool tables_left = known.extent == Extent::all;
      known.extent = tables_left ? Extent::symbol_tables : Extent::nothing;
      known.problem += tables_left ? "; names come from its symbol table" : "; it has no names";
    }
  }
}

/// Ends the workers of the files that were asked about longest ago, and forgets those files.
void Symboliser::State::make_room(const KnownFile& present) {
  for (;;) {
    std::size_t workers = 0, frames = 0;
    std::uint64_t memory = 0;
    auto oldest_worker = files.end(), oldest = files.end();
    for (auto at = files.begin(); at != files.end(); ++at) {
      KnownFile& known = at->second;
      frames += known.frames.size();
      workers += known.worker ? 1U : 0U;
      memory += known.memory;
      if (&known == &present) continue;
      if (oldest == files.end() || known.used < oldest->second.used) oldest = at;
      if (known.worker && (oldest_worker == files.end() || known.used < oldest_worker->second.used))
        oldest_worker = at;
    }
    if (oldest != files.end() &&
        (files.size() > limits::symbol_files || frames > limits::symbol_frames)) {
      files.erase(oldest);
    } else if (oldest_worker != files.end() &&
               (workers > limits::symbol_workers || memory > limits::symbol_kept_memory)) {
      oldest_worker->second.worker.reset();
      oldest_worker->second.memory = 0;
    } else {
      return;
    }
  }
}

Answer Symboliser::resolve(const File& file, std::span<const Address> addresses) {
  Answer answer;
  answer.frames.resize(addresses.size());
  auto identity = file.identity;
  if (!identity) {
    auto memory =
        file::FileMemory::from(FileDescriptor(::fcntl(file.descriptor, F_DUPFD_CLOEXEC, 0)));
    if (!memory) {
      answer.problem = memory.error().message;
      return answer;
    }
    identity = (*memory)->identity();
  }
  KnownFile& known = state_->files[*identity];
  known.used = ++state_->questions;
  if (known.frames.size() > limits::symbol_frames) known.frames.clear();
  std::vector<Address> fresh;
  for (const Address address : addresses)
    if (!known.frames.contains(address)) fresh.push_back(address);
  std::sort(fresh.begin(), fresh.end());
  fresh.erase(std::unique(fresh.begin(), fresh.end()), fresh.end());
  if (!fresh.empty()) {
    state_->learn(file, known, fresh);
    state_->make_room(known);
  }
  for (std::size_t i = 0; i < addresses.size(); ++i)
    if (const auto found = known.frames.find(addresses[i]); found != known.frames.end())
      answer.frames[i] = found->second;
  answer.problem = known.problem.empty() ? known.worker_problem : known.problem;
  return answer;
}

}  // namespace vitrine::symbol
