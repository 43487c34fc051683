// The functions that the publishing side calls, defined by the test program: they count calls made by a
// thread while it is inside the library, and fail the N-th, or all from the N-th on. (Faults.Calls checks
// that none is missing.)
#pragma once

#include <atomic>

namespace vitrine::test {

enum class Mode { once, from_then_on };

extern std::atomic<long> calls, fault_at;  ///< 0: none fails
extern std::atomic<Mode> fault_mode;
extern __thread bool inside;
/// The call that failed last, for a debugger or a message.
extern std::atomic<const char*> last_fault;

}  // namespace vitrine::test
