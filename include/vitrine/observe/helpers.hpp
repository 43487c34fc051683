// vitrine/observe/helpers.hpp: the child processes of the library.
//
//   vitrine::observer::end_helpers();
//   ::execv(path, arguments);
//
// The library reads memory of targets, and opens and parses their files, in child processes: at most five, whatever the
// number of threads. It starts them when they are needed, and they end with the thread that needed them.
#pragma once

namespace vitrine::observer {
inline namespace v1 {

/// Ends the helper processes that no other thread is using at this time, and waits for their end. The next
/// call of the library that needs one starts another: what is open stays of use.
///
/// For a program that executes another one in its place: the helpers would end, too, but some of them raise no SIGCHLD,
/// and only wait(2) with __WALL finds them, so that the other program, which does not know of them, would keep
/// zombies. For use at any time, from any thread; not in a signal handler.
void end_helpers();

}  // namespace v1
}  // namespace vitrine::observer
