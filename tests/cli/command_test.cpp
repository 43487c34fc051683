// The command as a user meets it: real invocations, their output, their exit codes.
#include "cli/command.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "abi/process_context.hpp"

namespace vitrine::test {
namespace {

using testing::HasSubstr;
using Words = std::vector<std::string>;

std::vector<nlohmann::json> json_lines(const std::string& text) {
  std::vector<nlohmann::json> objects;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) objects.push_back(nlohmann::json::parse(line));
  return objects;
}

// ---- targets that cannot be read --------------------------------------------------------------

TEST(BadTarget, NoSuchProcessExitsWithFour) {
  for (const char* command : {"labels", "context"}) {
    const Outcome outcome = vitrine({command, "4194300"});
    EXPECT_EQ(outcome.status, 4);
    EXPECT_THAT(outcome.err, HasSubstr("4194300"));
  }
}

// None of them makes a command wait: nobody opens the pipe's other end, and some have no end.
TEST(BadTarget, FilesThatAreNoneAreRefusedAtOnce) {
  std::string place = std::filesystem::temp_directory_path() / "vitrine_bad.XXXXXX";
  ASSERT_NE(::mkdtemp(place.data()), nullptr);
  ASSERT_EQ(::mkfifo((place + "/pipe").c_str(), 0666), 0);
  std::filesystem::create_symlink("loop", place + "/loop");
  std::filesystem::create_symlink("pipe", place + "/link");
  std::ofstream(place + "/sparse").close();
  ASSERT_EQ(::truncate((place + "/sparse").c_str(), 1LL << 40), 0);
  const std::vector<std::pair<std::string, std::string>> files = {
      {place + "/pipe", "is a pipe"},
      {place + "/link", "is a pipe"},
      {place + "/loop", "Too many levels of symbolic links"},
      {place + "/sparse", "not an ELF file"},
      {place, "is a directory"},
      {"/dev/zero", "is a device"},
      {"/dev/tty", "is a device"},
      {"/proc/self/mem", "not an ELF file"},
      {"/proc/self/maps", "not an ELF file"},
      {"/proc/kallsyms", "not an ELF file"},
  };
  for (const auto& [path, why] : files)
    for (const std::vector<std::string>& command :
         {std::vector<std::string>{"check", path}, {"probes", path}, {"usdt", "dump", path}}) {
      const Outcome outcome = vitrine(command);
      EXPECT_EQ(outcome.status, 1) << command[0] << ' ' << path;
      EXPECT_THAT(outcome.err, AllOf(HasSubstr(path), HasSubstr(why))) << command[0];
      const bool opened = path != place + "/loop";
      EXPECT_THAT(outcome.err, HasSubstr(opened ? " is required\n" : "vitrine: "));
    }
  std::filesystem::remove_all(place);
}

TEST(BadTarget, AKernelThreadIsToldApart) {
  const Outcome outcome = vitrine({"labels", "2"});
  EXPECT_EQ(outcome.status, 1);
  EXPECT_THAT(outcome.err, HasSubstr("kernel thread"));
}

TEST(BadTarget, AZombieHasEnded) {
  Child child = Child::spawn({"true"});
  child.rest_of_output();  // ends when it has exited; nobody has waited for it yet
  const std::string pid = std::to_string(child.pid());
  for (const Words& command : std::vector<Words>{
           {"labels", pid}, {"context", pid}, {"profile", pid}, {"trace", pid, "*"}}) {
    const Outcome outcome = vitrine(command);
    EXPECT_EQ(outcome.status, 4) << command.front();
    EXPECT_THAT(outcome.err, HasSubstr("process " + pid)) << command.front();
    EXPECT_THAT(outcome.err, HasSubstr("has ended: it is a zombie")) << command.front();
  }
}

// It may have ended since it was listed.
TEST(BadTarget, AZombieAmongOthersIsLeftOut) {
  Child zombie = Child::spawn({"true"}), other = Child::spawn({"sleep", "100"});
  zombie.rest_of_output();
  const std::string gone = std::to_string(zombie.pid());
  const Outcome outcome = vitrine({"profile", gone, std::to_string(other.pid()), "--off-cpu",
                                   "--duration", "100ms", "-o", "-", "--format", "json"});
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_THAT(outcome.err, HasSubstr("process " + gone + " has ended: it is a zombie"));
  EXPECT_THAT(outcome.err, HasSubstr("it is left out"));
  EXPECT_EQ(vitrine({"profile", gone, gone}).status, 4);
  const Outcome traced = vitrine({"trace", gone, std::to_string(other.pid()), "*"});
  EXPECT_EQ(traced.status, 1) << traced.err;  // what is left has no probes
  EXPECT_THAT(traced.err, HasSubstr("process " + gone + " has ended: it is a zombie"));
  EXPECT_THAT(traced.err, HasSubstr("has no probes"));
  EXPECT_EQ(vitrine({"trace", gone, gone, "*"}).status, 4);
}

TEST(BadTarget, A32BitProcessIsToldApart) {
  Child child = Child::spawn({PROGRAM_32BIT});
  ASSERT_EQ(child.read_line(), "ready");
  const Outcome outcome = vitrine({"labels", std::to_string(child.pid())});
  EXPECT_EQ(outcome.status, 1);
  EXPECT_THAT(outcome.err, HasSubstr("32-bit"));
}

TEST(BadTarget, APublisherOfNothingIsToldWhatWasLookedForAndWhy) {
  Child child = Child::spawn({"sleep", "100"});
  const Outcome labels = vitrine({"labels", std::to_string(child.pid())});
  EXPECT_EQ(labels.status, 1);
  EXPECT_EQ(labels.out, "");
  EXPECT_THAT(labels.err, HasSubstr("custom_labels_current_set"));
  EXPECT_THAT(labels.err, HasSubstr("otel_thread_ctx_v1"));
  const Outcome context = vitrine({"context", std::to_string(child.pid())});
  EXPECT_EQ(context.status, 1);
  EXPECT_THAT(context.err, HasSubstr("OTEL_CTX"));
}

/// As a publisher leaves it that is killed in the middle of an update.
TEST(BadTarget, AContextThatIsNeverFinishedIsAFailureAndNobodysInterrupt) {
  const int file = ::memfd_create("OTEL_CTX", MFD_CLOEXEC);
  const auto size = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  ASSERT_EQ(::ftruncate(file, static_cast<off_t>(size)), 0);
  void* const page = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE, file, 0);
  ::close(file);
  ASSERT_NE(page, MAP_FAILED);
  abi::process_context::Header header{{}, abi::process_context::version, 16, 0, 4096};
  std::memcpy(header.signature, abi::process_context::signature, sizeof header.signature);
  std::memcpy(page, &header, sizeof header);
  const Outcome outcome = vitrine({"context", std::to_string(::getpid())});
  ::munmap(page, size);
  EXPECT_EQ(outcome.status, 1);
  EXPECT_THAT(outcome.err, HasSubstr("an update is in progress"));
  EXPECT_THAT(outcome.err, HasSubstr("try again"));
}

