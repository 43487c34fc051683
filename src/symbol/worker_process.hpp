// What a worker does from its first instruction to its last.
#pragma once

#include "symbol/worker.hpp"

namespace vitrine::symbol {

/// How a worker ends that ran out of memory.
inline constexpr int out_of_memory = 70;

/// Answers questions over `socket` until the other side is gone. To be called in a child that was
/// just forked.
[[noreturn]] void serve(int socket, const Subject& subject, const Limits& limits);

}  // namespace vitrine::symbol
