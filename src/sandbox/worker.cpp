#include "sandbox/worker.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <malloc.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <new>
#include <type_traits>
#include <utility>

#include "base/limits.hpp"
#include "base/per_thread.hpp"
#include "sandbox/child.hpp"
#include "sandbox/confinement.hpp"
#include "sandbox/file_opener.hpp"

namespace vitrine::sandbox {
namespace {

constexpr auto for_ever = std::chrono::hours(24 * 365);
constexpr auto idle = std::chrono::milliseconds(200);
constexpr unsigned default_share = 16;  // of the memory of the control group: Limits::data
/// Between two looks at Limits::stop.
constexpr std::chrono::milliseconds stop_interval{100};

/// The time that a worker waited for a CPU is not its own; but it ends after this many limits.
constexpr int max_stretch = 10;

FileDescriptor open_file_of(pid_t pid, const char* name) {
  return FileDescriptor(
      ::open(fmt::format("/proc/{}/{}", pid, name).c_str(), O_RDONLY | O_CLOEXEC));
}

/// What a process has had of a CPU, and waited for one: the first numbers of its schedstat. 0: not known.
struct RunTimes {
  std::chrono::nanoseconds cpu{0}, delay{0};
};

RunTimes run_times(const FileDescriptor& schedstat) {
  char text[128];
  const ssize_t n = schedstat ? ::pread(schedstat.get(), text, sizeof text, 0) : -1;
  if (n <= 0) return {};
  const char* const end = text + n;
  const char* const at = std::find(static_cast<const char*>(text), end, ' ');
  std::int64_t cpu = 0, delay = 0;
  std::from_chars(text, at, cpu);
  if (at != end) std::from_chars(at + 1, end, delay);
  return {std::chrono::nanoseconds(cpu), std::chrono::nanoseconds(delay)};
}

/// malloc keeps the more memory for what follows, the larger a block was freed (M_TRIM_THRESHOLD of mallopt(3)).
/// It begins with 128 KiB, which most requests exceed: their memory would be the kernel's after each, and
/// be cleared for the next.
void keep_memory_between_requests() {
  constexpr std::size_t block = 4U << 20;  // never touched
  void* volatile freed = std::malloc(block);
  std::free(freed);
}

void serve_requests(int socket, const Limits& limits, const MakeService& make) {
  Channel channel{FileDescriptor(socket)};
  std::unique_ptr<Service> service;
  keep_memory_between_requests();
  for (;;) {
    // Once nothing was asked for a while, what the files needed is the kernel's again; before that, the
    // next file needs it.
    auto message = channel.receive(request_bytes, Channel::Clock::now() + idle, [&] {
      if (service != nullptr) ::malloc_trim(0);
      return Channel::Clock::now() + for_ever;
    });
    if (!message || message->kind != MessageKind::request) return;
    allow_time(limits.time);
    if (service == nullptr) service = make();
    const auto response = service->respond(message->bytes, std::move(message->descriptor));
    if (!channel.send(MessageKind::response, response, Channel::Clock::now() + for_ever)) return;
  }
}

}  // namespace

void serve(int socket, pid_t parent, const char* name, const Limits& limits,
           const MakeService& make) {
  socket = sandbox::reset_inherited(socket);
  confine(socket, parent, name, limits.memory, limits.data);
  try {
    serve_requests(socket, limits, make);
  } catch (const std::bad_alloc&) {
    ::_exit(out_of_memory);
  } catch (...) {
    ::_exit(1);
  }
  ::_exit(0);
}

namespace {

/// A request begins with the task's address.
class Tasks final : public Service {
 public:
  std::vector<std::byte> respond(std::span<const std::byte> request, FileDescriptor file) override {
    detail::Erased task = nullptr;
    std::memcpy(&task, request.data(), sizeof task);
    return task(request.subspan(sizeof task), std::move(file));
  }
};

std::unique_ptr<Service> make_tasks() {
  return std::make_unique<Tasks>();
}

/// Of a worker that the file opener forks, which gets these bytes as they are: it is one program with this process.
struct WorkerSettings {
  char name[16] = {};
  Limits limits;
  MakeServiceAlone make = nullptr;
};
static_assert(std::is_trivially_copyable_v<WorkerSettings>);

}  // namespace

void serve_alone(int socket, pid_t parent, std::span<const std::byte> bytes) {
  WorkerSettings settings;
  if (bytes.size() != sizeof settings) return;
  std::memcpy(&settings, bytes.data(), sizeof settings);
  serve(socket, parent, settings.name, settings.limits, settings.make);
}

namespace {

/// The two ends of a connection, of which the worker has one.
struct Connection {
  FileDescriptor own_end, its;
};

Result<Connection> connect_to_worker() {
  int pair[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0)
    return fail(ErrorCode::failed, fmt::format("cannot create a socket: {}", std::strerror(errno)));
  return Connection{FileDescriptor(pair[0]), FileDescriptor(pair[1])};
}

Limits with_share(Limits limits) {
  if (limits.data == 0) limits.data = share_of_memory(default_share);
  return limits;
}

}  // namespace

Result<Worker> Worker::start(const char* name, const Limits& wanted, const MakeService& make) {
  auto [own_end, its] = TRY(connect_to_worker());
  const pid_t parent = ::getpid();
  static_cast<void>(worker_filter());
  const Limits limits = with_share(wanted);
  SeatReservation reserved;
  auto process = TRY(sandbox::Child::start(sandbox::Kind::forked, [&, socket = its.get()] {
    serve(socket, parent, name, limits, make);
  }));
  return Worker(reserved, Channel(std::move(own_end)), std::move(process), limits);
}

Result<Worker> Worker::start_alone(const char* name, const Limits& wanted, MakeServiceAlone make) {
  {
    auto [own_end, its] = TRY(connect_to_worker());
    WorkerSettings settings{{}, with_share(wanted), make};
    std::strncpy(settings.name, name, sizeof settings.name - 1);
    SeatReservation reserved;
    auto forked = FileOpener::of_this_process().fork_worker(std::as_bytes(std::span(&settings, 1)),
                                                            its.get());
    if (forked)
      return Worker(reserved, Channel(std::move(own_end)), std::move(*forked), settings.limits);
  }
  return start(name, wanted, make);
}

Worker::Worker(SeatReservation& reserved, Channel channel, sandbox::Child process,
               const Limits& limits)
    : channel_(std::move(channel)),
      limits_(limits),
      time_(limits.time),
      schedstat_(open_file_of(process.pid(), "schedstat")),
      statm_(open_file_of(process.pid(), "statm")),
      at_first_(used_memory(statm_).resident) {
  seat_ = std::make_unique<Seat>(reserved, Seat::Kind::worker, std::move(process), limits.idle);
  seat_->release();
}

bool Worker::claim() {
  if (!seat_->claim()) return false;
  pollfd ended{channel_.descriptor(), POLLIN,
               0};  // without a request it sends nothing, but hangs up
  return seat_->process() && ::poll(&ended, 1, 0) == 0;
}

void Worker::release() {
  seat_->release();
}

namespace {

tl::unexpected<Error> not_a_response() {
  return fail(ErrorCode::failed, "its parser returned an invalid response");
}

}  // namespace

/// What became of the worker, as an error about its parser.
tl::unexpected<Error> Worker::reason_of_end(const Error& seen) {
  sandbox::Child& process = seat_->process();
  const auto took_too_long = [&] {
    took_too_long_ = true;
    return fail(ErrorCode::limit, fmt::format("its parser was stopped: it took longer than {} s",
                                              std::chrono::duration<double>(time_).count()));
  };
  if (seen.code == ErrorCode::limit) {
    process.end();
    return took_too_long();
  }
  if (seen.code == ErrorCode::malformed) return invalid_response();
  // It has let go of the socket, so that it is about to end; if it only pretends to, it is made to.
  const auto ended = process.wait(std::chrono::seconds(1));
  if (!ended) {
    process.end();
    return fail(ErrorCode::failed, "its parser closed the connection");
  }
  const int status = *ended;
  if (WIFSIGNALED(status) && WTERMSIG(status) == SIGXCPU) return took_too_long();
  if (WIFEXITED(status) && WEXITSTATUS(status) == out_of_memory)
    return fail(ErrorCode::limit, fmt::format("its parser was stopped: it needed more than {} MiB",
                                              std::min(limits_.memory, limits_.data) >> 20));
  if (WIFSIGNALED(status))
    return fail(ErrorCode::failed,
                fmt::format("its parser crashed ({})", ::strsignal(WTERMSIG(status))));
  return fail(ErrorCode::failed, "its parser ended");
}

tl::unexpected<Error> Worker::invalid_response() {
  if (is_own() && (seat_->is_claimed() || seat_->claim())) seat_->process().end();
  return not_a_response();
}

Result<std::vector<std::byte>> Worker::ask(std::span<const std::byte> request, int file,
                                           std::size_t most, const Open& open) {
  if (!is_own()) return fail(ErrorCode::failed, "its parser is that of another process");
  const bool is_held = seat_->is_claimed();
  if (!is_held && !claim()) return fail(ErrorCode::failed, "its parser ended");
  auto response = ask_claimed(request, file, most, open);
  if (!is_held) release();
  return response;
}

Result<std::vector<std::byte>> Worker::ask_claimed(std::span<const std::byte> request, int file,
                                                   std::size_t most, const Open& open) {
  took_too_long_ = false;
  const auto begin = Channel::Clock::now();
  const auto delayed = run_times(schedstat_).delay;
  const auto next_look = [&](Channel::Clock::time_point end) {
    return limits_.stop == nullptr ? end : std::min(end, Channel::Clock::now() + stop_interval);
  };
  const auto until = next_look(begin + time_);
  // On a busy machine an honest file takes as long as its worker waits for a CPU.
  const auto extend = [&] {
    if (limits_.stop != nullptr && limits_.stop->load()) return begin;
    const auto end = begin + time_;
    if (Channel::Clock::now() < end) return next_look(end);
    return next_look(
        std::min(end + (run_times(schedstat_).delay - delayed), begin + max_stretch * time_));
  };
  if (auto sent = channel_.send(MessageKind::request, request, until, file); !sent)
    return reason_of_end(sent.error());
  for (std::size_t opened = 0;;) {
    auto message = channel_.receive(most, until, extend);
    if (!message) return reason_of_end(message.error());
    if (message->kind == MessageKind::response) return std::move(message->bytes);
    std::uint32_t root = 0;
    if (message->kind != MessageKind::open || message->bytes.size() < sizeof root ||
        message->bytes.size() > sizeof root + limits::name_bytes)
      return invalid_response();
    std::memcpy(&root, message->bytes.data(), sizeof root);
    FileDescriptor found;
    if (opened++ < files_opened && open)
      found = open(root, {reinterpret_cast<const char*>(message->bytes.data()) + sizeof root,
                          message->bytes.size() - sizeof root});
    if (auto sent = channel_.send(MessageKind::opened, {}, extend(), found.get()); !sent)
      return reason_of_end(sent.error());
  }
}

std::chrono::nanoseconds Worker::cpu_time() const {
  return run_times(schedstat_).cpu;
}

std::uint64_t Worker::memory() const {
  const std::uint64_t now = used_memory(statm_).resident;
  return now > at_first_ ? now - at_first_ : 0;
}

namespace {

/// A worker that starts later has more of what this process has in memory by then: it may be idle for some
/// time.
struct ParserOfThread : Parser {
  ParserOfThread() : Parser(long_idle()) {}
  static Limits long_idle() {
    Limits limits;
    limits.idle = std::chrono::seconds(60);
    return limits;
  }
};

}  // namespace

Parser& Parser::of_this_thread() {
  return PerThread<ParserOfThread>::get();
}

void Parser::set_limits(const Limits& limits) {
  limits_ = limits;
  worker_.reset();
}

/// That there is one which is claimed.
Result<void> Parser::require_worker() {
  // One that ended between two requests ended for no fault of the next file.
  // That of another process responds to that one, held or not.
  if (worker_ && (is_held_ ? !worker_->is_own() : !worker_->claim())) worker_.reset();
  static std::atomic<std::uint64_t> numbers{0};
  while (!worker_) {
    worker_ = TRY(Worker::start_alone(name_, limits_, make_tasks));
    started_at_ = std::chrono::steady_clock::now();
    number_ = ++numbers;
    responses_ = 0;
    if (!worker_->claim()) worker_.reset();
  }
  return {};
}

Result<Parser::Held> Parser::hold() {
  TRY(require_worker());
  is_held_ = true;
  return Held(this);
}

void Parser::release() {
  is_held_ = false;
  let_go();
}

/// What one file left behind is not the next one's memory.
void Parser::let_go() {
  constexpr std::chrono::seconds between_trims(10);
  if (has_worker() && std::exchange(is_look_due_, false)) {
    const bool may_trim = std::chrono::steady_clock::now() - started_at_ > between_trims;
    const std::uint64_t most = may_trim ? std::min(limits_.trimmed, limits_.kept) : limits_.kept;
    if (worker_->memory() > std::min(most, share_of_memory(2 * default_share))) worker_.reset();
  }
  if (worker_) worker_->release();
}

Result<std::vector<std::byte>> Parser::ask_bytes(BytesTask task, std::span<const std::byte> request,
                                                 int file, const Open& open) {
  if (sizeof task + request.size() > request_bytes)
    return fail(ErrorCode::limit, "the request is too large");
  std::vector<std::byte> bytes(sizeof task + request.size());
  std::memcpy(bytes.data(), &task, sizeof task);
  std::ranges::copy(request, bytes.begin() + sizeof task);
  TRY(require_worker());
  worker_->allow(time_);
  auto response = worker_->ask(bytes, file, response_bytes, open);
  took_too_long_ = !response && worker_->took_too_long();
  if (!response) {
    worker_.reset();
    return response;
  }
  constexpr std::uint64_t between_looks = 64;
  ++responses_;
  is_look_due_ = is_look_due_ || file >= 0 || responses_ % between_looks == 0;
  if (!is_held_) let_go();
  return response;
}

tl::unexpected<Error> Parser::invalid_response() {
  if (!worker_) return not_a_response();
  auto error = worker_->invalid_response();
  worker_.reset();
  return error;
}

}  // namespace vitrine::sandbox