TEST(BadTarget, ForeignProcessesNeedACapabilityAndTheMessageNamesIt) {
  Child child = Child::spawn({"sleep", "100"});
  ChildOptions nobody;
  nobody.uid = 65534;
  for (const char* command : {"labels", "context"}) {
    const Outcome outcome = run({VITRINE, command, std::to_string(child.pid())}, nobody);
    EXPECT_EQ(outcome.status, 3) << outcome.err;
    EXPECT_THAT(outcome.err, HasSubstr("CAP_SYS_PTRACE"));
  }
}

TEST(Limits, TooFewOpenFilesForBpfAreNamed) {
  const Outcome outcome =
      run({"sh", "-c", "ulimit -n 16; exec \"$0\" labels --mode ebpf -- sleep 9", VITRINE});
  EXPECT_EQ(outcome.status, 1) << outcome.err;
  EXPECT_THAT(outcome.err, HasSubstr("ulimit -n"));
  EXPECT_THAT(outcome.err, testing::Not(testing::StartsWith("libbpf")));
}

TEST(Limits, FilesThatCannotBeOpenedAreNotSaidToHaveNoProbes) {
  Child child = Child::spawn({"sleep", "100"});
  const Outcome outcome = run({"sh", "-c", "ulimit -n 10; exec \"$0\" probes \"$1\"", VITRINE,
                               std::to_string(child.pid())});
  EXPECT_EQ(outcome.status, 1);
  EXPECT_EQ(outcome.out, "");
  EXPECT_THAT(outcome.err, HasSubstr("none of its files could be read"));
}

