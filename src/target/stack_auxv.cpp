#include "target/stack_auxv.hpp"

#include <elf.h>

#include <array>

#include "base/limits.hpp"

namespace vitrine::target {
namespace {

constexpr std::size_t most_entries = 512;  // the kernel writes some twenty

/// The words of a stack, from a given one on, in reads of a page.
class StackWords {
 public:
  StackWords(Memory& memory, Address start) : memory_(memory), at_(start) {}

  Result<std::uint64_t> next() {
    if (taken_ == have_) {
      if (++reads_ > limits::stack_reads)
        return fail(ErrorCode::limit, "too many arguments to find the auxiliary vector");
      have_ = memory_.read_some(at_, std::as_writable_bytes(std::span(words_))) / sizeof words_[0];
      taken_ = 0;
      if (have_ == 0)
        return fail(ErrorCode::malformed, "the stack ends before the auxiliary vector");
      at_ += have_ * sizeof words_[0];
    }
    return words_[taken_++];
  }

  /// Passes words up to and including a null.
  Result<void> pass_list() {
    for (;;) {
      const auto word = TRY(next());
      if (word == 0) return {};
    }
  }

 private:
  Memory& memory_;
  Address at_;
  std::array<std::uint64_t, 512> words_{};
  std::size_t have_ = 0;
  std::size_t taken_ = 0;
  std::size_t reads_ = 0;
};

}  // namespace

Result<std::string> auxv_on_stack(Memory& memory, Address stack_start) {
  if (stack_start < limits::lowest_address)
    return fail(ErrorCode::malformed, "the kernel does not report the start of the stack");
  StackWords words(memory, stack_start);
  TRY(words.next());
  for (int list = 0; list < 2; ++list)  // the arguments, then the environment
    TRY(words.pass_list());
  std::string bytes;
  for (std::size_t i = 0; i < most_entries; ++i) {
    std::array<std::uint64_t, 2> entry{};
    for (std::uint64_t& word : entry) {
      word = TRY(words.next());
    }
    bytes.append(reinterpret_cast<const char*>(entry.data()), sizeof entry);
    if (entry[0] == AT_NULL) return bytes;
  }
  return fail(ErrorCode::malformed, "the auxiliary vector on the stack is not terminated");
}

}  // namespace vitrine::target
