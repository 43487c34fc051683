// The process context where processes come and go, and where the kernel refuses things.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <linux/filter.h>
#include <linux/sched.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <vitrine/context.hpp>

#include "publish/context/publisher.hpp"
#include "publish/context_peer.hpp"

namespace vitrine {
namespace {

using context::AtFork;
using context::Errc;
using test::context_mappings;
using test::decode;
using test::in_fork;
using test::read_context;
using test::value_of;
using testing::HasSubstr;

std::string shown(pid_t pid = getpid()) {
  const auto context = read_context(pid);
  return context ? decode(context->payload) : std::string();
}

std::string own_pid() {
  return "int_value: " + std::to_string(getpid());
}

/// What another library publishes: a page of that name, with the signature if `signs`.
void* map_another(bool signs) {
  const int fd = memfd_create("OTEL_CTX", MFD_CLOEXEC);
  if (fd < 0 || ftruncate(fd, 4096) != 0) return nullptr;
  void* page = mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
  close(fd);
  std::memcpy(page, signs ? "OTEL_CTX" : "OTEL_CTY", 8);
  return page;
}

std::size_t contexts() {
  return test::context_signatures(getpid()).size();
}

TEST(ContextOfAnother, IsNotJoinedByOneThatOnlyAKeyAsksFor) {
  in_fork([] {
    void* page = map_another(true);
    ASSERT_NE(page, nullptr);
    bool later = false;
    EXPECT_FALSE(publish::otel_key_index("tenant", &later));
    EXPECT_TRUE(later);
    EXPECT_EQ(contexts(), 1U);
    // Its library removes it.
    ASSERT_EQ(munmap(page, 4096), 0);
    EXPECT_TRUE(publish::otel_key_index("tenant"));
    EXPECT_EQ(contexts(), 1U);
    EXPECT_THAT(value_of(shown(), "threadlocal.attribute_key_map"), HasSubstr("tenant"));
  });
}

TEST(ContextOfAnother, IsReportedToTheApplicationThatPublishes) {
  in_fork([] {
    ASSERT_NE(map_another(true), nullptr);
    const context::Status first = context::publish({{"service.name", "shop"}});
    EXPECT_TRUE(first);
    EXPECT_THAT(std::string(first.message()), HasSubstr("another copy of this one"));
    EXPECT_EQ(contexts(), 2U) << "the application asked for it";
    EXPECT_TRUE(publish::otel_key_index("tenant"));
    const context::Status again = context::publish({{"service.name", "shop"}});
    EXPECT_TRUE(again);
    EXPECT_EQ(again.message(), "") << "reported once";
  });
}

TEST(ContextOfAnother, IsOneWithTheSignatureAlone) {
  in_fork([] {
    ASSERT_NE(map_another(false), nullptr);
    EXPECT_TRUE(publish::otel_key_index("tenant"));
    EXPECT_EQ(contexts(), 1U);
    EXPECT_EQ(context::publish({{"service.name", "shop"}}).message(), "");
  });
}

TEST(ContextFork, RepublishesInTheChildAsAnotherInstance) {
  in_fork([] {
    ASSERT_TRUE(publish::otel_key_index("tenant"));
    ASSERT_TRUE(context::publish({{"service.name", "shop"}}));
    const auto parents = read_context(getpid());
    const std::string parents_id = value_of(decode(parents->payload), "service.instance.id");
    in_fork([&] {
      const std::string mine = shown();
      EXPECT_EQ(value_of(mine, "service.name"), R"(string_value: "shop")");
      EXPECT_EQ(value_of(mine, "process.pid"), own_pid());
      EXPECT_NE(value_of(mine, "service.instance.id"), "");
      EXPECT_NE(value_of(mine, "service.instance.id"), parents_id);
      EXPECT_THAT(value_of(mine, "threadlocal.attribute_key_map"), HasSubstr("tenant"));
    });
    EXPECT_EQ(read_context(getpid())->stamp, parents->stamp) << "the parent's is untouched";
  });
}

TEST(ContextFork, KeepsAnInstanceIdThatTheApplicationGave) {
  in_fork([] {
    ASSERT_TRUE(context::publish({{"service.instance.id", "worker-7"}}));
    in_fork(
        [] { EXPECT_EQ(value_of(shown(), "service.instance.id"), R"(string_value: "worker-7")"); });
  });
}

TEST(ContextFork, DropsInTheChildOnRequestUntilItsNextUse) {
  in_fork([] {
    context::Options options;
    options.at_fork = AtFork::drop;
    ASSERT_TRUE(context::publish({{"service.name", "shop"}}, options));
    in_fork([] {
      EXPECT_FALSE(read_context(getpid()));
      ASSERT_TRUE(context::update({{"role", "worker"}}));
      const std::string mine = shown();
      EXPECT_EQ(value_of(mine, "process.pid"), own_pid());
      EXPECT_EQ(value_of(mine, "service.name"), R"(string_value: "shop")");
      EXPECT_EQ(value_of(mine, "role"), R"(string_value: "worker")");
    });
    in_fork([] {
      ASSERT_TRUE(publish::otel_key_index("a new key"));
      EXPECT_EQ(value_of(shown(), "process.pid"), own_pid());
    });
  });
}

TEST(ContextFork, NoticesAForkThatRanNoHandlers) {
  in_fork([] {
    ASSERT_TRUE(context::publish());
    const pid_t child = _Fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      const bool none = !read_context(getpid());
      const bool published = static_cast<bool>(context::update({{"back", true}}));
      _exit(none && published && value_of(shown(), "process.pid") == own_pid() ? 0 : 1);
    }
    int status = -1;
    waitpid(child, &status, 0);
    EXPECT_EQ(status, 0);
    EXPECT_EQ(value_of(shown(), "process.pid"), own_pid());
  });
}

TEST(ContextFork, RefusesToSpeakForTheParentInAVforkChild) {
  in_fork([] {
    ASSERT_TRUE(context::publish());
    const auto before = read_context(getpid());
    // What vfork and posix_spawn do underneath; TSan's own vfork is a fork.
    Errc code = Errc::none;
    alignas(16) static char stack[256 * 1024];
    const auto child = [](void* result) {
      *static_cast<Errc*>(result) = context::update({{"who", "child"}}).code();
      return 0;
    };
    const pid_t pid = clone(child, stack + sizeof stack, CLONE_VM | CLONE_VFORK | SIGCHLD, &code);
    ASSERT_EQ(waitpid(pid, nullptr, 0), pid);
    EXPECT_EQ(code, Errc::shared_memory);
    EXPECT_EQ(read_context(getpid())->stamp, before->stamp);
    EXPECT_TRUE(context::update({{"who", "parent"}})) << "the parent goes on as before";
  });
}

/// A child by the bare system call: no handler runs in it.
pid_t bare_clone(unsigned long flags = 0) {
  return static_cast<pid_t>(
      syscall(SYS_clone, flags | SIGCHLD, nullptr, nullptr, nullptr, nullptr));
}
pid_t bare_clone3(unsigned long flags = 0) {
  clone_args arguments{};
  arguments.flags = flags;
  arguments.exit_signal = SIGCHLD;
  return static_cast<pid_t>(syscall(SYS_clone3, &arguments, sizeof arguments));
}

void expect_success_of(pid_t child) {
  ASSERT_GT(child, 0);
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0) << "in the child";
}