TEST(Limits, AsManyOpenFilesAsAreAllowedAreUsedAndNotByTheCommand) {
  for (const char* command : {"trace func:libc:read", "profile"}) {
    const Outcome outcome =
        run({"sh", "-c",
             std::string("ulimit -Sn 200; exec \"$0\" ") + command +
                 " --exec -- sh -c 'ulimit -Sn; grep \"open files\" /proc/$PPID/limits' >&2",
             VITRINE});
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    EXPECT_THAT(outcome.err, testing::ContainsRegex("(^|\n)200\n")) << command;
    rlimit own{};
    ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &own), 0);
    EXPECT_THAT(outcome.err,
                testing::ContainsRegex("Max open files +" + std::to_string(own.rlim_max)))
        << command;
  }
}

TEST(UserNamespace, ItsCapabilitiesDoNotCountForBpf) {
  const auto inside = [](std::vector<std::string> words) {
    words.insert(words.begin(), {"unshare", "--user", "--map-root-user", VITRINE});
    return run(words);
  };
  const std::string remedy = "run vitrine in the initial user namespace";
  const Outcome labels = inside({"labels", "--mode", "ebpf", "--exec", "--", "sleep", "9"});
  EXPECT_EQ(labels.status, 3) << labels.err;
  EXPECT_THAT(labels.err, HasSubstr(remedy));
  EXPECT_THAT(labels.err, testing::Not(HasSubstr("setcap")));
  const Outcome trace = inside({"trace", "x:y", "--exec", "--", "sleep", "9"});
  EXPECT_EQ(trace.status, 3) << trace.err;
  EXPECT_THAT(trace.err, HasSubstr(remedy));
  const Outcome doctor = inside({"doctor"});
  EXPECT_THAT(doctor.out, testing::ContainsRegex("no  +CAP_BPF"));
  EXPECT_THAT(doctor.out, testing::ContainsRegex("no  +CAP_PERFMON"));
}

TEST(NoSysfs, IsNotBlamedOnTheKernel) {
  const auto inside = [](const std::string& command) {
    return run({"unshare", "--mount", "sh", "-c",
                "mount -t tmpfs none /sys && exec \"$0\" " + command, VITRINE});
  };
  const Outcome labels = inside("labels --mode ebpf --exec -- sleep 9");
  EXPECT_EQ(labels.status, 1) << labels.err;
  EXPECT_THAT(labels.err, HasSubstr("mount -t sysfs sysfs /sys"));
  EXPECT_THAT(labels.err, testing::Not(HasSubstr("CONFIG_DEBUG_INFO_BTF")));
  const Outcome doctor = inside("doctor");
  EXPECT_THAT(doctor.out, HasSubstr("uprobe_multi: mount -t sysfs"));
  EXPECT_THAT(doctor.out, testing::Not(HasSubstr("Linux 6.6")));
}

TEST(BadTarget, AProgramThatCannotBeStartedIsNamed) {
  const Outcome outcome = vitrine({"labels", "--exec", "--", "/no/such/program"});
  EXPECT_EQ(outcome.status, 4);
  EXPECT_THAT(outcome.err, HasSubstr("/no/such/program"));
}

// ---- what works -------------------------------------------------------------------------------

class Service : public testing::Test {
 protected:
  void SetUp() override {
    const auto line = service_.read_line();
    ASSERT_TRUE(line.has_value());
  }
  std::string pid() const { return std::to_string(service_.pid()); }

  Child service_ = Child::spawn({DEMO_SERVICE, "--seconds", "60"});
};

