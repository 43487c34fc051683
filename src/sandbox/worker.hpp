// Worker: a child process that parses untrusted files, so that one which crashes the
// parser, stalls it or eats its memory costs no more than its own response.
//
// It is forked, not executed: a library has no program of its own to start. What another thread of
// an embedding program may have left behind in the child (a lock that is held) can at worst make it
// hang, which ends as every hang does: by the time limit.
#pragma once

#include <sys/types.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "base/file_descriptor.hpp"
#include "base/pack.hpp"
#include "sandbox/channel.hpp"
#include "sandbox/child.hpp"
#include "sandbox/confinement.hpp"
#include "sandbox/seats.hpp"

namespace vitrine::sandbox {

// Service: what a worker does for its caller.

/// The exit status of a worker that ran out of memory, for libraries that cannot throw.
inline constexpr int out_of_memory = 70;

class Service {
 public:
  Service() = default;
  Service(const Service&) = delete;
  Service& operator=(const Service&) = delete;
  virtual ~Service() = default;

  /// `file`: what came with the request; often none. May use up its memory and its time, and may
  /// crash: that is what it is in a worker for.
  virtual std::vector<std::byte> respond(std::span<const std::byte> request,
                                         FileDescriptor file) = 0;
};

/// Opens what a worker asks for, by the path that its file gives, below one of the roots that it
/// may look in (or `any_root`: in all, in order); none: it does not get that.
using Open = std::function<FileDescriptor(std::uint32_t root, const std::string& path)>;
inline constexpr std::uint32_t any_root = ~std::uint32_t{0};

/// Makes the service of a worker, in it.
using MakeService = std::function<std::unique_ptr<Service>()>;
/// The same by nothing that the caller has in memory.
using MakeServiceAlone = std::unique_ptr<Service> (*)();

/// Ends with its Worker. In a fork of the process that started it, a Worker responds to no request, and its end is
/// that of a copy of the socket.
class Worker {
 public:
  /// `name`: of the process, at most 15 characters. `make` may use what the caller has in memory by now. The
  /// thread that starts a worker outlives it, or ends it. Errors: failed.
  static Result<Worker> start(const char* name, const Limits& limits, const MakeService& make);

  /// The same. The file opener forks it, where that forks (FileOpener::start): it has as little memory then as
  /// the opener has, and ends with the first thread of this process if not before, whatever thread starts it.
  static Result<Worker> start_alone(const char* name, const Limits& limits, MakeServiceAlone make);

  /// What the service responds, at most `most` bytes. `file`: a descriptor that it gets a copy of;
  /// -1: none. Errors: failed (it crashed, or sent an invalid result: the message has the cause), limit (it took
  /// too long, or needed too much memory). After an error it is of no use any more.
  Result<std::vector<std::byte>> ask(std::span<const std::byte> request, int file, std::size_t most,
                                     const Open& open);

  /// False: this process was forked from the one that started it.
  [[nodiscard]] bool is_own() const { return seat_->is_own(); }

  /// So that nothing ends it between requests, until release(). False: it has ended, to make room
  /// or because it was idle, and is of no use any more.
  [[nodiscard]] bool claim();
  void release();

  /// Of each request from now on, if it is less than its Limits allow.
  void allow(std::chrono::milliseconds time) { time_ = std::min(time, limits_.time); }

  /// What to report of a response that does not keep the rules of its format; ends the worker.
  tl::unexpected<Error> invalid_response();

  /// Whether the last request failed for its time.
  [[nodiscard]] bool took_too_long() const { return took_too_long_; }

  /// Bytes that it holds and did not begin with, by the kernel's count; 0: not known.
  [[nodiscard]] std::uint64_t memory() const;

  /// Of a CPU, so far; 0: not known.
  [[nodiscard]] std::chrono::nanoseconds cpu_time() const;

 private:
  Worker(SeatReservation& reserved, Channel channel, sandbox::Child process, const Limits& limits);

  Result<std::vector<std::byte>> ask_claimed(std::span<const std::byte> request, int file,
                                             std::size_t most, const Open& open);
  tl::unexpected<Error> reason_of_end(const Error& seen);

