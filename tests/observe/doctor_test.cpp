// What doctor says about this machine, against what is so.
#include "observe/doctor.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "bpf/availability.hpp"
#include "support/child.hpp"

namespace vitrine::observe {
namespace {

using Verdict = Finding::Verdict;

Finding find(const std::vector<Finding>& findings, const std::string& what) {
  for (const Finding& finding : findings)
    if (finding.what == what) return finding;
  ADD_FAILURE() << "nothing is said about " << what;
  return {};
}

TEST(Doctor, SeesWhatRootMayDo) {
  ASSERT_EQ(::geteuid(), 0u);
  const auto findings = examine();
  for (const char* what : {"CAP_SYS_PTRACE", "CAP_BPF", "CAP_PERFMON", "ptrace", "schedstat"})
    EXPECT_EQ(find(findings, what).verdict, Verdict::yes) << what;
  const bool bpf = bpf::built_in() && ::access(bpf::kernel_btf, R_OK) == 0;
  EXPECT_EQ(find(findings, "snapshot").verdict, bpf ? Verdict::yes : Verdict::partial);
  EXPECT_EQ(find(findings, "ebpf").verdict, bpf ? Verdict::yes : Verdict::no);
}

TEST(Doctor, SaysHowToEnableWhatIsNotThere) {
  for (const Finding& finding : examine())
    EXPECT_EQ(finding.remedy.empty(), finding.verdict == Verdict::yes)
        << finding.what << ": " << finding.detail;
}

TEST(Doctor, SeesWhatAnOrdinaryUserMayNot) {
  test::ChildOptions nobody;
  nobody.uid = 65534;
  const test::Outcome outcome = test::run({OBSERVE_READER, "doctor"}, nobody);
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  for (const char* line : {"CAP_BPF no", "CAP_PERFMON no", "CAP_SYS_PTRACE no", "ebpf no",
                           "snapshot partly", "ptrace partly"})
    EXPECT_THAT(outcome.out, testing::HasSubstr(std::string(line) + "\n"));
}

}  // namespace
}  // namespace vitrine::observe