TEST_F(Service, IsListedByPs) {
  const Outcome ps = vitrine({"ps", "--json"});
  ASSERT_EQ(ps.status, 0) << ps.err;
  bool found = false;
  for (const auto& object : json_lines(ps.out)) {
    if (object["pid"] != service_.pid()) continue;
    found = true;
    EXPECT_EQ(object["service"], "shop");
    EXPECT_EQ(object["context"], true);
    EXPECT_EQ(object["formats"], nlohmann::json({"custom-labels-v1", "otel-thread-ctx-v1"}));
    EXPECT_GE(object["threads"], 2);
  }
  EXPECT_TRUE(found);
  EXPECT_THAT(vitrine({"ps"}).out, HasSubstr("shop"));
}

TEST_F(Service, ShowsItsContext) {
  const Outcome context = vitrine({"context", pid(), "--json"});
  ASSERT_EQ(context.status, 0) << context.err;
  const auto objects = json_lines(context.out);
  ASSERT_EQ(objects.size(), 1U);
  EXPECT_EQ(objects[0]["pid"], service_.pid());
  EXPECT_EQ(objects[0]["version"], 2);
  bool named = false;
  for (const auto& attribute : objects[0]["resource"])
    named = named || (attribute["key"] == "service.name" && attribute["value"] == "shop");
  EXPECT_TRUE(named);
  EXPECT_THAT(vitrine({"context", pid()}).out, HasSubstr("service.name"));
}

TEST_F(Service, ItsContextIsWatchedUntilTheUserInterrupts) {
  Child watch = Child::spawn({VITRINE, "context", pid(), "--watch=20ms", "--json"});
  ASSERT_TRUE(watch.read_line().has_value());
  watch.signal(SIGINT);
  EXPECT_EQ(watch.wait(), 130) << watch.rest_of_errors();
}

TEST_F(Service, ShowsLabelsInEveryMode) {
  for (const std::string mode : {"snapshot", "ebpf", "ptrace"}) {
    bool tenant_seen = false;
    // The workers rest between requests: a single moment may find them all idle.
    const Outcome labels =
        vitrine({"labels", pid(), "--mode", mode, "--watch=100ms", "--duration", "2s", "--json"});
    ASSERT_EQ(labels.status, 0) << labels.err;
    for (const auto& thread : json_lines(labels.out)) {
      EXPECT_EQ(thread["mode"], mode);
      ASSERT_FALSE(thread.contains("error")) << thread;
      for (const auto& label : thread["labels"]) {
        if (label["key"] != "tenant") continue;
        tenant_seen = true;
        EXPECT_THAT((std::vector<std::string>{"acme", "globex", "initech"}),
                    testing::Contains(label["value"].get<std::string>()));
      }
    }
    EXPECT_TRUE(tenant_seen) << mode;
  }
}

TEST_F(Service, ThreadsOfAnotherProcessAreReported) {
  const Outcome alone = vitrine({"labels", pid(), "1"});
  EXPECT_EQ(alone.status, 4) << alone.out;
  EXPECT_THAT(alone.err, HasSubstr("process " + pid() + " has no thread 1"));
  EXPECT_THAT(alone.err, HasSubstr("`vitrine labels " + pid() + "` lists its threads"));
  const Outcome beside = vitrine({"labels", pid(), "1", pid(), "--all"});
  EXPECT_EQ(beside.status, 0) << beside.err;
  EXPECT_THAT(beside.err, HasSubstr("has no thread 1\n"));
  EXPECT_THAT(beside.out, HasSubstr(pid()));
}

