// What a child of ours does first: it leaves what it has of its parent. All of this is
// async-signal-safe.
#pragma once

#include <sys/types.h>

namespace vitrine::child {

/// Signals as at the start of a program, but those that are sent to groups; the one descriptor
/// `keep`; nothing on 0 to 2. Returns what `keep` has become.
int leave_everything(int keep);

/// No capability but `kept` (CAP_*; -1: none) if it is held; no core dump; nobody of the same user
/// may look into it. It ends when the thread that made it does. `name`: at most 15 characters.
void settle(const char* name, pid_t parent, int kept);

}  // namespace vitrine::child
