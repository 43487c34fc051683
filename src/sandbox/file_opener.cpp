#include "sandbox/file_opener.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/capability.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>
#include <span>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "base/limits.hpp"
#include "base/pack.hpp"
#include "base/per_thread.hpp"
#include "sandbox/capabilities.hpp"
#include "sandbox/confinement.hpp"
#include "sandbox/mounts.hpp"
#include "sandbox/worker.hpp"

namespace vitrine::sandbox {
namespace {

using namespace std::chrono_literals;

/// Without a word from the opener, before its file system counts as silent; and in all.
constexpr auto longest_silence = 1s;
constexpr auto longest_opening = 30s;
/// On a machine that has much else to do.
constexpr auto time_to_run = 10s;
/// A file system that was silent is not asked again for as long.
constexpr auto silent_for = 10s;
/// More than that at once, and no path is followed.
constexpr std::size_t max_silent = 4;

constexpr std::size_t copy_chunk = 1U << 20;
constexpr std::size_t message_bytes = 16U << 10;
constexpr const char* copy_name = "vitrine-copy";

// What the opener does.

struct RequestMessage {
  std::uint32_t named = 0;
  std::uint32_t owner = 0;
  std::string path;
};

template <pack::Of<RequestMessage> T>
auto fields(T& message) {
  auto& [named, owner, path] = message;
  return std::tie(named, owner, path);
}

/// Of the descriptor that comes with it.
struct ResponseMessage {
  bool is_copy = false;
  bool is_left = false;  ///< there is none: the file must be asked for alone
};

template <pack::Of<ResponseMessage> T>
auto fields(T& message) {
  auto& [is_copy, is_left] = message;
  return std::tie(is_copy, is_left);
}

bool is_copy(int descriptor) {
  char name[64] = {};
  const auto link = fmt::format("/proc/self/fd/{}", descriptor);
  return ::readlink(link.c_str(), name, sizeof name - 1) > 0 &&
         std::string_view(name).starts_with(std::string("/memfd:") + copy_name);
}

class Opener {
 public:
  explicit Opener(int socket) : channel_(FileDescriptor(socket)) {}

  [[noreturn]] void run() {
    for (;;) {
      auto message = channel_.receive(message_bytes, for_ever());
      if (message && message->kind == MessageKind::fork) {
        fork(*message);
        continue;
      }
      if (!message || message->kind != MessageKind::request) ::_exit(0);
      const auto request = pack::unpack<RequestMessage>(message->bytes);
      if (!request) ::_exit(1);
      respond(*request, std::move(message->descriptor));
    }
  }

 private:
  static Channel::Clock::time_point for_ever() {
    return Channel::Clock::now() + std::chrono::hours(24 * 365);
  }

  void fork(const Message& message) {
    pid_t pid = fork_sibling();
    if (pid == 0) {
      serve_alone(message.descriptor.get(), ::getppid(), message.bytes);
      ::_exit(0);
    }
    if (pid < 0) pid = -errno;
    send(MessageKind::response, std::as_bytes(std::span(&pid, 1)), -1);
  }

  void respond(const RequestMessage& message, FileDescriptor descriptor) {
    FileDescriptor file;
    if (static_cast<Named>(message.named) == Named::links) {
      std::string_view paths = message.path;
      for (std::size_t end; (end = paths.find('\0')) != paths.npos; paths.remove_prefix(end + 1)) {
        const std::string path(paths.substr(0, end));
        const auto response = open_local_link(descriptor.get(), path, file);
        send(MessageKind::response, pack::pack(response), response ? file.get() : -1);
      }
      return;
    }
    const Result<ResponseMessage> response = open(message, std::move(descriptor), file);
    send(MessageKind::response, pack::pack(response), file.get());
  }

  /// If its file system responds.
  static Result<ResponseMessage> open_local_link(int directory, const std::string& path,
                                                 FileDescriptor& into) {
    into = FileDescriptor();
    const auto handle = TRY(open_at(directory, path, O_PATH));
    if (!responds(handle.get())) return ResponseMessage{false, true};
    into = TRY(open_at_once({Named::handle, handle.get(), path}));
    return ResponseMessage{};
  }