  Channel channel_;
  std::unique_ptr<Seat> seat_;
  Limits limits_;
  std::chrono::milliseconds time_;  ///< of one request
  FileDescriptor schedstat_;        ///< of its process; open, as they are read at each request
  FileDescriptor statm_;
  std::uint64_t at_first_ = 0;  ///< bytes resident
  bool took_too_long_ = false;
};

// What a worker does from its first instruction to its last.

/// Responds to requests over `socket` until the other side is gone. To be called in a child that
/// `parent` has just forked.
[[noreturn]] void serve(int socket, pid_t parent, const char* name, const Limits& limits,
                        const MakeService& make);

/// The same, by the bytes in which Worker::start_alone() has all of that; others: returns.
void serve_alone(int socket, pid_t parent, std::span<const std::byte> settings);

// Parser: tasks done in a worker, for one file after the other. A file that the worker does not
// survive is reported; another worker takes the next. A task may keep files open in the worker, for later
// requests, as long as it is the same worker (worker_number()).

/// The request of a task that has but one.
struct Nothing {};

template <pack::Of<Nothing> T>
auto fields(T&) {
  return std::tuple<>();
}

namespace detail {

/// A task as the worker calls it. It is one program with its caller: a function has one address.
using Erased = std::vector<std::byte> (*)(std::span<const std::byte> request, FileDescriptor file);

template <class Function>
struct Signature;
template <class Response_, class Request_>
struct Signature<Result<Response_> (*)(const Request_&, FileDescriptor)> {
  using Request = Request_;
  using Response = Response_;
};

template <auto Task>
std::vector<std::byte> erased(std::span<const std::byte> request, FileDescriptor file) {
  using Types = Signature<decltype(Task)>;
  const auto asked = pack::unpack<typename Types::Request>(request);
  if (!asked) return {};  // which is no response
  return pack::pack(Task(*asked, std::move(file)));
}

}  // namespace detail

/// Nothing is started before the first request. Not for two threads at once; forks. In a fork of the process, it has no
/// worker: the next request starts one.
class Parser {
 public:
  /// `name`: of its process.
  explicit Parser(const Limits& limits = {}, const char* name = "vitrine-files")
      : limits_(limits), name_(name) {}

  /// The one that all of a thread's files go to.
  static Parser& of_this_thread();

  /// For the requests from now on.
  void set_limits(const Limits& limits);

  /// While it lives, a request has at most so much time. An error `limit` proves nothing about the file
  /// then.
  class ShortTime {
   public:
    ShortTime(Parser& parser, std::chrono::milliseconds time)
        : parser_(parser), before_(parser.time_) {
      parser.time_ = std::min(before_, std::max(time, std::chrono::milliseconds(1)));
    }
    ~ShortTime() { parser_.time_ = before_; }
    ShortTime(const ShortTime&) = delete;
    ShortTime& operator=(const ShortTime&) = delete;

   private:
    Parser& parser_;
    std::chrono::milliseconds before_;
  };
  [[nodiscard]] bool has_short_time() const { return time_ < limits_.time; }

  /// While it lives, the worker stays the same one, unless a request fails.
  class Held {
   public:
    explicit Held(Parser* parser) : parser_(parser) {}
    Held(Held&& other) noexcept : parser_(std::exchange(other.parser_, nullptr)) {}
    Held& operator=(Held&&) = delete;
    ~Held() {
      if (parser_ != nullptr) parser_->release();
    }

   private:
    Parser* parser_;
  };
  /// Starts a worker, if there is none. Errors: failed.
  Result<Held> hold();
  /// Of the worker: what one has kept, no other knows. 0: there is none, as after a request that it did
  /// not survive.
  [[nodiscard]] std::uint64_t worker_number() const { return has_worker() ? number_ : 0; }
  /// Requests that this worker has responded to.
  [[nodiscard]] std::uint64_t responses() const { return has_worker() ? responses_ : 0; }
  /// Whether the last request failed for its time.
  [[nodiscard]] bool took_too_long() const { return took_too_long_; }
  /// Of a CPU, that the worker has used so far; 0: there is none, or it is not known.
  [[nodiscard]] std::chrono::nanoseconds cpu_time() const {
    return has_worker() ? worker_->cpu_time() : std::chrono::nanoseconds(0);
  }

  /// Of a task by its bytes, which may be those of an invalid response: see invalid_response().
  using BytesTask = detail::Erased;
  Result<std::vector<std::byte>> ask_bytes(BytesTask task, std::span<const std::byte> request,
                                           int file, const Open& open = {});
  /// What to report of a response that does not keep the rules of its format; ends the worker.
  tl::unexpected<Error> invalid_response();

  /// What `Task`, a function `Result<Response>(const Request&, FileDescriptor)`, makes of the file;
  /// it gets a copy of the descriptor. `open`: for what it asks for by ask_for_file(). Errors: its
  /// own, and those of Worker::ask and start.
  template <auto Task>
  auto ask(const typename detail::Signature<decltype(Task)>::Request& request, int file,
           const Open& open = {}) -> Result<typename detail::Signature<decltype(Task)>::Response> {
    auto response = TRY(ask_bytes(&detail::erased<Task>, pack::pack(request), file, open));
    using Response = Result<typename detail::Signature<decltype(Task)>::Response>;
    auto found = pack::unpack<Response>(response);
    if (!found) return invalid_response();
    return std::move(*found);
  }

 private:
  /// One of another process is none (base/own_process.hpp).
  [[nodiscard]] bool has_worker() const { return worker_ && worker_->is_own(); }
  Result<void> require_worker();
  void release();
  void let_go();

  Limits limits_;
  const char* name_;
  bool is_held_ = false;
  bool is_look_due_ = false;  ///< at the memory of the worker
  bool took_too_long_ = false;
  std::uint64_t number_ = 0, responses_ = 0;  ///< of the worker
  std::chrono::steady_clock::time_point started_at_{};
  std::chrono::milliseconds time_ = std::chrono::milliseconds::max();  ///< of a request
  std::optional<Worker> worker_;
};

}  // namespace vitrine::sandbox
