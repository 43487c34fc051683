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

/// Ends with its Worker.
class Worker {
 public:
  /// `name`: of the process, at most 15 characters. `make` is called in it. The thread that starts
  /// a worker outlives it, or ends it. Errors: failed.
  static Result<Worker> start(const char* name, const Limits& limits,
                              const std::function<std::unique_ptr<Service>()>& make);

  /// What the service responds, at most `most` bytes. `file`: a descriptor that it gets a copy of;
  /// -1: none. Errors: failed (it crashed, or sent an invalid result: the message has the cause), limit (it took
  /// too long, or needed too much memory). After an error it is of no use any more.
  Result<std::vector<std::byte>> ask(std::span<const std::byte> request, int file, std::size_t most,
                                     const Open& open);

  /// Of each request from now on, if it is less than its Limits allow.
  void allow(std::chrono::milliseconds time) { time_ = std::min(time, limits_.time); }

  /// What to report of a response that does not keep the rules of its format; ends the worker.
  tl::unexpected<Error> invalid_response();

  /// False: it has ended, without having been asked anything.
  [[nodiscard]] bool is_there() const;

  /// Bytes that it holds and did not begin with, by the kernel's count; 0: not known.
  [[nodiscard]] std::uint64_t memory() const;

 private:
  Worker(Channel channel, sandbox::Child process, const Limits& limits);

  tl::unexpected<Error> reason_of_end(Error seen);

  Channel channel_;
  sandbox::Child process_;
  Limits limits_;
  std::chrono::milliseconds time_;  ///< of one request
  std::uint64_t at_first_ = 0;      ///< bytes resident
};

// What a worker does from its first instruction to its last.

/// Responds to requests over `socket` until the other side is gone. To be called in a child that
/// `parent` has just forked.
[[noreturn]] void serve(int socket, pid_t parent, const char* name, const Limits& limits,
                        const std::function<std::unique_ptr<Service>()>& make);

// Parser: tasks done in a worker, for one file after the other. A file that the worker does not
// survive is reported; another worker takes the next.

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

/// Nothing is started before the first request. Not for two threads at once; forks.
class Parser {
 public:
  explicit Parser(Limits limits = {}) : limits_(limits) {}

  /// The one that all of a thread's files go to. A worker keeps nothing of a file when it has
  /// responded, so that no caller needs one of its own.
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

  /// What `Task`, a function `Result<Response>(const Request&, FileDescriptor)`, makes of the file;
  /// it gets a copy of the descriptor. `open`: for what it asks for by ask_for_file(). Errors: its
  /// own, and those of Worker::ask and start.
  template <auto Task>
  auto ask(const typename detail::Signature<decltype(Task)>::Request& request, int file,
           const Open& open = {}) -> Result<typename detail::Signature<decltype(Task)>::Response> {
    const detail::Erased task = &detail::erased<Task>;
    std::vector<std::byte> bytes(sizeof task);
    std::memcpy(bytes.data(), &task, sizeof task);
    const auto packed = pack::pack(request);
    bytes.insert(bytes.end(), packed.begin(), packed.end());
    auto response = TRY(send(bytes, file, open));
    using Response = Result<typename detail::Signature<decltype(Task)>::Response>;
    auto found = pack::unpack<Response>(response);
    if (!found) return no_sense();
    return std::move(*found);
  }

 private:
  Result<std::vector<std::byte>> send(std::span<const std::byte> request, int file,
                                      const Open& open);
  tl::unexpected<Error> no_sense();

  Limits limits_;
  std::chrono::milliseconds time_ = std::chrono::milliseconds::max();  ///< of a request
  std::optional<Worker> worker_;
};

}  // namespace vitrine::sandbox