  Result<ResponseMessage> open(const RequestMessage& message, FileDescriptor descriptor,
                               FileDescriptor& into) {
    const OpenRequest request{static_cast<Named>(message.named), descriptor.get(), message.path,
                              static_cast<uid_t>(message.owner)};
    if (request.named == Named::link) {
      const auto handle = TRY(open_at(descriptor.get(), message.path, O_PATH));
      const OpenRequest by_handle{Named::handle, handle.get(), message.path};
      // Of most files there is no more to find out.
      if (responds(handle.get())) {
        into = TRY(open_at_once(by_handle));
        return ResponseMessage{false};
      }
      send(MessageKind::opened, {}, handle.get());
      auto file = TRY(open_at_once(by_handle));
      return pass_on(by_handle, std::move(file), into);
    }
    if (request.named == Named::unopened) {
      into = TRY(open_at_once(request));
      touch(into.get());
      return ResponseMessage{false};
    }
    return pass_on(request, TRY(open_at_once(request)), into);
  }

  Result<ResponseMessage> pass_on(const OpenRequest& request, OpenedFile file,
                                  FileDescriptor& into) {
    struct statfs status {};
    if (::fstatfs(file.get(), &status) != 0)
      return fail(code_of_errno(errno), fmt::format("{}: {}", request.path, std::strerror(errno)));
    const Server server = server_of(static_cast<std::uint32_t>(status.f_type));
    // The caller reads what belongs to an owner, not a process that can be killed.
    const bool by_caller = request.named == Named::owned;
    if (server == Server::none || (server == Server::machine && !by_caller)) {
      if (server != Server::none) touch(file.get());
      into = std::move(file);
      return ResponseMessage{false};
    }
    if (file.original)  // by which the kernel reaches the file itself
      send(MessageKind::opened, {}, file.original.get());
    into = TRY(copy_of(file.get(), request.path));
    return ResponseMessage{true};
  }

  /// Attributes and the first bytes come from the server now, and from memory soon after.
  static void touch(int file) {
    struct stat status {};
    std::array<std::byte, 4096> first;
    if (::fstat(file, &status) == 0)
      static_cast<void>(::pread(file, first.data(), first.size(), 0));
  }

  Result<FileDescriptor> copy_of(int file, const std::string& path) {
    struct stat status {};
    if (::fstat(file, &status) != 0)
      return fail(code_of_errno(errno),
                  fmt::format("cannot examine {}: {}", path, std::strerror(errno)));
    const auto size = static_cast<std::uint64_t>(std::max<off_t>(0, status.st_size));
    if (size > limits::copied_file)
      return fail(ErrorCode::limit,
                  fmt::format("cannot read {}: it is larger than {} MiB, on a file system whose "
                              "files are copied because it may stop responding",
                              path, limits::copied_file >> 20));
    FileDescriptor copy(::memfd_create(copy_name, MFD_CLOEXEC | MFD_ALLOW_SEALING));
    if (!copy || ::ftruncate(copy.get(), static_cast<off_t>(size)) != 0)
      return fail(ErrorCode::failed, fmt::format("cannot copy {}: {}", path, std::strerror(errno)));
    std::vector<std::byte> chunk(copy_chunk);
    for (std::uint64_t at = 0; at < size;) {
      const auto wanted = static_cast<std::size_t>(std::min<std::uint64_t>(size - at, copy_chunk));
      const ssize_t got = ::pread64(file, chunk.data(), wanted, static_cast<off64_t>(at));
      if (got < 0 && errno == EINTR) continue;
      if (got < 0)
        return fail(ErrorCode::failed,
                    fmt::format("cannot read {}: {}", path, std::strerror(errno)));
      if (got == 0) break;  // it is shorter by now
      if (::pwrite64(copy.get(), chunk.data(), static_cast<std::size_t>(got),
                     static_cast<off64_t>(at)) != got)
        return fail(ErrorCode::failed,
                    fmt::format("cannot copy {}: {}", path, std::strerror(errno)));
      at += static_cast<std::uint64_t>(got);
      send(MessageKind::opened, {}, -1);  // it goes on
    }
    ::fcntl(copy.get(), F_ADD_SEALS, F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE);
    return copy;
  }

