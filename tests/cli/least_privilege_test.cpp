// What each command takes, as a real user with just that; and what it gives up.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <linux/capability.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <thread>

#include "cli/command.hpp"

namespace vitrine::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

constexpr uid_t nobody = 65534;

#ifdef FILTERED
constexpr const char* seccomp_mode = "2";
#else
constexpr const char* seccomp_mode = "0";  // sanitizers
#endif

using Names = std::set<std::string>;  // "CAP_BPF"

std::string read_file(const std::string& path) {
  std::ifstream stream(path);
  return {std::istreambuf_iterator<char>(stream), {}};
}

std::string with_sign(const Names& capabilities) {
  std::string text;
  for (const std::string& name : capabilities) {
    std::string lower = name.substr(4);
    for (char& c : lower) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    text += (text.empty() ? "+" : ",+") + lower;
  }
  return text.empty() ? "-all" : text;
}

/// As user nobody, with just these.
std::vector<std::string> as_nobody(const Names& capabilities, std::vector<std::string> command) {
  std::vector<std::string> words{"setpriv",
                                 "--reuid=65534",
                                 "--regid=65534",
                                 "--clear-groups",
                                 "--inh-caps=" + with_sign(capabilities),
                                 "--ambient-caps=" + with_sign(capabilities),
                                 "--"};
  words.insert(words.end(), command.begin(), command.end());
  return words;
}

Child start_service(uid_t uid) {
  ChildOptions options;
  options.uid = uid;
  Child service = Child::spawn({DEMO_SERVICE, "--seconds", "100"}, options);
  EXPECT_TRUE(service.read_line(patience));  // its pid: it publishes
  return service;
}

// ---- the table --------------------------------------------------------------------------------

struct Row {
  std::string use;
  Names own, others;
};

Names names_in(const std::string& cell) {
  Names names;
  for (std::size_t at = 0; (at = cell.find("CAP_", at)) != std::string::npos;) {
    const std::size_t end = cell.find_first_not_of("ABCDEFGHIJKLMNOPQRSTUVWXYZ_", at);
    names.insert(cell.substr(at, end - at));
    at = end;
  }
  return names;
}

std::string table() {
  return run({VITRINE, "doctor", "--markdown"}).out;
}

std::vector<Row> rows() {
  std::vector<Row> rows;
  std::istringstream lines(table());
  for (std::string line; std::getline(lines, line);) {
    std::vector<std::string> cells;
    std::istringstream parts(line);
    for (std::string cell; std::getline(parts, cell, '|');) cells.push_back(cell);
    if (cells.size() < 4 || cells[1].find('`') == std::string::npos) continue;
    rows.push_back(
        {cells[1].substr(2, cells[1].size() - 4), names_in(cells[2]), names_in(cells[3])});
  }
  return rows;
}

/// How each use of the table is tried: PID and FILE are put in.
const std::map<std::string, std::vector<std::string>> trials{
    {"ps", {"ps"}},
    {"labels PID", {"labels", "PID"}},
    {"labels PID --mode ptrace", {"labels", "PID", "--mode", "ptrace"}},
    {"labels PID --mode ebpf", {"labels", "PID", "--mode", "ebpf", "--duration", "300ms"}},
    {"context PID", {"context", "PID"}},
    {"probes FILE", {"probes", "FILE"}},
    {"probes PID", {"probes", "PID"}},
    {"trace FILE", {"trace", "FILE", "*", "--duration", "100ms"}},
    {"trace PID", {"trace", "PID", "*", "--duration", "100ms"}},
    {"profile PID", {"profile", "PID", "--duration", "300ms", "--on-cpu", "--off-cpu"}},
    {"profile --all", {"profile", "--all", "--duration", "300ms", "--format", "json"}},
    {"check FILE", {"check", "FILE"}},
    {"check PID", {"check", "PID", "--duration", "300ms"}},
    {"doctor", {"doctor"}},
};

std::vector<std::string> trial(const std::string& use, pid_t pid) {
  std::vector<std::string> words{VITRINE};
  for (const std::string& word : trials.at(use))
    words.push_back(word == "PID" ? std::to_string(pid) : word == "FILE" ? DEMO_SERVICE : word);
  return words;
}

