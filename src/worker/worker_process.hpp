// What a worker does from its first instruction to its last.
#pragma once

#include "worker/worker.hpp"

namespace vitrine::worker {

/// Answers questions over `socket` until the other side is gone. To be called in a child that
/// `parent` has just forked.
[[noreturn]] void serve(int socket, pid_t parent, const char* name, const Limits& limits,
                        const std::function<std::unique_ptr<Service>()>& make);

}  // namespace vitrine::worker