TEST_F(Service, InADebuggerIsReportedByPtraceWithTheDebugger) {
  Child gdb = Child::spawn(
      {"gdb", "-nx", "-batch", "-p", pid(), "-ex", "echo held\\n", "-ex", "shell sleep 60"});
  for (std::string line; line != "held";) {
    const auto next = gdb.read_line(patience);
    ASSERT_TRUE(next) << gdb.rest_of_errors();
    line = *next;
  }
  const Outcome refused = vitrine({"labels", pid(), "--mode", "ptrace"});
  EXPECT_EQ(refused.status, 1) << refused.out;
  EXPECT_THAT(refused.out, testing::IsEmpty());
  EXPECT_THAT(refused.err, HasSubstr("process " + std::to_string(gdb.pid()) + " (gdb) traces it"));
  EXPECT_THAT(refused.err, HasSubstr("\n  read it in snapshot or ebpf mode"));
  // A watch goes on, and reads it when the debugger has ended.
  Child watch =
      Child::spawn({VITRINE, "labels", pid(), "--mode", "ptrace", "--watch=50ms", "--all"});
  ::usleep(300'000);
  gdb.signal(SIGKILL);
  ASSERT_TRUE(watch.read_line(patience)) << watch.rest_of_errors();
  EXPECT_EQ(vitrine({"labels", pid(), "--mode", "ptrace"}).status, 0);
}

TEST_F(Service, HumanOutputHasNoColourInAPipe) {
  const Outcome labels = vitrine({"labels", pid(), "--all"});
  EXPECT_EQ(labels.status, 0);
  EXPECT_EQ(labels.out.find('\x1b'), std::string::npos);
  EXPECT_THAT(labels.out, HasSubstr("custom-labels-v1"));
}

TEST_F(Service, AWatchEndsCleanlyWhenTheUserInterrupts) {
  for (const std::string mode : {"snapshot", "ebpf", "ptrace"}) {
    Child watch =
        Child::spawn({VITRINE, "labels", pid(), "--mode", mode, "--watch=50ms", "--json"});
    ASSERT_TRUE(watch.read_line().has_value());
    watch.signal(SIGINT);
    watch.rest_of_output();
    EXPECT_EQ(watch.wait(), 130) << mode;
  }
}

TEST_F(Service, WhatRunsUntilTheUserInterruptsEndsWith130) {
  const std::string folder = "/tmp/vitrine-interrupted-" + std::to_string(::getpid());
  std::filesystem::create_directory(folder);
  const Words continuous{"profile", pid(), "--continuous=200ms", "-o", folder + "/%t.folded"};
  struct Case {
    Words words;
    int signal = SIGINT;
    int status = 130;
  };
  const std::vector<Case> cases{
      {{"labels", "--watch=50ms", "--exec", "--", DEMO_SERVICE}},
      {{"context", pid(), "--watch=50ms"}},
      {{"profile", pid()}},
      {{"profile", pid(), "--top=tenant", "--watch=200ms"}},
      {continuous},
      {continuous, SIGHUP},
      {continuous, SIGTERM, 0},  // by a service manager
      {{"profile", "--exec", "--", DEMO_SERVICE}},
      {{"trace", pid(), "*"}},
      {{"trace", pid(), "*", "--count"}},
      {{"trace", pid(), "*", "--count", "-o", folder + "/count.prom"}},
      {{"trace", pid(), "*", "--count"}, SIGTERM},
      {{"trace", "--exec", "--", DEMO_SERVICE}},
  };
  for (const Case& one : cases) {
    Words command{"sh", "-c", "exec \"$@\" 2>&1", "sh", VITRINE};
    command.insert(command.end(), one.words.begin(), one.words.end());
    Child running = Child::spawn(command);
    ASSERT_TRUE(running.read_line(patience)) << testing::PrintToString(one.words);  // it has begun
    running.signal(one.signal);
    const std::string printed = running.rest_of_output(patience);
    EXPECT_EQ(running.wait(patience), one.status)
        << testing::PrintToString(one.words) << ' ' << one.signal << ' ' << printed;
  }
  std::filesystem::remove_all(folder);
}

// `timeout` sends its signal to the command and to the command's group.
TEST_F(Service, ASignalThatComesTwiceAtOnceIsOneRequestToEnd) {
  for (const int number : {SIGINT, SIGTERM, SIGHUP}) {
    for (const Words& words : {Words{"profile", pid()}, Words{"trace", pid(), "*", "--count"}}) {
      Words command{"sh", "-c", "exec \"$@\" 2>&1", "sh", VITRINE};
      command.insert(command.end(), words.begin(), words.end());
      Child running = Child::spawn(command);
      ASSERT_TRUE(running.read_line(patience)) << testing::PrintToString(words);  // it has begun
      running.signal(number);
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
      running.signal(number);
      running.rest_of_output(patience);
      EXPECT_EQ(running.wait(patience), 130) << testing::PrintToString(words) << ' ' << number;
    }
  }
}

TEST_F(Service, AWatchEndsWhenTheProcessDoes) {
  Child watch = Child::spawn({VITRINE, "labels", pid(), "--watch=50ms", "--json"});
  ASSERT_TRUE(watch.read_line().has_value());
  const std::string its_pid = pid();
  service_.signal(SIGTERM);
  ASSERT_TRUE(service_.wait().has_value());
  watch.rest_of_output();
  EXPECT_EQ(watch.wait(), 0);
  EXPECT_THAT(watch.rest_of_errors(), HasSubstr(its_pid));
}

// Each reading may meet it between two programs, or in another one than at its start.
TEST(Exec, AProgramThatExecutesItselfWithoutEndIsWatchedOn) {
  const std::string again = R"(exec sh -c "$0" "$0")";
  Child target = Child::spawn({"sh", "-c", again, again});
  const Outcome watched = vitrine(
      {"labels", std::to_string(target.pid()), "--watch=5ms", "--duration", "2s", "--json"});
  EXPECT_EQ(watched.status, 0) << watched.err;
}

TEST(Exec, StartsAProgramWatchesItAndEndsWithIt) {
  const Outcome outcome =
      vitrine({"labels", "--watch=50ms", "--json", "--exec", "--", DEMO_SERVICE, "--seconds", "1"});
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("tenant"));
}