TEST(LeastPrivilege, TheTableOfTheDocumentsIsWhatTheCommandsDeclare) {
  ASSERT_FALSE(rows().empty());
  EXPECT_THAT(read_file(FOR_OPERATORS), HasSubstr(table()));
}

TEST(LeastPrivilege, EveryUseIsTried) {
  for (const Row& row : rows()) EXPECT_TRUE(trials.contains(row.use)) << row.use;
  EXPECT_EQ(rows().size(), trials.size());
}

TEST(LeastPrivilege, TheDeclaredSetSufficesForProcessesOfOthers) {
  Child service = start_service(0);
  for (const Row& row : rows()) {
    const Outcome outcome = run(as_nobody(row.others, trial(row.use, service.pid())));
    EXPECT_LE(outcome.status, row.use.starts_with("check") ? 1 : 0) << row.use << outcome.err;
    EXPECT_GE(outcome.status, 0) << row.use;
    EXPECT_NE(outcome.out + outcome.err, "") << row.use;
    if (row.use == "ps") {
      EXPECT_THAT(outcome.out, HasSubstr(std::to_string(service.pid())));
    }
  }
}

TEST(LeastPrivilege, TheDeclaredSetSufficesForOnesOwn) {
  Child service = start_service(nobody);
  for (const Row& row : rows()) {
    const Outcome outcome = run(as_nobody(row.own, trial(row.use, service.pid())));
    EXPECT_LE(outcome.status, row.use.starts_with("check") ? 1 : 0) << row.use << outcome.err;
    EXPECT_GE(outcome.status, 0) << row.use;
    if (row.use == "ps") {
      EXPECT_THAT(outcome.out, HasSubstr(std::to_string(service.pid())));
    }
  }
}

TEST(LeastPrivilege, WithOneLessTheErrorNamesWhatIsMissingAndHowToHaveIt) {
  Child service = start_service(0);
  for (const Row& row : rows()) {
    for (const std::string& missing : row.others) {
      Names some = row.others;
      some.erase(missing);
      const Outcome outcome = run(as_nobody(some, trial(row.use, service.pid())));
      const std::string what = row.use + " without " + missing + ": " + outcome.err;
      EXPECT_THAT(outcome.err, HasSubstr(missing)) << what;
      // These show what they can.
      const bool goes_on =
          row.use == "ps" || (row.use.starts_with("profile") && missing == "CAP_SYS_PTRACE");
      EXPECT_EQ(outcome.status, goes_on ? 0 : 3) << what;
      if (!goes_on) {
        EXPECT_THAT(outcome.err, AllOf(HasSubstr("root"), HasSubstr("setcap"))) << what;
      }
    }
  }
}

TEST(LeastPrivilege, TheDoctorTellsWhichCommandsWorkAndTheLineForTheRest) {
  const Outcome none = run(as_nobody({}, {VITRINE, "doctor"}));
  EXPECT_THAT(none.out, HasSubstr("setcap cap_sys_ptrace,cap_perfmon,cap_bpf=ep /"));
  EXPECT_THAT(none.out, testing::ContainsRegex("no +trace PID"));
  EXPECT_THAT(none.out, testing::ContainsRegex("partly +labels PID "));
  EXPECT_THAT(none.out, testing::ContainsRegex("yes +probes FILE"));
  const Outcome all =
      run(as_nobody({"CAP_BPF", "CAP_PERFMON", "CAP_SYS_PTRACE"}, {VITRINE, "doctor"}));
  EXPECT_THAT(all.out, Not(HasSubstr("to enable all: sudo setcap")));
  EXPECT_THAT(all.out, testing::ContainsRegex("yes +trace PID"));
}

// ---- what is given up -------------------------------------------------------------------------