/// What a child by a bare clone can do: 0 if it publishes as itself, and goes on.
int publishes_as_itself() {
  if (!context::update({{"back", true}})) return 1;
  if (value_of(shown(), "process.pid") != own_pid()) return 2;
  if (!context::update({{"back", false}})) return 3;
  if (value_of(shown(), "back") != "bool_value: false") return 4;
  return 0;
}

// Mapped in the child where the parent has its context, by whoever maps first.
TEST(ContextFork, KnowsABareCloneWhoseFirstMappingHasTheAddress) {
  in_fork([] {
    ASSERT_TRUE(context::publish());
    const auto parents = read_context(getpid());
    for (auto* clone_child : {bare_clone, bare_clone3}) {
      for (const int protection : {PROT_READ | PROT_WRITE, PROT_READ, PROT_NONE}) {
        const pid_t child = clone_child(0);
        if (child == 0) {
          void* here = reinterpret_cast<void*>(parents->address);
          void* page = mmap(here, parents->bytes, protection,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
          if (page != here) _exit(100);
          const int failed = publishes_as_itself();
          // Not overwritten, and still there.
          if (protection != PROT_NONE && *static_cast<volatile char*>(page) != 0) _exit(101);
          _exit(munmap(page, parents->bytes) == 0 ? failed : 102);
        }
        if (child < 0 && errno == ENOSYS) continue;
        expect_success_of(child);
      }
    }
    EXPECT_EQ(read_context(getpid())->stamp, parents->stamp);
    EXPECT_TRUE(context::update({{"who", "parent"}}));
  });
}

// In a namespace of its own a child may have its parent's process id: 1.
TEST(ContextFork, KnowsABareCloneWithTheSameProcessId) {
  in_fork([] {
    const unsigned long new_ids = CLONE_NEWPID | (geteuid() == 0 ? 0 : CLONE_NEWUSER);
    for (auto* clone_child : {bare_clone, bare_clone3}) {
      const pid_t first = clone_child(new_ids);
      if (first < 0) GTEST_SKIP() << "no process id namespaces here: " << std::strerror(errno);
      if (first == 0) {
        if (getpid() != 1 || !context::update({{"who", "first"}})) _exit(100);
        // By the address alone: /proc is of another namespace.
        const pid_t second = clone_child(CLONE_NEWPID);
        if (second == 0) {
          if (getpid() != 1) _exit(101);
          const auto updated = context::update({{"who", "second"}});
          const bool again = static_cast<bool>(context::update({{"who", "second"}}));
          _exit(updated && again ? 0 : 102);
        }
        int status = -1;
        if (second < 0 || waitpid(second, &status, 0) != second) _exit(103);
        if (status != 0) _exit(WIFSIGNALED(status) ? 104 : WEXITSTATUS(status));
        _exit(context::update({{"who", "first again"}}) ? 0 : 105);
      }
      expect_success_of(first);
    }
  });
}

TEST(ContextFork, EndsWithExecAndPosixSpawn) {
  in_fork([] {
    ASSERT_TRUE(context::publish());
    const char* argv[] = {"sleep", "20", nullptr};
    pid_t spawned = -1;
    ASSERT_EQ(posix_spawnp(&spawned, "sleep", nullptr, nullptr, const_cast<char**>(argv), environ),
              0);
    const pid_t forked = fork();
    if (forked == 0) {
      execvp("sleep", const_cast<char**>(argv));
      _exit(127);
    }
    for (const pid_t child : {spawned, forked}) {
      char name[16] = {};
      const std::string comm = "/proc/" + std::to_string(child) + "/comm";
      for (int i = 0; i < 5000 && std::string(name) != "sleep\n"; ++i) {
        usleep(1000);  // until it has called exec
        if (FILE* file = std::fopen(comm.c_str(), "r")) {
          static_cast<void>(std::fgets(name, sizeof name, file));
          std::fclose(file);
        }
      }
      EXPECT_STREQ(name, "sleep\n");
      EXPECT_TRUE(context_mappings(child).empty());
      kill(child, SIGKILL);
      waitpid(child, nullptr, 0);
    }
  });
}

TEST(ContextFork, NeverDeadlocksWhileThreadsPublish) {
  in_fork([] {
    ASSERT_TRUE(context::publish());
    std::atomic<bool> stop{false};
    std::thread writer([&] {
      for (int i = 0; !stop; ++i) EXPECT_TRUE(context::update({{"n", i}}));
    });
    for (int i = 0; i < 50; ++i)
      in_fork([] {
        alarm(20);
        EXPECT_TRUE(context::update({{"n", "child"}}));
        EXPECT_TRUE(read_context(getpid()));
      });
    stop = true;
    writer.join();
  });
}

/// From here on, system call `number` is answered with `action`, where the word of its argument
/// `argument` has all bits of `mask` set.
void answer(long number, std::uint32_t action, unsigned argument = 0, std::uint32_t mask = 0) {
  const auto offset = static_cast<std::uint32_t>(offsetof(seccomp_data, args) + 8 * argument);
  sock_filter filter[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, static_cast<std::uint32_t>(number), 0, 4),
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offset),
      BPF_STMT(BPF_ALU | BPF_AND | BPF_K, mask),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, mask, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, action),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  const sock_fprog program{std::size(filter), filter};
  ASSERT_EQ(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
  ASSERT_EQ(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program), 0);
}

