// Users with few rights: the capabilities of docs/formats/custom-labels.md, "Rights" suffice, and
// without them the refusal says what is missing.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "observe/observe_subject.hpp"

namespace vitrine::observe {
namespace {

using testing::HasSubstr;
using testing::Not;

constexpr uid_t nobody = 65534;
constexpr int exit_not_permitted = 3;

/// The reader as user nobody, with just these capabilities ("+bpf,+perfmon"; "-all": none).
test::Outcome read_as_nobody(const std::string& capabilities, Mode mode, pid_t pid) {
  return test::run({"setpriv", "--reuid=65534", "--regid=65534", "--clear-groups",
                    "--inh-caps=" + capabilities, "--ambient-caps=" + capabilities, "--",
                    OBSERVE_READER, std::string(name(mode)), std::to_string(pid), "5", "200"});
}

const char* evidence_in(Mode mode) {
  return mode == Mode::snapshot ? " proven tid="
         : mode == Mode::ebpf   ? " sampled tid="
                                : " stopped tid=";
}

class Permission : public testing::TestWithParam<Mode> {};

TEST_P(Permission, TheDocumentedCapabilitiesSuffice) {
  test::Child target = test::start_subject("churn");  // of root; always on a CPU
  const auto outcome = read_as_nobody("+bpf,+perfmon,+sys_ptrace", GetParam(), target.pid());
  EXPECT_EQ(outcome.status, 0) << outcome.out << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr(evidence_in(GetParam())));
  EXPECT_THAT(outcome.out, Not(HasSubstr("by /proc only")));
}

TEST_P(Permission, WithoutThemTheProcessesOfOthersAreRefused) {
  test::Child target = test::start_subject("work");
  const auto outcome = read_as_nobody("-all", GetParam(), target.pid());
  EXPECT_EQ(outcome.status, exit_not_permitted) << outcome.out << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("CAP_SYS_PTRACE"));
}

TEST_P(Permission, WithoutThemOnesOwnProcessesAreReadAsFarAsThatGoes) {
  test::ChildOptions as_nobody;
  as_nobody.uid = nobody;
  test::Child target = test::start_subject("work", as_nobody);
  const auto outcome = read_as_nobody("-all", GetParam(), target.pid());
  if (GetParam() == Mode::ebpf) {
    EXPECT_EQ(outcome.status, exit_not_permitted) << outcome.out << outcome.err;
    EXPECT_THAT(outcome.out, HasSubstr("CAP_BPF and CAP_PERFMON"));
    return;
  }
  EXPECT_EQ(outcome.status, 0) << outcome.out << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr(evidence_in(GetParam())));
  if (GetParam() == Mode::snapshot) {
    EXPECT_THAT(outcome.out, HasSubstr("by /proc only"));
  }
}

INSTANTIATE_TEST_SUITE_P(Modes, Permission,
                         testing::Values(Mode::snapshot, Mode::ebpf, Mode::ptrace),
                         [](const auto& row) { return std::string(name(row.param)); });

}  // namespace
}  // namespace vitrine::observe