TEST(Context, AWatchReportsAnUpdateThatDoesNotEnd) {
  Child target = Child::spawn({HOSTILE_CONTEXT, "frozen"});
  ASSERT_TRUE(target.read_line(patience));
  const Outcome watched =
      vitrine({"context", std::to_string(target.pid()), "--watch=20ms", "--duration", "500ms"});
  EXPECT_EQ(watched.status, 0) << watched.err;
  const std::string note = "an update is in progress; still watching";
  ASSERT_THAT(watched.err, HasSubstr(note));
  EXPECT_EQ(watched.err.find(note), watched.err.rfind(note)) << watched.err;
}

TEST(Exec, AProgramThatEndsAtOnceEndsTheWatch) {
  for (const char* mode : {"--mode=snapshot", "--mode=ebpf", "--mode=ptrace"}) {
    const Outcome watched = vitrine({"labels", "--watch=50ms", mode, "--exec", "--", "true"});
    EXPECT_EQ(watched.status, 0) << watched.err;
    const Outcome once = vitrine({"labels", mode, "--exec", "--", "true"});
    EXPECT_NE(once.status, 0);
    // It may have been read before it ended: then it publishes no labels.
    EXPECT_THAT(once.err, testing::AnyOf(HasSubstr("true ended before its labels were read"),
                                         HasSubstr("publishes no labels"),
                                         HasSubstr("executes another program")));
  }
}

TEST(Exec, ACallerThatIgnoresSigchldChangesNothing) {
  // bash does not reset an ignored signal; sh -c "trap '' CHLD" hands it on.
  const Outcome outcome =
      run({"bash", "-c", "trap '' CHLD; exec \"$@\"", "bash", VITRINE, "labels", "--watch=50ms",
           "--duration", "300ms", "--exec", "--", "sleep", "30"});
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_THAT(outcome.err, testing::Not(HasSubstr("the program that was started")));
}

Outcome in_shell(const std::string& command) {
  return run({"sh", "-c", command, VITRINE});
}

TEST(Streams, ClosedOrFullStandardErrorIsNoReasonToWriteNothing) {
  Child target = Child::spawn({"sleep", "60"});
  const std::string path = "/tmp/vitrine-streams-" + std::to_string(::getpid()) + ".folded";
  for (const char* to : {"2>&-", "2>/dev/full"}) {
    std::filesystem::remove(path);
    const Outcome outcome = in_shell("exec \"$0\" profile " + std::to_string(target.pid()) +
                                     " --on-cpu --duration 100ms -o " + path + ' ' + to);
    EXPECT_EQ(outcome.status, 0) << to;
    EXPECT_TRUE(std::filesystem::exists(path)) << to;
    const auto mode = std::filesystem::status(path).permissions();
    EXPECT_TRUE(::geteuid() != 0 || mode == std::filesystem::perms{0600}) << to;
  }
  std::filesystem::remove(path);
}

