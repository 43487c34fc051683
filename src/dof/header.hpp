// The header of a DOF, its decoding, its string table, and the error for a malformed one.
#pragma once

#include <fmt/format.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <unordered_map>
#include <utility>
#include <vector>

#include "abi/dof.h"
#include "base/limits.hpp"
#include "base/result.hpp"
#include "dof/dof.hpp"

namespace vitrine::dof {

// How the decoder refuses a DOF: one sentence that has what and where.

template <class... Args>
tl::unexpected<Error> malformed(fmt::format_string<Args...> text, Args&&... args) {
  return fail(ErrorCode::malformed, fmt::format(text, std::forward<Args>(args)...));
}

// The string table of a DOF that is being written: each text once.

class StringTable {
 public:
  /// The offset of `text`, which has no NUL.
  std::uint32_t add(std::string_view text) { return add_bytes(std::string(text) + '\0'); }

  /// The offset of texts that follow each other; of none: 0, which no reader uses.
  std::uint32_t add(const std::vector<std::string>& texts);

  [[nodiscard]] const std::string& bytes() const { return bytes_; }

 private:
  std::uint32_t add_bytes(std::string text);

  std::string bytes_ = std::string(1, '\0');  // as readers expect: offset 0 is the empty string
  std::unordered_map<std::string, std::uint32_t> known_;
};

// What the parts of the decoder share: numbers out of bytes, complaints, and a limit of work.

/// The structure at `at`; the caller has seen to it that it lies within `bytes`. DOF is
/// little-endian, as every machine we run on is.
template <class T>
T load(std::span<const std::byte> bytes, std::uint64_t at) {
  static_assert(std::is_trivially_copyable_v<T>);
  T value;
  std::memcpy(&value, bytes.data() + at, sizeof value);
  return value;
}

/// What is wrong with a DOF: at most limits::dof_problems sentences, then how many more.
class Problems {
 public:
  explicit Problems(std::vector<Problem>& into) : into_(into) {}

  template <class... Args>
  void add(Part part, fmt::format_string<Args...> text, Args&&... args) {
    if (into_.size() < limits::dof_problems)
      into_.push_back({part, fmt::format(text, std::forward<Args>(args)...)});
    else
      ++left_out_;
  }

  void finish() {
    if (left_out_ > 0)
      into_.push_back(
          {into_.back().part, fmt::format("{} more problems are not listed", left_out_)});
    left_out_ = 0;
  }

 private:
  std::vector<Problem>& into_;
  std::size_t left_out_ = 0;
};

/// What decoding may cost, in bytes: the parts of a DOF may all refer to the same long lists.
class Budget {
 public:
  explicit Budget(std::uint64_t bytes) : total_(bytes), left_(bytes) {}

  /// False, from then on: too much was asked for.
  bool take(std::uint64_t bytes) {
    exhausted_ = exhausted_ || bytes > left_;
    if (!exhausted_) left_ -= bytes;
    return !exhausted_;
  }

  [[nodiscard]] bool exhausted() const { return exhausted_; }
  [[nodiscard]] std::uint64_t total() const { return total_; }
  [[nodiscard]] std::uint64_t taken() const { return total_ - left_; }

 private:
  std::uint64_t total_, left_;
  bool exhausted_ = false;
};

// The header of a DOF (docs/formats/dof.md, "Header").

/// Whether `bytes` begin as a DOF does.
bool has_magic(std::span<const std::byte> bytes);

/// Reads and checks the header at the start of `bytes` (docs/formats/dof.md,
/// "What a reader must check"), whatever follows it. Its sizes then lie within `bytes`. Errors:
/// malformed, unsupported (big-endian), limit.
Result<vitrine_dof_header> read_header(std::span<const std::byte> bytes);

}  // namespace vitrine::dof