  void send(MessageKind kind, std::span<const std::byte> bytes, int descriptor) {
    if (!channel_.send(kind, bytes, for_ever(), descriptor)) ::_exit(0);
  }

  Channel channel_;
};

/// Keeps of the capabilities that we have those by which files of processes are opened. It may live as long as this
/// process, which drops others later.
[[noreturn]] void serve_files(int socket, pid_t parent) {
  socket = reset_inherited(socket);
  const bool may_search = effective_capabilities().has(CAP_DAC_READ_SEARCH);
  drop_privileges("vitrine-opener", parent,
                  {CAP_SYS_PTRACE, may_search ? CAP_DAC_READ_SEARCH : CAP_DAC_OVERRIDE,
                   CAP_CHECKPOINT_RESTORE});
  ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
  Opener(socket).run();
}

/// Bytes of all copies that this process has been given since it last counted those that it has open.
std::atomic<std::uint64_t> copied_since{0};

/// Bytes of copies that this process has open: by its table of descriptors, as a copy is a descriptor
/// like any other.
std::uint64_t count_copies() {
  std::uint64_t bytes = 0;
  std::error_code none;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd", none)) {
    const int descriptor = std::atoi(entry.path().filename().c_str());
    struct stat status {};
    if (is_copy(descriptor) && ::fstat(descriptor, &status) == 0)
      bytes += static_cast<std::uint64_t>(status.st_size);
  }
  copied_since = bytes;
  return bytes;
}

/// Whether there is room for another copy. To count them means to look at each open file, so they
/// are counted only when all that were ever made would be too many.
bool has_room_for_copies() {
  return copied_since <= limits::copied_files || count_copies() <= limits::copied_files;
}

using Place = std::pair<PlaceIdentity, std::string>;

Place mount_of(int handle) {
  PlaceIdentity place = place_identity(handle);
  place.inode = 0;
  return {place, {}};
}

/// What a path leads to is not known before it has been followed. One that the user names is no
/// other's trouble.
Place place_of(const OpenRequest& request) {
  if (request.named == Named::handle) return mount_of(request.descriptor);
  if (request.named == Named::at || request.named == Named::unopened) return {{}, request.path};
  if (request.named == Named::link) return {place_identity(request.descriptor), {}};
  return {place_identity(request.descriptor), request.path.substr(0, request.path.rfind('/') + 1)};
}

tl::unexpected<Error> no_response(const OpenRequest& request, const Place& place) {
  if (request.named == Named::link && place == place_of(request))
    return fail(
        ErrorCode::limit,
        fmt::format("cannot read {}: the process is blocked while it executes another program "
                    "or changes its memory mappings",
                    request.path));
  return fail(ErrorCode::limit,
              fmt::format("cannot read {}: its file system does not respond", request.path),
              "resume the program or the machine that serves this file system, or unmount it");
}

}  // namespace

FileOpener& FileOpener::of_this_process() {
  return PerProcess<FileOpener>::get();
}

pid_t FileOpener::pid() {
  const std::lock_guard lock(mutex_);
  return child_.pid();
}

namespace {

/// The first thread of this process, which ends with it.
bool is_first_thread() {
  return ::gettid() == ::getpid();
}

}  // namespace

/// The thread that started it may have ended, and it with that.
bool FileOpener::is_there() const {
  pollfd ended{channel_ ? channel_->descriptor() : -1, POLLIN, 0};
  return child_ && ::poll(&ended, 1, 0) == 0;
}

