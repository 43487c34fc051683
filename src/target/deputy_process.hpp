// What a deputy does from its first instruction to its last.
#pragma once

#include "confine/system_calls.hpp"
#include "target/desk.hpp"

namespace vitrine::target {

/// Answers what is asked at `desk` until the other side of `socket` is gone. To be called in a child
/// that `parent` has just cloned; async-signal-safe. `filter`: null: this kernel has none.
[[noreturn]] void serve(Desk& desk, int socket, pid_t parent, const confine::Filter* filter);

/// A byte, or a descriptor, for who sleeps at the other end. It cannot fail in a way that matters:
/// a socket that is full wakes whoever waits there.
void ring(int socket, int descriptor = -1);

}  // namespace vitrine::target