std::uint64_t mask_of(const Names& names) {
  const std::map<std::string, int> numbers{{"CAP_CHOWN", CAP_CHOWN},
                                           {"CAP_DAC_OVERRIDE", CAP_DAC_OVERRIDE},
                                           {"CAP_DAC_READ_SEARCH", CAP_DAC_READ_SEARCH},
                                           {"CAP_FOWNER", CAP_FOWNER},
                                           {"CAP_KILL", CAP_KILL},
                                           {"CAP_SYS_PTRACE", CAP_SYS_PTRACE},
                                           {"CAP_SYSLOG", CAP_SYSLOG},
                                           {"CAP_SYS_ADMIN", CAP_SYS_ADMIN},
                                           {"CAP_PERFMON", CAP_PERFMON},
                                           {"CAP_BPF", CAP_BPF},
                                           {"CAP_CHECKPOINT_RESTORE", CAP_CHECKPOINT_RESTORE}};
  std::uint64_t mask = 0;
  for (const std::string& name : names) mask |= 1ULL << numbers.at(name);
  return mask;
}

std::map<std::string, std::string> status_of(const std::string& directory) {
  std::map<std::string, std::string> fields;
  std::istringstream lines(read_file(directory + "/status"));
  for (std::string line; std::getline(lines, line);) {
    const std::size_t colon = line.find(":\t");
    if (colon != std::string::npos) fields[line.substr(0, colon)] = line.substr(colon + 2);
  }
  return fields;
}

std::uint64_t mask_in(const std::string& text) {
  return std::stoull(text, nullptr, 16);
}

/// Of every thread, once it has confined itself: what it started may have been heard first.
void expect_confined(pid_t pid, const Names& capabilities, bool bounding) {
  const auto until = std::chrono::steady_clock::now() + patience;
  while (status_of("/proc/" + std::to_string(pid))["Seccomp"] != seccomp_mode &&
         std::chrono::steady_clock::now() < until)
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  const std::uint64_t expected = mask_of(capabilities);
  std::size_t seen = 0;
  for (const auto& task :
       std::filesystem::directory_iterator("/proc/" + std::to_string(pid) + "/task")) {
    auto status = status_of(task.path());
    if (status.empty()) continue;  // it has ended
    ++seen;
    const bool first = task.path().filename() == std::to_string(pid);
    for (const char* set : {"CapEff", "CapPrm"}) {
      if (first) {
        EXPECT_EQ(mask_in(status[set]), expected) << set;
      }
      EXPECT_EQ(mask_in(status[set]) & ~expected, 0U) << status["Name"] << set;
    }
    if (bounding) {
      EXPECT_EQ(mask_in(status["CapBnd"]) & ~expected, 0U) << status["Name"];
    }
    EXPECT_EQ(status["NoNewPrivs"], "1") << status["Name"];
    EXPECT_EQ(status["Seccomp"], seccomp_mode) << status["Name"];
  }
  EXPECT_GT(seen, 0U);
}

const Names reading{"CAP_SYS_PTRACE", "CAP_DAC_READ_SEARCH", "CAP_CHECKPOINT_RESTORE"};

Names operator+(Names a, const Names& b) {
  a.insert(b.begin(), b.end());
  return a;
}

const Names with_bpf = reading + Names{"CAP_BPF", "CAP_PERFMON"};

/// Above level 2 kernels of Debian and Ubuntu want CAP_SYS_ADMIN for them.
bool perf_events_need_admin() {
  int level = 0;
  return std::ifstream("/proc/sys/kernel/perf_event_paranoid") >> level && level > 2;
}

struct Running {
  std::vector<std::string> words;  ///< PID and FOLDER are put in
  Names capabilities;
  bool may_lose =
      false;  ///< what it has by its end can be sent to nobody, and it says so by its status
};

/// Of a test, the same in each run: the words alone.
void PrintTo(const Running& running, std::ostream* out) {
  const char* between = "";
  for (const std::string& word : running.words) {
    *out << between << (word.starts_with('/') ? word.substr(word.rfind('/') + 1) : word);
    between = " ";
  }
}

class GivesUp : public testing::TestWithParam<Running> {};