Result<void> FileOpener::begin() {
  int pair[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0)
    return fail(ErrorCode::failed, fmt::format("cannot create a socket: {}", std::strerror(errno)));
  FileDescriptor own_end(pair[0]);
  const FileDescriptor its(pair[1]);
  const pid_t parent = ::getpid();
  // What it forks is of the thread that began it.
  forks_ = forks_ && is_first_thread();
  if (forks_) static_cast<void>(worker_filter());  // which must be before the fork
  child_ = TRY(Child::start(Kind::forked, [&] { serve_files(its.get(), parent); }));
  channel_.emplace(std::move(own_end));
  return {};
}

Result<void> FileOpener::start() {
  if (!is_first_thread()) return {};
  const std::lock_guard lock(mutex_);
  if (forks_ && is_there()) return {};
  forks_ = true;
  child_.end();
  return begin();
}

void FileOpener::end() {
  const std::lock_guard lock(mutex_);
  forks_ = false;
  channel_.reset();
  child_.end();
}

void FileOpener::end_if_unused() {
  const std::unique_lock lock(mutex_, std::try_to_lock);
  if (!lock) return;
  forks_ = false;
  channel_.reset();
  child_.end();
}

Result<Child> FileOpener::fork_worker(std::span<const std::byte> settings, int socket) {
  constexpr std::chrono::seconds longest_fork(1);
  const auto failed = [](const char* why) { return fail(ErrorCode::failed, why); };
  const std::unique_lock lock(mutex_, std::try_to_lock);
  if (!lock || !forks_ || !is_there()) return failed("there is no process that forks");
  const auto end = Clock::now() + longest_fork;
  pid_t pid = -1;
  broken_ = true;
  const auto sent = channel_->send(MessageKind::fork, settings, end, socket);
  const auto response = [&] {
    const auto message = channel_->receive(message_bytes, Clock::now() + longest_fork);
    if (!message || message->kind != MessageKind::response || message->bytes.size() != sizeof pid)
      return false;
    std::memcpy(&pid, message->bytes.data(), sizeof pid);
    return true;
  };
  broken_ = !sent || !response();
  if (broken_) {
    child_.abandon();
    // What it has forked all the same ends, as the other end of its socket is closed; and is reaped.
    if (response() && pid > 0) Child::adopt(std::exchange(pid, -1)).abandon();
    channel_.reset();
  }
  if (pid <= 0) return failed("the process that forks does not");
  return Child::adopt(pid);
}

/// Errors: interrupted (it has ended), limit (it is stuck).
Result<Message> FileOpener::next_message(Clock::time_point end) {
  const auto begin = Clock::now();
  for (;;) {
    const auto until = std::min(end, Clock::now() + longest_silence);
    auto message = channel_->receive(message_bytes, until);
    if (message || message.error().code != ErrorCode::limit) return message;
    const auto now = Clock::now();
    if (now >= end || child_.waits() || now - begin > time_to_run) return message;
  }
}

/// `place`: that of the file, once it is known.
Result<OpenedFile> FileOpener::ask(const OpenRequest& request, Place& place) {
  const auto end = Clock::now() + longest_opening;
  FileDescriptor here;
  int descriptor = request.descriptor;
  if (descriptor == AT_FDCWD) {
    here = FileDescriptor(::open(".", O_PATH | O_DIRECTORY | O_CLOEXEC));
    descriptor = here.get();
  }
  const auto bytes = pack::pack(
      RequestMessage{static_cast<std::uint32_t>(request.named), request.owner, request.path});
  broken_ = true;
  TRY(channel_->send(MessageKind::request, bytes, end, descriptor));
  OpenedFile file;
  for (;;) {
    auto message = TRY(next_message(end));
    if (message.kind == MessageKind::opened) {
      if (!message.descriptor) continue;
      file.original = std::move(message.descriptor);
      place = mount_of(file.original.get());
      continue;
    }
    const auto response = pack::unpack<Result<ResponseMessage>>(message.bytes);
    if (message.kind != MessageKind::response || !response || (*response && !message.descriptor))
      return fail(ErrorCode::interrupted, "invalid response");
    broken_ = false;
    if (!*response) return tl::unexpected(response->error());
    static_cast<FileDescriptor&>(file) = std::move(message.descriptor);
    struct stat status {};
    if (!(*response)->is_copy) file.original = FileDescriptor();
    if ((*response)->is_copy && ::fstat(file.get(), &status) == 0)
      copied_since += static_cast<std::uint64_t>(status.st_size);
    if ((*response)->is_copy && request.named == Named::handle)
      file.original = FileDescriptor(::fcntl(request.descriptor, F_DUPFD_CLOEXEC, 0));
    return file;
  }
}

