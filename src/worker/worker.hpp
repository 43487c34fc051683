// Worker: a process of ours that parses somebody else's files, so that one which crashes the
// parser, stalls it or eats its memory costs no more than its own answer.
//
// It is forked, not executed: a library has no program of its own to start. What another thread of
// an embedding program may have left behind in the child (a lock that is held) can at worst make it
// hang, which ends as every hang does: by the time limit.
#pragma once

#include <sys/types.h>

#include <functional>
#include <memory>
#include <string>

#include "child/child.hpp"
#include "worker/channel.hpp"
#include "worker/limits.hpp"
#include "worker/service.hpp"

namespace vitrine::worker {

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

  /// What the service answers, at most `most` bytes. `file`: a descriptor that it gets a copy of;
  /// -1: none. Errors: failed (it crashed, or made no sense: the message says which), limit (it took
  /// too long, or needed too much memory). After an error it is of no use any more.
  Result<std::vector<std::byte>> ask(std::span<const std::byte> question, int file,
                                     std::size_t most, const Open& open);

  /// What to say of an answer that does not keep the rules of its format; ends the worker.
  tl::unexpected<Error> made_no_sense();

  /// False: it has ended, without having been asked anything.
  [[nodiscard]] bool is_there() const;

  /// Bytes that it holds and did not begin with, as the kernel says; 0: not known.
  [[nodiscard]] std::uint64_t memory() const;

 private:
  Worker(Channel channel, child::Child process, const Limits& limits);

  tl::unexpected<Error> reason_of_end(Error seen);

  Channel channel_;
  child::Child process_;
  Limits limits_;
  std::uint64_t at_first_ = 0;  ///< bytes resident
};

}  // namespace vitrine::worker
