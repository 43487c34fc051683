// What woke a waiting thread, for the sample of the wait: its stack above the thread's, and its labels beside the
// thread's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/memory.hpp"
#include "bpf/event.hpp"
#include "observe/events/event_labels.hpp"

namespace vitrine::observe {

/// Between both stacks.
inline constexpr std::string_view waker_separator = "--";
/// Before the root of a stack that has not been unwound to its end.
inline constexpr std::string_view waker_cut = "[stack is not whole]";

/// `interrupt`: what was on the waker's CPU had been interrupted; `unknown`: it is not known whether it had.
enum class WokenBy : std::uint8_t { thread, interrupt, unknown };

/// In place of a thread's name: `[interrupt]`, `[unknown]`; empty for a thread.
std::string_view in_place_of_thread(WokenBy by);

/// Of the kernel's stack, leaf first, where a thread was woken.
struct WakingStack {
  WokenBy by = WokenBy::unknown;
  std::size_t first = 0;  ///< above it is what traces
  std::size_t end = 0;  ///< one past the last; of an interrupt, what it interrupted is not its own
};

/// Distinguishes them by the names of the kernel's functions. An interrupt may end a wait while any thread is on the
/// CPU; what the kernel puts off until the interrupt returns (softirqs) counts as the interrupt's. What a thread
/// does in the kernel by itself, such as delivering its packets to another socket, is the thread's.
class WakingStacks {
 public:
  using NameOf = std::function<std::optional<std::string>(Address)>;
  explicit WakingStacks(NameOf name_of) : name_of_(std::move(name_of)) {}

  WakingStack look_at(const bpf::StackSample& waker);

 private:
  enum class Role : std::uint8_t { other, wakes, interrupt, unknown };
  Role role_of(Address address);

  NameOf name_of_;
  std::unordered_map<Address, Role> roles_;
};

/// A waker's labels and what is known of it, with keys that begin with "waker.": `waker.process`, `waker.pid`,
/// `waker.tid`, `waker.thread`, `waker.trace_id`, `waker.span_id`, and `waker.KEY` of its own labels, or
/// `waker.label.KEY` where that is one of those. `command`: of its process.
std::vector<format::Label> labels_of_waker(const vitrine_event_header& header,
                                           const std::string& command,
                                           const format::LabelSet& displayed);
/// Where no thread is known to have woken it: `waker.process` alone, with in_place_of_thread().
std::vector<format::Label> labels_without_waker(WokenBy by);

/// Puts them beside a waiting thread's own. A label of its own whose key begins with "waker." becomes
/// "label.waker.…": only the waker's begin so.
void add_waker(std::vector<format::Label> waker, format::LabelSet& own);

}  // namespace vitrine::observe