/// Of each path, in order, what came of it; nothing: it must be asked for alone. Errors: as next_message().
Result<void> FileOpener::ask_links(int directory, std::span<const std::string> paths,
                                   std::vector<std::optional<Result<OpenedFile>>>& found) {
  const auto end = Clock::now() + longest_opening;
  RequestMessage request{static_cast<std::uint32_t>(Named::links), 0, {}};
  for (const std::string& path : paths) request.path.append(path).push_back('\0');
  TRY(channel_->send(MessageKind::request, pack::pack(request), end, directory));
  for (std::size_t i = 0; i < paths.size(); ++i) {
    auto message = TRY(next_message(end));
    auto response = pack::unpack<Result<ResponseMessage>>(message.bytes);
    const bool has_file = response && *response && !(*response)->is_left;
    if (message.kind != MessageKind::response || !response ||
        has_file != static_cast<bool>(message.descriptor))
      return fail(ErrorCode::interrupted, "invalid response");
    if (has_file)
      found.emplace_back(OpenedFile(std::move(message.descriptor)));
    else if (*response)
      found.emplace_back();
    else
      found.emplace_back(tl::unexpected(std::move(response->error())));
  }
  return {};
}

std::vector<Result<OpenedFile>> FileOpener::open_links(int directory,
                                                       std::span<const std::string> paths) {
  std::vector<std::optional<Result<OpenedFile>>> found;
  constexpr std::size_t most_at_once = 64;
  for (auto rest = paths; !rest.empty();) {
    const auto some = rest.first(std::min(rest.size(), most_at_once));
    const std::lock_guard lock(mutex_);
    if (!silent_.empty() || !require_process()) break;
    broken_ = true;
    const auto asked = ask_links(directory, some, found);
    broken_ = !asked;
    if (!asked) {
      channel_.reset();
      child_.abandon();
      // Nothing but the process itself may have held up one of these.
      if (asked.error().code == ErrorCode::limit)
        silent_[place_of({Named::link, directory, {}})] = Clock::now();
      break;
    }
    rest = rest.subspan(some.size());
  }
  found.resize(paths.size());
  std::vector<Result<OpenedFile>> files;
  for (std::size_t i = 0; i < paths.size(); ++i)
    files.push_back(found[i] ? std::move(*found[i]) : open({Named::link, directory, paths[i]}));
  return files;
}

Result<void> FileOpener::require_process() {
  if (is_there()) return {};
  child_.end();
  return begin();
}

Result<OpenedFile> FileOpener::open(const OpenRequest& request) {
  const std::lock_guard lock(mutex_);
  std::erase_if(silent_,
                [now = Clock::now()](const auto& one) { return now - one.second > silent_for; });
  Place place = place_of(request);
  const bool is_path = request.named != Named::handle && request.named != Named::link;
  if (silent_.contains(place) || (is_path && silent_.size() >= max_silent))
    return no_response(request, place);
  if (!has_room_for_copies())
    return fail(ErrorCode::limit,
                fmt::format("cannot read {}: copies of files whose file system may stop responding "
                            "exceed {} MiB",
                            request.path, limits::copied_files >> 20));
  TRY(require_process());
  auto file = ask(request, place);
  if (!broken_) return file;
  channel_.reset();
  child_.abandon();
  if (file.error().code != ErrorCode::limit)
    return fail(ErrorCode::failed, fmt::format("cannot open {}: the process that opens files: {}",
                                               request.path, file.error().message));
  silent_[place] = Clock::now();
  return no_response(request, place);
}

}  // namespace vitrine::sandbox
