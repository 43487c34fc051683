// Desk: the memory that a deputy and whoever sent it have in common.
//
// One question at a time. Either side looks for a while whether the other has done its part; then it
// says that it sleeps and waits at the socket, where the other rings.
#pragma once

#include <sys/types.h>
#include <sys/uio.h>

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace vitrine::target {

struct Desk {
  static constexpr std::size_t most_parts = 1024;      ///< the kernel's UIO_MAXIOV
  static constexpr std::size_t most_bytes = 1U << 20;  ///< of all parts
  static constexpr pid_t of_file = -1;

  // Where the two meet, each on a line of its own.
  alignas(64) std::atomic<std::uint32_t> asked = 0;  ///< number of the last question
  std::atomic<std::uint32_t> asker_sleeps = 0;
  alignas(64) std::atomic<std::uint32_t> answered = 0;
  std::atomic<std::uint32_t> deputy_sleeps = 0;
  std::atomic<std::uint32_t> taken = 0;  ///< the last that was begun with

  // The question: the memory of which thread; or of_file: a file, whose descriptor comes over the
  // socket. One by one: page by page, with `done` telling how far it got, should it get stuck.
  alignas(64) pid_t tid = 0;
  std::uint32_t count = 0;
  bool one_by_one = false;

  // The answer: bytes read until the first part that was not all there. `error`: what of, if there
  // were none at all.
  std::atomic<std::uint64_t> done = 0;
  int error = 0;

  iovec parts[most_parts] = {};  ///< addresses of the target, or places in the file
  alignas(64) std::byte bytes[most_bytes];
};

static_assert(std::atomic<std::uint32_t>::is_always_lock_free &&
              std::atomic<std::uint64_t>::is_always_lock_free);

}  // namespace vitrine::target