class Folder {
 public:
  Folder() : path_("/tmp/vitrine-privilege-XXXXXX") {
    if (::mkdtemp(path_.data()) == nullptr) ADD_FAILURE() << path_;
    ::chmod(path_.c_str(), 0755);
  }
  ~Folder() { std::filesystem::remove_all(path_); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  std::string at(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

/// Started such that its output, errors included, is read here.
Child start(const std::vector<std::string>& prefix, const Running& running, pid_t pid) {
  std::vector<std::string> words{"sh", "-c", "exec \"$@\" 2>&1", "sh"};
  words.insert(words.end(), prefix.begin(), prefix.end());
  for (const std::string& word : running.words)
    words.push_back(word == "PID" ? std::to_string(pid) : word);
  return Child::spawn(words);
}

TEST_P(GivesUp, AllButWhatItDeclares) {
  const Folder folder;
  Running running = GetParam();
  for (std::string& word : running.words)
    if (word.starts_with("FOLDER/")) word = folder.at(word.substr(7));
  Child service = start_service(0);
  Child command = start({VITRINE}, running, service.pid());
  ASSERT_TRUE(command.read_line(patience));  // it has begun
  expect_confined(command.pid(), GetParam().capabilities, true);
  command.signal(SIGINT);
  const int status = command.wait(patience).value_or(-1);
  EXPECT_TRUE(status == 0 || status == 130 || (running.may_lose && status == 1))
      << status << " " << command.rest_of_output();
}

INSTANTIATE_TEST_SUITE_P(
    Command, GivesUp,
    testing::Values(
        Running{{"labels", "PID", "--watch=200ms"}, with_bpf},
        Running{{"labels", "PID", "--mode", "ebpf", "--watch=200ms"},
                perf_events_need_admin() ? with_bpf + Names{"CAP_SYS_ADMIN"} : with_bpf},
        Running{{"labels", "PID", "--mode", "ptrace", "--watch=200ms"}, with_bpf},
        Running{{"labels", "--watch=200ms", "--exec", "--", DEMO_SERVICE},
                with_bpf + Names{"CAP_KILL"}},
        Running{{"context", "PID", "--watch=100ms"}, reading},
        Running{{"trace", "PID", "*"}, with_bpf}, Running{{"trace", DEMO_SERVICE, "*"}, with_bpf},
        Running{{"trace", "--exec", "--", DEMO_SERVICE}, with_bpf + Names{"CAP_KILL"}},
        Running{{"profile", "PID"}, with_bpf + Names{"CAP_SYSLOG"}},
        Running{{"profile", "--all", "--off-cpu"}, with_bpf + Names{"CAP_SYSLOG"}},
        Running{{"profile", "PID", "--continuous", "1s", "-o", "FOLDER/%t.folded"},
                with_bpf + Names{"CAP_SYSLOG"}},
        Running{{"profile", "PID", "--continuous", "1s", "--export", "otlp+http://127.0.0.1:1"},
                with_bpf + Names{"CAP_SYSLOG"},
                true},
        Running{{"profile", "--exec", "--", DEMO_SERVICE},
                with_bpf + Names{"CAP_SYSLOG", "CAP_KILL"}}));

/// The child of that name; -1: there is none.
pid_t child_named(pid_t parent, const std::string& name) {
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    const pid_t pid = std::atoi(entry.path().filename().c_str());
    if (pid <= 0) continue;
    auto status = status_of(entry.path());
    if (status["PPid"] == std::to_string(parent) && status["Name"] == name) return pid;
  }
  return -1;
}

// It begins before the command drops its own, and lives as long.
TEST(GivesUpAlso, TheProcessThatOpensFiles) {
  Child service = start_service(0);
  for (const Running& running :
       {Running{{"profile", "PID"}, {}}, Running{{"profile", "--exec", "--", DEMO_SERVICE}, {}}}) {
    Child command = start({VITRINE}, running, service.pid());
    ASSERT_TRUE(command.read_line(patience));
    const pid_t opener = child_named(command.pid(), "vitrine-opener");
    ASSERT_GT(opener, 0);
    auto status = status_of("/proc/" + std::to_string(opener));
    for (const char* set : {"CapInh", "CapPrm", "CapEff", "CapAmb"})
      EXPECT_EQ(mask_in(status[set]) & ~mask_of(reading), 0U) << running.words[1] << set;
    EXPECT_EQ(status["NoNewPrivs"], "1") << running.words[1];
    command.signal(SIGINT);
    EXPECT_TRUE(command.wait(patience)) << running.words[1];
  }
}

#ifdef FILTERED
TEST(GivesUpAlso, OneThatIsSoonDone) {
  // The last set of capabilities, and the filter, before anything is opened below /proc.
  const Outcome outcome = run({"strace", "-f", "-e", "trace=capset,seccomp,prctl", VITRINE, "ps"});
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_THAT(outcome.err,
              AllOf(HasSubstr("PR_SET_NO_NEW_PRIVS"), HasSubstr("SECCOMP_SET_MODE_FILTER"),
                    HasSubstr("effective=1<<CAP_DAC_READ_SEARCH|1<<CAP_SYS_PTRACE|"
                              "1<<CAP_CHECKPOINT_RESTORE")));
}

#if defined(__x86_64__)

/// What a thread that waits in a system call gets for another one, without arguments, in its place. Not
/// by gdb, which cannot write the registers of every processor.
long result_of(long call, pid_t tid) {
  EXPECT_EQ(::ptrace(PTRACE_ATTACH, tid, nullptr, nullptr), 0);
  int status = 0;
  EXPECT_EQ(::waitpid(tid, &status, __WALL), tid);
  user_regs_struct before{};
  EXPECT_EQ(::ptrace(PTRACE_GETREGS, tid, nullptr, &before), 0);
  user_regs_struct changed = before;
  changed.rip -= 2;  // the syscall instruction, at whose end it waits
  changed.rax = static_cast<unsigned long long>(call);
  changed.orig_rax = ~0ULL;  // nothing to restart
  changed.rdi = changed.rsi = changed.rdx = 0;
  EXPECT_EQ(::ptrace(PTRACE_SETREGS, tid, nullptr, &changed), 0);
  EXPECT_EQ(::ptrace(PTRACE_SINGLESTEP, tid, nullptr, nullptr), 0);
  EXPECT_EQ(::waitpid(tid, &status, __WALL), tid);
  user_regs_struct after{};
  EXPECT_EQ(::ptrace(PTRACE_GETREGS, tid, nullptr, &after), 0);
  EXPECT_EQ(::ptrace(PTRACE_SETREGS, tid, nullptr, &before), 0);
  EXPECT_EQ(::ptrace(PTRACE_DETACH, tid, nullptr, nullptr), 0);
  return static_cast<long>(after.rax);
}

TEST(GivesUpAlso, ProgramsThatItWouldRunAreMissing) {
  Child service = start_service(0);
  Child free = Child::spawn({"sleep", "1000"});
  std::this_thread::sleep_for(std::chrono::milliseconds(200));  // until it sleeps
  EXPECT_EQ(result_of(SYS_execve, free.pid()), -EFAULT) << "of a path that is null";
  Child command = start({VITRINE}, {{"labels", "PID", "--watch=200ms"}, {}}, service.pid());
  ASSERT_TRUE(command.read_line(patience));
  EXPECT_EQ(result_of(SYS_execve, command.pid()), -ENOSYS);
  command.signal(SIGINT);
  EXPECT_EQ(command.wait(patience), 130);
}

#endif

TEST(GivesUpAlso, NoSystemCallWhereThatIsAskedForAndSaysSo) {
  ChildOptions options;
  options.env = {"VITRINE_SECCOMP=off"};
  const Outcome outcome = run({VITRINE, "probes", DEMO_SERVICE}, options);
  EXPECT_EQ(outcome.status, 0);
  EXPECT_THAT(outcome.err, HasSubstr("VITRINE_SECCOMP=off"));
}

#endif

// ---- programs that it starts ------------------------------------------------------------------

TEST(WhatItStarts, HasAllTheRightsOfTheUser) {
  const std::vector<std::string> asks{"grep", "-E",
                                      "CapPrm|CapBnd|NoNewPrivs|Seccomp:", "/proc/self/status"};
  const std::string expected = run(asks).out;
  EXPECT_THAT(expected, HasSubstr("Seccomp:\t0"));
  for (const std::vector<std::string>& words :
       {std::vector<std::string>{"labels", "--watch"}, {"trace", "*"}, {"profile"}}) {
    std::vector<std::string> command{VITRINE};
    command.insert(command.end(), words.begin(), words.end());
    command.insert(command.end(), {"--exec", "--"});
    command.insert(command.end(), asks.begin(), asks.end());
    const Outcome outcome = run(command);
    EXPECT_THAT(outcome.out, HasSubstr(expected)) << words.front() << outcome.err;
  }
}

TEST(WhatItStarts, MayBeASetuidProgram) {
  const Folder folder;
  std::filesystem::copy("/usr/bin/id", folder.at("id"));
  ASSERT_EQ(::chmod(folder.at("id").c_str(), 04755), 0);
  // A shell around it: the program itself may not be looked into, which would be the end.
  const Outcome outcome = run(as_nobody(
      {}, {VITRINE, "labels", "--watch", "--exec", "--", "sh", "-c", folder.at("id") + "; true"}));
  EXPECT_THAT(outcome.out, AllOf(HasSubstr("uid=65534"), HasSubstr("euid=0"))) << outcome.err;
}

// ---- file capabilities ------------------------------------------------------------------------

TEST(FileCapabilities, SufficeForEveryCommand) {
  const Folder folder;
  const std::string copy = folder.at("vitrine");
  std::filesystem::copy(VITRINE, copy);
  ASSERT_EQ(run({"setcap", "cap_bpf,cap_perfmon,cap_sys_ptrace=ep", copy}).status, 0);
  Child service = start_service(0);
  for (const auto& [use, words] : trials) {
    std::vector<std::string> command = trial(use, service.pid());
    command.front() = copy;
    const Outcome outcome = run(as_nobody({}, command));
    EXPECT_LE(outcome.status, use.starts_with("check") ? 1 : 0) << use << outcome.err;
    // Of the machine's others some may be in a user namespace, out of everybody's reach.
    EXPECT_THAT(outcome.err, Not(HasSubstr("process " + std::to_string(service.pid()) + ":")))
        << use;
  }
  Child command = start(as_nobody({}, {copy}), {{"profile", "PID"}, {}}, service.pid());
  ASSERT_TRUE(command.read_line(patience));
  expect_confined(command.pid(), {"CAP_BPF", "CAP_PERFMON", "CAP_SYS_PTRACE"}, false);
}

// ---- what root could before -------------------------------------------------------------------

TEST(Root, ReadsWhatOnlyOthersMayEnter) {
  const Folder folder;
  const std::string closed = folder.at("closed"), program = closed + "/service";
  std::filesystem::create_directory(closed);
  std::filesystem::copy(DEMO_SERVICE, program);
  ASSERT_EQ(::chown(program.c_str(), nobody, nobody), 0);
  ASSERT_EQ(::chmod(program.c_str(), 0700), 0);
  ASSERT_EQ(::chown(closed.c_str(), nobody, nobody), 0);
  ASSERT_EQ(::chmod(closed.c_str(), 0700), 0);
  ChildOptions options;
  options.uid = nobody;
  Child service = Child::spawn({program, "--seconds", "100"}, options);
  ASSERT_TRUE(service.read_line(patience));
  std::filesystem::remove(program);  // reached by /proc/PID/map_files alone
  const std::string pid = std::to_string(service.pid());
  for (const std::vector<std::string>& words :
       {std::vector<std::string>{"labels", pid}, {"probes", pid}, {"context", pid}}) {
    std::vector<std::string> command{VITRINE};
    command.insert(command.end(), words.begin(), words.end());
    const Outcome outcome = run(command);
    EXPECT_EQ(outcome.status, 0) << words.front() << outcome.err;
    EXPECT_NE(outcome.out, "");
  }
}

TEST(Root, WritesIntoPlacesOfOthersAndLeavesFilesTheirOwners) {
  const Folder folder;
  const std::string place = folder.at("place"), old = place + "/old.folded";
  std::filesystem::create_directory(place);
  std::ofstream(old) << "before\n";
  for (const std::string& path : {place, old}) ASSERT_EQ(::chown(path.c_str(), nobody, nobody), 0);
  Child service = start_service(0);
  const Outcome outcome = run({VITRINE, "profile", std::to_string(service.pid()), "--duration",
                               "300ms", "-o", old, "-o", place + "/new.folded"});
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  struct stat status {};
  ASSERT_EQ(::stat(old.c_str(), &status), 0);
  EXPECT_EQ(status.st_uid, nobody);
  EXPECT_NE(read_file(old), "before\n");
  EXPECT_TRUE(std::filesystem::exists(place + "/new.folded"));
}

}  // namespace
}  // namespace vitrine::test
