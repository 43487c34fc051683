// vitrine profile: what it refuses before it samples, and which rights it needs.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "cli/profile_command.hpp"

namespace vitrine::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

TEST(ProfileCommand, RefusesWhatMakesNoSense) {
  EXPECT_EQ(profile({}).status, 2);
  EXPECT_EQ(profile({"--all", "1"}).status, 2);
  EXPECT_EQ(profile({"1", "--format", "xml"}).status, 2);
  EXPECT_EQ(profile({"1", "-o", "profile.xml"}).status, 2);
  EXPECT_EQ(profile({"1", "-o", "a.html", "--format", "html", "--format", "json"}).status, 2);
  EXPECT_EQ(profile({"1", "--format", "json", "--format", "folded"}).status, 2);
  EXPECT_EQ(profile({"1", "--filter", "tenant"}).status, 2);
  EXPECT_EQ(profile({"1", "--preempted"}).status, 2);
  EXPECT_EQ(profile({"1", "--wakers"}).status, 2);
  EXPECT_EQ(profile({"1", "--watch"}).status, 2);
  EXPECT_EQ(profile({"1", "--freq", "0"}).status, 2);
  EXPECT_EQ(profile({"2147483600"}).status, 4);
  EXPECT_EQ(profile({"--exec", "--", "/no/such/program"}).status, 4);
}

TEST(ProfileCommand, SaysBeforeItSamplesThatItCannotWrite) {
  const Directory directory;
  const Outcome missing = profile({"--all", "--duration", "60s", "-o", directory.at("no/p.html")});
  EXPECT_EQ(missing.status, 4);
  EXPECT_THAT(missing.err, HasSubstr("no/p.html cannot be written: No such file or directory"));
  EXPECT_EQ(profile({"--all", "--format", "html", "-o", directory.path()}).status, 1);
  // A folder that says that it can be written to, and where no file can be made.
  const Outcome proc = profile({"--all", "--duration", "60s", "-o", "/proc/p.html"});
  EXPECT_EQ(proc.status, 4);
  EXPECT_THAT(proc.err,
              AllOf(HasSubstr("/proc/p.html cannot be written"), HasSubstr("a writable directory"),
                    Not(HasSubstr("vitrine: profiling"))));
}

TEST(ProfileCommand, RefusesTwoOutputsThatAreOneFile) {
  const Directory directory;
  const std::string file = directory.at("p.ndjson");
  std::filesystem::create_symlink(directory.path(), directory.at("link"));
  for (const std::string& same :
       {file, directory.at("./p.ndjson"), directory.at("link/p.ndjson")}) {
    const Outcome outcome = profile({"--all", "--duration", "60s", "-o", file, "-o", same});
    EXPECT_EQ(outcome.status, 2) << same;
    EXPECT_THAT(outcome.err, HasSubstr(same + ": two outputs are one file"));
  }
  EXPECT_FALSE(std::filesystem::exists(file));
}

/// `vitrine profile` as user nobody, with just these capabilities.
Outcome as_nobody(const std::string& capabilities, std::vector<std::string> arguments) {
  std::vector<std::string> words{"setpriv",
                                 "--reuid=65534",
                                 "--regid=65534",
                                 "--clear-groups",
                                 "--inh-caps=" + capabilities,
                                 "--ambient-caps=" + capabilities,
                                 "--",
                                 VITRINE,
                                 "profile"};
  words.insert(words.end(), arguments.begin(), arguments.end());
  return run(words);
}

TEST(ProfileCommand, SaysWhichCapabilitiesAreMissing) {
  Child subject = start_subject({"burn acme"});
  const Outcome refused = as_nobody("-all", {std::to_string(subject.pid())});
  EXPECT_EQ(refused.status, 3) << refused.err;
  EXPECT_THAT(refused.err, AllOf(HasSubstr("CAP_BPF"), HasSubstr("CAP_PERFMON")));
}

TEST(ProfileCommand, AFileThatItMayNotOpenIsNamed) {
  Child subject = start_subject({"burn acme"});
  const Outcome outcome =
      as_nobody("+bpf,+perfmon", {std::to_string(subject.pid()), "--duration", "1s"});
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_THAT(outcome.err, HasSubstr("cannot open " PROFILE_SUBJECT ": Permission denied"));
  EXPECT_THAT(outcome.err, Not(HasSubstr("cannot open task/")));
}

TEST(ProfileCommand, NeedsNoRoot) {
  Child subject = start_subject({"burn acme"});
  const Outcome outcome = as_nobody("+bpf,+perfmon,+sys_ptrace",
                                    {std::to_string(subject.pid()), "--freq", "999", "--duration",
                                     "2s", "--off-cpu", "--on-cpu", "--format", "json"});
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  const auto samples = parse(outcome.out).where(of_tenant("acme"));
  ASSERT_THAT(samples, Not(IsEmpty())) << outcome.err;
  EXPECT_TRUE(has_frame(samples.front(), "burn()"));
}

}  // namespace
}  // namespace vitrine::test
