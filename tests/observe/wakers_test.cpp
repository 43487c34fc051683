// What is a waker's of a stack and of label sets.
#include "observe/profile/wakers.hpp"

#include <gmock/gmock.h>

#include <cstring>

namespace vitrine::observe {
namespace {

using testing::ElementsAre;
using testing::Pair;

/// A kernel whose functions are 0x100 bytes long, one after another from 0x1000 on.
struct Kernel {
  std::vector<std::string> functions;
  bool is_named = true;

  std::optional<std::string> name_of(Address address) const {
    if (!is_named) return std::nullopt;
    return functions.at((address - 0x1000) / 0x100);
  }
  /// A call returns to the first byte of the next function, as where a function ends with one.
  [[nodiscard]] bpf::StackSample stack() const {
    bpf::StackSample sample;
    sample.head.event.tid = 5;
    for (std::size_t n = 0; n < functions.size(); ++n)
      sample.kernel_stack.push_back(0x1000 + n * 0x100 + (n == 0 ? 0 : 0x100));
    return sample;
  }
  [[nodiscard]] WakingStack look() const {
    WakingStacks stacks([this](Address address) { return name_of(address); });
    return stacks.look_at(stack());
  }
};

TEST(WakingStacks, OfAThreadIsAllBelowWhatTraces) {
  const WakingStack its =
      Kernel{{"bpf_prog_1_woken", "bpf_trace_run1", "try_to_wake_up", "wake_up_q", "futex_wake",
              "do_syscall_64", "entry_SYSCALL_64_after_hwframe"}}
          .look();
  EXPECT_EQ(its.by, WokenBy::thread);
  EXPECT_EQ(its.first, 2u);
  EXPECT_EQ(its.end, 7u);
}

TEST(WakingStacks, OfAnInterruptIsNothingThatItInterrupted) {
  const WakingStack its = Kernel{
      {"bpf_prog_1_woken", "try_to_wake_up", "hrtimer_wakeup", "hrtimer_interrupt",
       "sysvec_apic_timer_interrupt", "asm_sysvec_apic_timer_interrupt", "vfs_write",
       "do_syscall_64"}}.look();
  EXPECT_EQ(its.by, WokenBy::interrupt);
  EXPECT_EQ(its.first, 1u);
  EXPECT_EQ(its.end, 6u);
}

TEST(WakingStacks, SoftirqsAreAnInterruptsOrAThreadsByWhoRunsThem) {
  EXPECT_EQ((Kernel{{"try_to_wake_up", "sock_def_readable", "handle_softirqs", "__irq_exit_rcu",
                     "common_interrupt", "asm_common_interrupt"}}
                 .look()
                 .by),
            WokenBy::interrupt);
  EXPECT_EQ((Kernel{{"try_to_wake_up", "sock_def_readable", "handle_softirqs", "do_softirq",
                     "__local_bh_enable_ip", "tcp_sendmsg", "do_syscall_64"}}
                 .look()
                 .by),
            WokenBy::thread);
}

TEST(WakingStacks, WithoutNamesOrAStackNothingIsKnown) {
  EXPECT_EQ((Kernel{{"try_to_wake_up", "futex_wake"}, false}.look().by), WokenBy::unknown);
  EXPECT_EQ((Kernel{{}}.look().by), WokenBy::unknown);
  WakingStacks stacks([](Address) { return std::optional<std::string>("try_to_wake_up"); });
  bpf::StackSample idle = Kernel{{"try_to_wake_up"}}.stack();
  idle.head.event.tid = 0;
  EXPECT_EQ(stacks.look_at(idle).by, WokenBy::interrupt);
}

std::vector<std::pair<std::string, std::string>> pairs(const std::vector<format::Label>& labels) {
  std::vector<std::pair<std::string, std::string>> out;
  for (const format::Label& label : labels) out.emplace_back(label.key, label.value);
  return out;
}

TEST(WakerLabels, HaveKeysOfTheirOwn) {
  vitrine_event_header header{};
  header.pid = 4;
  header.tid = 5;
  std::memcpy(header.comm, "pool", 5);
  format::LabelSet displayed;
  displayed.labels = {{"tenant", "acme"}, {"pid", "hers"}, {"label.pid", "x"}, {"waker.pid", "y"}};
  displayed.trace.emplace();
  displayed.trace->trace_id[0] = 0xab;
  EXPECT_EQ(labels_of_waker(header, "server", displayed).size(), 8U);  // that leads to no span
  displayed.trace->span_id[7] = 1;
  const auto labels = labels_of_waker(header, "server", displayed);
  EXPECT_THAT(
      pairs(labels),
      ElementsAre(Pair("waker.process", "server"), Pair("waker.pid", "4"), Pair("waker.tid", "5"),
                  Pair("waker.thread", "pool"), Pair("waker.trace_id", "ab" + std::string(30, '0')),
                  Pair("waker.span_id", std::string(15, '0') + '1'), Pair("waker.tenant", "acme"),
                  Pair("waker.label.pid", "hers"), Pair("waker.label.label.pid", "x"),
                  Pair("waker.waker.pid", "y")));
}

TEST(WakerLabels, AreNotTakenForTheOnesOfTheWaiting) {
  format::LabelSet own;
  own.labels = {{"tenant", "globex"},
                {"waker.tenant", "false"},
                {"label.waker.tenant", "other"},
                {"waker.", "empty"}};
  add_waker({{"waker.tenant", "acme"}}, own);
  EXPECT_THAT(pairs(own.labels),
              ElementsAre(Pair("tenant", "globex"), Pair("label.label.waker.tenant", "false"),
                          Pair("label.waker.tenant", "other"), Pair("label.waker.", "empty"),
                          Pair("waker.tenant", "acme")));
}

}  // namespace
}  // namespace vitrine::observe
