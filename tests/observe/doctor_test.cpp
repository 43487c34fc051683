// What doctor says about this machine, against what is so.
#include "observe/doctor.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>

#include "bpf/availability.hpp"

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
  const pid_t child = ::fork();
  if (child == 0) {
    if (::setgid(65534) != 0 || ::setuid(65534) != 0) ::_exit(2);
    const auto findings = examine();
    const bool ok = find(findings, "CAP_BPF").verdict == Verdict::no &&
                    find(findings, "ebpf").verdict == Verdict::no &&
                    !find(findings, "ebpf").remedy.empty() &&
                    find(findings, "snapshot").verdict == Verdict::partial &&
                    find(findings, "ptrace").verdict == Verdict::partial;
    ::_exit(ok ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

}  // namespace
}  // namespace vitrine::observe
