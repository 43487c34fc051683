// Parser: tasks done in a worker, for one file after the other. A file that the worker does not
// survive is told of; another worker takes the next.
#pragma once

#include <cstring>
#include <optional>
#include <type_traits>

#include "base/pack.hpp"
#include "worker/worker.hpp"

namespace vitrine::worker {

/// The question of a task that has but one.
struct Nothing {};

template <pack::Of<Nothing> T>
auto fields(T&) {
  return std::tuple<>();
}

namespace detail {

/// A task as the worker calls it. It is one program with who asks: a function has one address.
using Erased = std::vector<std::byte> (*)(std::span<const std::byte> question, FileDescriptor file);

template <class Function>
struct Signature;
template <class Answer_, class Question_>
struct Signature<Result<Answer_> (*)(const Question_&, FileDescriptor)> {
  using Question = Question_;
  using Answer = Answer_;
};

template <auto Task>
std::vector<std::byte> erased(std::span<const std::byte> question, FileDescriptor file) {
  using Types = Signature<decltype(Task)>;
  const auto asked = pack::unpack<typename Types::Question>(question);
  if (!asked) return {};  // which is no answer
  return pack::pack(Task(*asked, std::move(file)));
}

}  // namespace detail

/// Nothing is started before the first question. Not for two threads at once; forks.
class Parser {
 public:
  explicit Parser(Limits limits = {}) : limits_(limits) {}

  /// The one that all of a thread's files go to. A worker keeps nothing of a file when it has
  /// answered, so that nobody needs one of his own.
  static Parser& of_this_thread();

  /// For the questions from now on.
  void set_limits(const Limits& limits);

  /// What `Task`, a function `Result<Answer>(const Question&, FileDescriptor)`, makes of the file;
  /// it gets a copy of the descriptor. `open`: for what it asks for by ask_for_file(). Errors: its
  /// own, and those of Worker::ask and start.
  template <auto Task>
  auto ask(const typename detail::Signature<decltype(Task)>::Question& question, int file,
           const Open& open = {}) -> Result<typename detail::Signature<decltype(Task)>::Answer> {
    const detail::Erased task = &detail::erased<Task>;
    std::vector<std::byte> bytes(sizeof task);
    std::memcpy(bytes.data(), &task, sizeof task);
    const auto packed = pack::pack(question);
    bytes.insert(bytes.end(), packed.begin(), packed.end());
    auto answer = TRY(send(bytes, file, open));
    using Answer = Result<typename detail::Signature<decltype(Task)>::Answer>;
    auto found = pack::unpack<Answer>(answer);
    if (!found) return no_sense();
    return std::move(*found);
  }

 private:
  Result<std::vector<std::byte>> send(std::span<const std::byte> question, int file,
                                      const Open& open);
  tl::unexpected<Error> no_sense();

  Limits limits_;
  std::optional<Worker> worker_;
};

}  // namespace vitrine::worker
