#include "sandbox/capabilities.hpp"

#include <gtest/gtest.h>
#include <sys/capability.h>
#include <sys/prctl.h>

#include <fstream>
#include <string>

#include "sandbox/child_process.hpp"

namespace vitrine::sandbox {
namespace {

using test::in_child;

/// A mask of /proc/self/status: "CapEff".
std::uint64_t mask(const std::string& field) {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);)
    if (line.rfind(field + ":", 0) == 0)
      return std::stoull(line.substr(field.size() + 1), nullptr, 16);
  return ~0ULL;
}

TEST(Capabilities, AreSets) {
  constexpr Capabilities two{CAP_BPF, CAP_PERFMON};
  static_assert(two.has(CAP_BPF) && !two.has(CAP_SYS_ADMIN));
  static_assert((two | Capabilities{CAP_SYS_ADMIN}).has_all(two));
  static_assert(!two.has_all({CAP_BPF, CAP_SYS_ADMIN}));
  static_assert(two.without({CAP_BPF}) == Capabilities{CAP_PERFMON});
  static_assert((two & Capabilities{CAP_BPF, CAP_KILL}) == Capabilities{CAP_BPF});
  static_assert(Capabilities().empty());
}

TEST(Capabilities, HaveTheNamesOfTheManual) {
  EXPECT_EQ(Capabilities().text(), "no capability");
  EXPECT_EQ(Capabilities({CAP_BPF}).text(), "CAP_BPF");
  EXPECT_EQ(Capabilities({CAP_BPF, CAP_SYS_PTRACE, CAP_PERFMON}).text(),
            "CAP_SYS_PTRACE, CAP_PERFMON and CAP_BPF");
  EXPECT_EQ(Capabilities({CAP_BPF, CAP_PERFMON}).setcap_text(), "cap_perfmon,cap_bpf");
}

TEST(Capabilities, OfAMachineThatHasMoreHaveANumber) {
  EXPECT_EQ(Capabilities::of_bits(1ULL << 63).text(), "63");
}

TEST(KeepOnly, LeavesTheOthersInNoSet) {
  ASSERT_EQ(::geteuid(), 0U);
  constexpr Capabilities keep{CAP_SYS_PTRACE, CAP_BPF};
  const int outcome = in_child([&] {
    // As a shell of a user with capabilities has them.
    const cap_t state = cap_get_proc();
    const cap_value_t some[] = {CAP_BPF, CAP_KILL};
    if (cap_set_flag(state, CAP_INHERITABLE, 2, some, CAP_SET) != 0 || cap_set_proc(state) != 0)
      return 1;
    for (const cap_value_t one : some)
      if (cap_set_ambient(one, CAP_SET) != 0) return 2;
    if (!keep_only(keep)) return 3;
    if (mask("CapEff") != keep.bits()) return 4;
    if (mask("CapPrm") != keep.bits()) return 5;
    if (mask("CapBnd") != keep.bits()) return 6;
    if (mask("CapInh") != Capabilities{CAP_BPF}.bits()) return 7;
    if (mask("CapAmb") != Capabilities{CAP_BPF}.bits()) return 8;
    if (effective_capabilities() != keep) return 9;
    if (!keep_only({})) return 10;
    return effective_capabilities().empty() && mask("CapPrm") == 0 ? 0 : 11;
  });
  EXPECT_EQ(outcome, 0);
}

TEST(KeepOnly, GivesNothingThatWasNotThere) {
  const int outcome = in_child([] {
    if (!keep_only({CAP_BPF}) || !keep_only({CAP_BPF, CAP_KILL})) return 1;
    return effective_capabilities() == Capabilities{CAP_BPF} ? 0 : 2;
  });
  EXPECT_EQ(outcome, 0);
}

TEST(KeepOnly, OfAUserWithoutCapabilitiesChangesNothing) {
  const int outcome = in_child([] {
    if (::setgid(65534) != 0 || ::setuid(65534) != 0) return 1;
    const std::uint64_t bounds = mask("CapBnd");
    if (!keep_only({CAP_BPF})) return 2;
    return effective_capabilities().empty() && mask("CapBnd") == bounds ? 0 : 3;
  });
  EXPECT_EQ(outcome, 0);
}

TEST(GainNothing, HoldsForGood) {
  const int outcome = in_child([] {
    if (!set_no_new_privs()) return 1;
    return ::prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1 ? 0 : 2;
  });
  EXPECT_EQ(outcome, 0);
}

}  // namespace
}  // namespace vitrine::sandbox
