// What one question to a worker may cost. (Bounds on what files say: base/limits.hpp.)
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>

namespace vitrine::worker {

struct Limits {
  std::uint64_t memory = 2ULL << 30;       ///< bytes of address space, beyond what it begins with
  std::chrono::milliseconds time{30'000};  ///< until it has answered
};

inline constexpr std::size_t question_bytes = 64U << 20;  ///< 10,000 sites have 2 MiB
inline constexpr std::size_t answer_bytes = 512U << 20;   ///< the probes of the worst file
inline constexpr std::size_t files_opened = 16 * 1024;    ///< at one question
inline constexpr std::uint64_t kept_bytes = 256U << 20;   ///< that it may hold from file to file

}  // namespace vitrine::worker