constexpr std::uint32_t refuse(std::uint32_t error) {
  return SECCOMP_RET_ERRNO | error;
}

constexpr std::uint32_t name_mapping = 0x53564d41;  // PR_SET_VMA, the first argument of prctl

TEST(ContextKernel, TakesAnAnonymousMappingWhereMemfdIsRefused) {
  in_fork([] {
    answer(SYS_memfd_create, refuse(EPERM));
    answer(SYS_prctl, refuse(0), 0, name_mapping);  // a kernel that names anonymous mappings
    ASSERT_TRUE(context::publish({{"service.name", "shop"}}));
    const auto found = test::context_signatures(getpid());
    ASSERT_EQ(found.size(), 1U);
    const auto context = test::read_context_at(getpid(), found.front());
    ASSERT_TRUE(context);
    EXPECT_EQ(value_of(decode(context->payload), "service.name"), R"(string_value: "shop")");
  });
}

TEST(ContextKernel, SaysSoWhenNoReaderCouldFindIt) {
  in_fork([] {
    answer(SYS_memfd_create, refuse(EPERM));
    answer(SYS_prctl, refuse(EINVAL), 0, name_mapping);
    const auto refused = context::publish();
    EXPECT_EQ(refused.code(), Errc::unsupported);
    EXPECT_THAT(refused.message(), HasSubstr("memfd_create: Operation not permitted"));
    EXPECT_THAT(refused.message(), HasSubstr("prctl(PR_SET_VMA_ANON_NAME): Invalid argument"));
    EXPECT_TRUE(test::context_signatures(getpid()).empty()) << "nothing is left behind";
    EXPECT_FALSE(publish::otel_key_index("tenant")) << "no reader could tell its name";
  });
}

