#include "observe/profile/wakers.hpp"

#include <algorithm>
#include <array>
#include <iterator>

#include "base/label_keys.hpp"
#include "base/text.hpp"

namespace vitrine::observe {
namespace {

/// Frames of the program that traces are above.
constexpr std::size_t frames_of_tracing = 16;
constexpr std::size_t known_roles = 65536;

constexpr std::array own_keys{"process", "pid", "tid", "thread", "trace_id", "span_id"};

/// Where the kernel is entered by an interrupt, and where it leaves one: x86-64, aarch64.
bool is_of_an_interrupt(std::string_view function) {
  constexpr std::array names{"asm_common_interrupt", "common_interrupt", "fred_extint",
                             "irq_exit_rcu",         "__irq_exit_rcu",   "irq_exit",
                             "el1h_64_irq",          "el0t_64_irq",      "el0t_32_irq",
                             "el1_interrupt",        "el0_interrupt",    "call_on_irq_stack"};
  return function.starts_with("asm_sysvec_") || function.starts_with("sysvec_") ||
         std::ranges::find(names, function) != names.end();
}

}  // namespace

std::string_view in_place_of_thread(WokenBy by) {
  if (by == WokenBy::thread) return {};
  return by == WokenBy::interrupt ? "[interrupt]" : "[unknown]";
}

WakingStacks::Role WakingStacks::role_of(Address address) {
  if (const auto known = roles_.find(address); known != roles_.end()) return known->second;
  const auto name = name_of_(address);
  Role role = Role::other;
  if (!name)
    role = Role::unknown;
  else if (*name == "try_to_wake_up")
    role = Role::wakes;
  else if (is_of_an_interrupt(*name))
    role = Role::interrupt;
  if (roles_.size() >= known_roles) roles_.clear();
  return roles_.emplace(address, role).first->second;
}

WakingStack WakingStacks::look_at(const bpf::StackSample& waker) {
  const std::span<const std::uint64_t> stack = waker.kernel_stack;
  // Of all but the leaf it is the address that a call returns to.
  const auto role_at = [&](std::size_t n) { return role_of(stack[n] - (n == 0 ? 0 : 1)); };
  WakingStack out{WokenBy::thread, 0, stack.size()};
  for (std::size_t n = 0; n < std::min(stack.size(), frames_of_tracing); ++n) {
    if (role_at(n) != Role::wakes) continue;
    out.first = n;
    break;
  }
  for (std::size_t n = out.first; n < stack.size(); ++n) {
    const Role role = role_at(n);
    if (role == Role::unknown) out.by = WokenBy::unknown;
    if (role != Role::interrupt) continue;
    out.by = WokenBy::interrupt;
    out.end = n + 1;
    while (out.end < stack.size() && role_at(out.end) == Role::interrupt) ++out.end;
    break;
  }
  if (stack.empty()) out.by = WokenBy::unknown;
  if (waker.head.event.tid == 0) out.by = WokenBy::interrupt;  // nothing else was on that CPU
  return out;
}

std::vector<format::Label> labels_of_waker(const vitrine_event_header& header,
                                           const std::string& command,
                                           const format::LabelSet& displayed) {
  std::vector<format::Label> out;
  const auto add = [&](std::string_view key, std::string value) {
    out.push_back({std::string(waker_key_prefix).append(key), std::move(value)});
  };
  add("process", command);
  add("pid", std::to_string(header.pid));
  add("tid", std::to_string(header.tid));
  add("thread", bpf::comm_of(header));
  if (displayed.trace && displayed.trace->is_valid()) {
    add("trace_id", hex_text(displayed.trace->trace_id));
    add("span_id", hex_text(displayed.trace->span_id));
  }
  for (const format::Label& label : displayed.labels) {
    const bool is_taken = label.key.starts_with(renamed_key_prefix) ||
                          std::ranges::find(own_keys, label.key) != own_keys.end();
    add(std::string(is_taken ? renamed_key_prefix : "") + label.key, label.value);
  }
  return out;
}

std::vector<format::Label> labels_without_waker(WokenBy by) {
  return {{std::string(waker_key_prefix) + "process", std::string(in_place_of_thread(by))}};
}

void add_waker(std::vector<format::Label> waker, format::LabelSet& own) {
  const auto count = [&](const std::string& key) {
    return std::ranges::count(own.labels, key, &format::Label::key);
  };
  for (format::Label& label : own.labels)
    if (label.key.starts_with(waker_key_prefix)) do {
        label.key.insert(0, renamed_key_prefix);
      } while (count(label.key) > 1);
  std::ranges::move(waker, std::back_inserter(own.labels));
}

}  // namespace vitrine::observe
