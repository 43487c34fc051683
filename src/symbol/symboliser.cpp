#include "symbol/symboliser.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <optional>
#include <unordered_map>

#include "base/limits.hpp"
#include "elf/build_id.hpp"
#include "file/regular_file.hpp"
#include "symbol/debug_file.hpp"
#include "symbol/worker.hpp"

namespace vitrine::symbol {
namespace {

/// How much of a file is parsed: what it could not stand is not tried again.
enum class Extent { all, symbol_tables, nothing };

struct KnownFile {
  Extent extent = Extent::all;
  std::string problem;           ///< why it is not all
  std::optional<Worker> worker;  ///< none: not started, or ended to make room
  std::string worker_problem;    ///< what it said last
  std::uint64_t memory = 0;      ///< of the worker
  std::unordered_map<Address, Frames> frames;
  std::uint64_t used = 0;  ///< when it was last asked about
};

/// What files a worker is given: ELF files alone, so that it can tell nothing about others; of
/// /proc and the like, whose files are empty by their own account, it gets none.
bool is_elf(int descriptor) {
  struct stat status {};
  char magic[4] = {};
  return ::fstat(descriptor, &status) == 0 && S_ISREG(status.st_mode) && status.st_size >= 64 &&
         ::pread(descriptor, magic, sizeof magic, 0) == sizeof magic &&
         std::memcmp(magic, "\177ELF", sizeof magic) == 0;
}

/// `path`: as the file has it, relative to the file itself if need be.
FileDescriptor open_for_worker(const File& file, std::string path) {
  if (path.empty()) return {};
  if (path[0] != '/') {
    const std::size_t slash = file.path.rfind('/');
    if (slash == file.path.npos) return {};
    path = file.path.substr(0, slash + 1) + path;
  }
  const auto take = [](Result<FileDescriptor> opened) {
    return opened && is_elf(opened->get()) ? std::move(*opened) : FileDescriptor();
  };
  if (file.root_dirs.empty()) return take(file::open_regular_at(AT_FDCWD, path));
  for (const int root : file.root_dirs)
    if (auto opened = take(file::open_regular_below(root, path))) return opened;
  return {};
}

Result<Worker> start_worker(const File& file, Extent extent, const Limits& limits) {
  Subject subject{file.descriptor, -1, extent == Extent::all};
  std::unique_ptr<DebugFile> debug;
  if (auto memory =
          file::FileMemory::from(FileDescriptor(::fcntl(file.descriptor, F_DUPFD_CLOEXEC, 0)))) {
    if (const auto elf = elf::read_file(**memory))
      debug = find_debug_file(**memory, *elf, elf::hex_build_id(**memory, *elf),
                              {file.root_dirs, file.path});
  }
  if (debug != nullptr) subject.debug = debug->memory->descriptor();
  return Worker::start(subject, limits);
}

}  // namespace

struct Symboliser::State {
  Limits limits;
  std::map<file::FileIdentity, KnownFile> files;
  std::uint64_t questions = 0;

  /// The frames of addresses that are not known yet, a batch at a time.
  void learn(const File& file, KnownFile& known, std::span<const Address> addresses);
  bool ask(const File& file, KnownFile& known, std::span<const Address> addresses);
  void make_room(const KnownFile& present);
};

Symboliser::Symboliser(Limits limits) : state_(std::make_unique<State>()) {
  state_->limits = limits;
}

Symboliser::~Symboliser() = default;

/// One question to the file's worker. False: it did not survive that.
bool Symboliser::State::ask(const File& file, KnownFile& known,
                            std::span<const Address> addresses) {
  if (!known.worker) {
    auto started = start_worker(file, known.extent, limits);
    if (!started) {  // that is not the file's fault
      known.worker_problem = started.error().message;
      return true;
    }
    known.worker = std::move(*started);
  }
  auto reply = known.worker->ask(
      addresses, [&](const std::string& path) { return open_for_worker(file, path); });
  if (!reply) {
    known.worker.reset();
    known.memory = 0;
    known.problem = reply.error().message;
    return false;
  }
  known.memory = reply->memory;
  known.worker_problem = std::move(reply->answer.problem);
  for (std::size_t i = 0; i < addresses.size(); ++i)
    known.frames[addresses[i]] = std::move(reply->answer.frames[i]);
  return true;
}

void Symboliser::State::learn(const File& file, KnownFile& known,
                              std::span<const Address> addresses) {
  for (std::size_t at = 0; at < addresses.size(); at += limits::symbol_batch) {
    const auto batch = addresses.subspan(at, std::min(limits::symbol_batch, addresses.size() - at));
    while (known.extent != Extent::nothing && !ask(file, known, batch)) {
      const bool tables_left = known.extent == Extent::all;
      known.extent = tables_left ? Extent::symbol_tables : Extent::nothing;
      known.problem +=
          tables_left ? "; names are those of its symbol table" : "; it is left without names";
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
  auto memory =
      file::FileMemory::from(FileDescriptor(::fcntl(file.descriptor, F_DUPFD_CLOEXEC, 0)));
  if (!memory) {
    answer.problem = memory.error().message;
    return answer;
  }
  KnownFile& known = state_->files[(*memory)->identity()];
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