TEST(ContextKernel, RefusesToPublishWhatChildrenWouldInherit) {
  in_fork([] {
    answer(SYS_madvise, refuse(EINVAL), 2, MADV_DONTFORK);
    const auto refused = context::publish();
    EXPECT_EQ(refused.code(), Errc::unsupported);
    EXPECT_THAT(refused.message(), HasSubstr("MADV_DONTFORK"));
    EXPECT_TRUE(context_mappings(getpid()).empty());
  });
}

TEST(ContextKernel, DoesWithoutTheExecSealOfNewerKernels) {
  in_fork([] {
    answer(SYS_memfd_create, refuse(EINVAL), 1, 8 /* MFD_NOEXEC_SEAL */);
    ASSERT_TRUE(context::publish());
    EXPECT_THAT(read_context(getpid())->mapping, HasSubstr("/memfd:OTEL_CTX"));
  });
}

TEST(ContextKernel, LeavesNoLockWhenAForkFails) {
  in_fork([] {
    alarm(20);
    ASSERT_TRUE(context::publish());
    answer(SYS_clone, refuse(EAGAIN));  // glibc's fork
    EXPECT_EQ(fork(), -1);
    EXPECT_TRUE(context::update({{"after", true}}));
    EXPECT_TRUE(publish::otel_key_index("after the fork"));
    EXPECT_THAT(read_context(getpid())->payload, HasSubstr("after the fork"));
  });
}

/// What a reader would see that hooks prctl(PR_SET_VMA) and reads the context at once.
struct Announcement {
  std::uint64_t stamp;
  char payload[1024];
};
Announcement announcements[2];
std::size_t announced = 0;

void on_announcement(int, siginfo_t*, void* context) {
  const auto& registers = static_cast<ucontext_t*>(context)->uc_mcontext;
#ifdef __x86_64__
  const auto* header = reinterpret_cast<const char*>(registers.gregs[REG_RDX]);
#else
  const auto* header = reinterpret_cast<const char*>(registers.regs[2]);
#endif
  Announcement& seen = announcements[announced++];
  const char* payload;
  std::uint32_t size;
  std::memcpy(&size, header + 12, sizeof size);
  std::memcpy(&seen.stamp, header + 16, sizeof seen.stamp);
  std::memcpy(&payload, header + 24, sizeof payload);
  std::memcpy(seen.payload, payload, std::min<std::size_t>(size, sizeof seen.payload - 1));
}

TEST(ContextKernel, AnnouncesEveryChangeWhenItIsComplete) {
  in_fork([] {
    struct sigaction action {};
    action.sa_sigaction = on_announcement;
    action.sa_flags = SA_SIGINFO;
    ASSERT_EQ(sigaction(SIGSYS, &action, nullptr), 0);
    answer(SYS_prctl, SECCOMP_RET_TRAP, 0, name_mapping);
    ASSERT_TRUE(context::publish());
    ASSERT_TRUE(context::update({{"again", true}}));
    ASSERT_EQ(announced, 2U);
    EXPECT_NE(announcements[0].stamp, 0U);
    EXPECT_GT(announcements[1].stamp, announcements[0].stamp);
    const auto has_again = [](const Announcement& seen) {
      return std::string(seen.payload, sizeof seen.payload).find("again") != std::string::npos;
    };
    EXPECT_FALSE(has_again(announcements[0]));
    EXPECT_TRUE(has_again(announcements[1]));
  });
}

}  // namespace
}  // namespace vitrine
