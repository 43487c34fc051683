// `vitrine ps`: real processes that publish something, among many that do not.
#include "observe/ps.hpp"

#include <gmock/gmock.h>
#include <grp.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <optional>

#include "support/child.hpp"

namespace vitrine::observe {
namespace {

using namespace vitrine::test;
using testing::Contains;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::Not;

struct Subject {
  Child child;
  pid_t other = 0;  ///< a child of it
};

Subject start(const char* program, const char* mode) {
  Subject subject{Child::spawn({program, mode})};
  for (const std::string& line : subject.child.read_until("ready"))
    if (line.rfind("child ", 0) == 0) subject.other = std::atoi(line.c_str() + 6);
  return subject;
}

std::optional<Publisher> find(const PublisherList& list, pid_t pid) {
  for (const Publisher& publisher : list.publishers)
    if (publisher.pid == pid) return publisher;
  return std::nullopt;
}

PublisherList listed() {
  auto list = list_publishers();
  EXPECT_TRUE(list) << list.error().message;
  return list ? *list : PublisherList{};
}

TEST(Ps, FindsWhatPublishesLabels) {
  const Subject subject = start(LABELS_SUBJECT, "labels");
  const auto found = find(listed(), subject.child.pid());
  ASSERT_TRUE(found);
  EXPECT_THAT(found->formats, ElementsAre(format::Format::custom_labels_v1));
  EXPECT_FALSE(found->has_context);
  EXPECT_EQ(found->service, "");
  EXPECT_EQ(found->threads, 1u);
  EXPECT_EQ(found->comm, "ps_labels_subje");
  EXPECT_THAT(found->problems, IsEmpty());
}

TEST(Ps, FindsWhatPublishesAContext) {
  const Subject subject = start(PLAIN_SUBJECT, "context");
  const auto found = find(listed(), subject.child.pid());
  ASSERT_TRUE(found);
  EXPECT_THAT(found->formats, IsEmpty());
  EXPECT_TRUE(found->has_context);
  EXPECT_EQ(found->service, "checkout");
}

TEST(Ps, LeavesOutWhatPublishesNothing) {
  const Subject subject = start(PLAIN_SUBJECT, "nothing");
  const PublisherList list = listed();
  EXPECT_FALSE(find(list, subject.child.pid()));
  EXPECT_GE(list.looked_at, 2u);
}

TEST(Ps, LeavesOutAVforkChildThatBorrowsItsParentsMemory) {
  const Subject subject = start(LABELS_SUBJECT, "vfork");
  ASSERT_NE(subject.other, 0);
  const PublisherList list = listed();
  EXPECT_TRUE(find(list, subject.child.pid()));
  EXPECT_FALSE(find(list, subject.other));
}

TEST(Ps, KeepsAForkedChildWhichHasMemoryOfItsOwn) {
  const Subject subject = start(LABELS_SUBJECT, "fork");
  ASSERT_NE(subject.other, 0);
  const PublisherList list = listed();
  const auto parent = find(list, subject.child.pid());
  const auto child = find(list, subject.other);
  ASSERT_TRUE(parent && child);
  EXPECT_TRUE(parent->has_context);
  EXPECT_FALSE(child->has_context) << "its mapping is not inherited";
  EXPECT_THAT(child->formats, ElementsAre(format::Format::custom_labels_v1));
}

/// What `list` says when run in a process of its own, prepared by `prepare`: one line each of
/// "not permitted N" and "publisher PID".
template <class Prepare>
std::vector<std::string> listed_after(Prepare prepare) {
  int ends[2];
  EXPECT_EQ(pipe(ends), 0);
  const pid_t pid = fork();
  if (pid == 0) {
    if (!prepare()) _exit(1);
    const auto list = list_publishers();
    if (!list) _exit(2);
    dprintf(ends[1], "not permitted %zu\n", list->not_permitted);
    for (const Publisher& publisher : list->publishers)
      dprintf(ends[1], "publisher %d\n", publisher.pid);
    _exit(0);
  }
  close(ends[1]);
  std::vector<std::string> lines;
  FILE* output = fdopen(ends[0], "r");
  char line[100];
  while (std::fgets(line, sizeof line, output)) lines.emplace_back(line, std::strcspn(line, "\n"));
  std::fclose(output);
  int status = -1;
  EXPECT_EQ(waitpid(pid, &status, 0), pid);
  EXPECT_EQ(status, 0);
  return lines;
}

std::string publisher_line(pid_t pid) {
  return "publisher " + std::to_string(pid);
}

TEST(Ps, CountsProcessesThatAnotherUserMayNotLookInto) {
  ASSERT_EQ(geteuid(), 0u) << "needs root, to drop to another user";
  const Subject subject = start(LABELS_SUBJECT, "labels");
  const auto lines = listed_after(
      [] { return setgroups(0, nullptr) == 0 && setgid(65534) == 0 && setuid(65534) == 0; });
  ASSERT_FALSE(lines.empty());
  EXPECT_GE(std::atoi(lines[0].c_str() + sizeof "not permitted"), 2) << "the subject and this test";
  EXPECT_THAT(lines, Not(Contains(publisher_line(subject.child.pid()))));
}

/// Makes kcmp(2) fail, as containers do.
bool refuse_kcmp() {
  sock_filter program[] = {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
                           BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_kcmp, 0, 1),
                           BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
                           BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
  const sock_fprog filter{4, program};
  return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) == 0;
}

TEST(Ps, TellsVforkFromForkWithoutKcmp) {
  const Subject vforked = start(LABELS_SUBJECT, "vfork");
  const Subject forked = start(LABELS_SUBJECT, "fork");
  const auto lines = listed_after(refuse_kcmp);
  EXPECT_THAT(lines, Contains(publisher_line(vforked.child.pid())));
  EXPECT_THAT(lines, Not(Contains(publisher_line(vforked.other))));
  EXPECT_THAT(lines, Contains(publisher_line(forked.child.pid())));
  EXPECT_THAT(lines, Contains(publisher_line(forked.other)));
}

TEST(Ps, LooksAtHundredsOfProcesses) {
  std::vector<Child> sleepers;
  for (int i = 0; i < 300; ++i) sleepers.push_back(Child::spawn({"sleep", "100"}));
  EXPECT_GE(listed().looked_at, 300u);
}

}  // namespace
}  // namespace vitrine::observe