TEST(Streams, ResultsThatCannotBeWrittenAreAFailure) {
  for (const char* command :
       {"--version", "ps --help", "ps", "probes /bin/sh", "doctor", "doctor --json",
        "--completion bash", "trace --help", "check --list"}) {
    for (const char* to : {">/dev/full", ">&-"}) {
      const Outcome outcome = in_shell(std::string("exec \"$0\" ") + command + ' ' + to);
      EXPECT_EQ(outcome.status, 1) << command << to << outcome.err;
      EXPECT_THAT(outcome.err, HasSubstr("standard output: ")) << command << to;
      EXPECT_THAT(outcome.err, testing::Not(HasSubstr("a write failed"))) << command << to;
    }
    // Below a limit of file sizes, in blocks of 512 bytes, a write would end vitrine by a signal.
    const Outcome limited = in_shell("f=$(mktemp); ulimit -f 0; \"$0\" " + std::string(command) +
                                     " >$f; status=$?; rm $f; exit $status");
    EXPECT_EQ(limited.status, 1) << command << limited.err;
    EXPECT_THAT(limited.err, HasSubstr("standard output: File too large")) << command;
    // A reader that goes away is no failure.
    const Outcome left = in_shell(std::string("\"$0\" ") + command + " | true");
    EXPECT_EQ(left.status, 0) << command;
    EXPECT_EQ(left.err.find("standard output"), std::string::npos) << command << left.err;
  }
}

TEST(Exec, AProgramThatIgnoresToBeEndedIsKilledAndThatIsTold) {
  const Words stubborn = {"--exec", "--", "sh", "-c",
                          "trap '' TERM; echo ready; while :; do sleep 1; done"};
  for (const Words& how : {Words{"labels", "--watch=100ms"}, {"profile"}}) {
    Words command{VITRINE};
    command.insert(command.end(), how.begin(), how.end());
    command.insert(command.end(), stubborn.begin(), stubborn.end());
    Child watch = Child::spawn(command);
    ASSERT_EQ(watch.read_line(), "ready") << how[0];
    watch.signal(SIGINT);
    EXPECT_EQ(watch.wait(patience * 3), 130) << how[0];
    EXPECT_THAT(watch.rest_of_errors(), HasSubstr("ignored SIGTERM and was killed")) << how[0];
  }
}

TEST(Doctor, SaysHowTheCommandIsConfined) {
  const Outcome doctor = vitrine({"doctor", "--json"});
  std::map<std::string, std::string> verdicts;
  for (const auto& finding : json_lines(doctor.out))
    if (finding["topic"] == "confinement") verdicts[finding["what"]] = finding["verdict"];
  EXPECT_EQ(verdicts["no_new_privs"], "yes");
#ifdef UNFILTERED
  EXPECT_EQ(verdicts["seccomp"], "no");
#else
  EXPECT_EQ(verdicts["seccomp"], "yes");
  ChildOptions off;
  off.env = {"VITRINE_SECCOMP=off"};
  EXPECT_THAT(run({VITRINE, "doctor"}, off).out, HasSubstr("without VITRINE_SECCOMP=off"));
#endif
}

TEST(Doctor, SaysWhichModesWorkHere) {
  const Outcome doctor = vitrine({"doctor", "--json"});
  ASSERT_EQ(doctor.status, 0);
  std::map<std::string, std::string> verdicts;
  for (const auto& finding : json_lines(doctor.out)) {
    if (finding["topic"] == "modes") verdicts[finding["what"]] = finding["verdict"];
  }
  for (const char* mode : {"snapshot", "ebpf", "ptrace"}) EXPECT_EQ(verdicts[mode], "yes") << mode;
}

TEST(Doctor, TellsAPlainUserWhatWouldEnableTheRest) {
  ChildOptions nobody;
  nobody.uid = 65534;
  const Outcome doctor = run({VITRINE, "doctor", "--json"}, nobody);
  ASSERT_EQ(doctor.status, 0);
  bool remedy = false;
  for (const auto& finding : json_lines(doctor.out))
    remedy = remedy || (finding["topic"] == "modes" && finding["what"] == "ebpf" &&
                        finding["verdict"] != "yes" &&
                        finding["remedy"].get<std::string>().find("CAP_BPF") != std::string::npos);
  EXPECT_TRUE(remedy) << doctor.out;
}

}  // namespace
}  // namespace vitrine::test
