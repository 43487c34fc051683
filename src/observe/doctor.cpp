#include "observe/doctor.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/capability.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <charconv>
#include <chrono>
#include <optional>

#include "bpf/availability.hpp"
#include "bpf/profiler.hpp"
#include "bpf/sampler.hpp"
#include "bpf/thread_iterator.hpp"
#include "bpf/uprobes.hpp"
#include "sandbox/capabilities.hpp"
#include "target/maps.hpp"
#include "target/proc_file.hpp"
#include "target/process.hpp"
#include "target/stopped_threads.hpp"

namespace vitrine::observe {
namespace {

using Verdict = Finding::Verdict;

constexpr const char* capabilities = "capabilities";
constexpr const char* kernel = "kernel";
constexpr const char* modes = "modes";
constexpr const char* profiles = "profiles";

Finding of(const char* topic, std::string what, const Result<void>& tried, std::string detail) {
  if (tried) return {topic, std::move(what), Verdict::yes, std::move(detail), {}};
  return {topic, std::move(what), Verdict::no, tried.error().message, tried.error().remedy};
}

Finding present(std::string what, bool there, std::string detail, std::string remedy) {
  if (there) remedy.clear();
  return {kernel, std::move(what), there ? Verdict::yes : Verdict::no, std::move(detail),
          std::move(remedy)};
}

// --- capabilities -------------------------------------------------------------------------------

struct Capability {
  int value;
  const char* name;
  const char* gives;
  bool of_bpf;  ///< counts in the initial user namespace only
};

constexpr std::array known_capabilities{
    Capability{CAP_SYS_PTRACE, "CAP_SYS_PTRACE", "reading processes of other users", false},
    Capability{CAP_BPF, "CAP_BPF", "snapshot at full speed, ebpf mode, traces and profiles", true},
    Capability{CAP_PERFMON, "CAP_PERFMON", "snapshot at full speed, ebpf mode, traces and profiles",
               true},
};

std::string setcap(const char* name) {
  std::string lower(name);
  for (char& c : lower) c = static_cast<char>(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
  return fmt::format("run vitrine as root, or: setcap {}+ep vitrine", lower);
}

void examine_capabilities(std::vector<Finding>& into) {
  for (const Capability& capability : known_capabilities) {
    if (capability.of_bpf && !bpf::in_initial_user_namespace()) {
      into.push_back(
          {capabilities, capability.name, Verdict::no,
           fmt::format("for {}: one of this user namespace permits none", capability.gives),
           "run vitrine in the initial user namespace, outside the container"});
      continue;
    }
    const bool has = target::effective_capability(capability.value);
    into.push_back({capabilities, capability.name, has ? Verdict::yes : Verdict::no,
                    fmt::format("for {}", capability.gives), has ? "" : setcap(capability.name)});
  }
}

// --- kernel -------------------------------------------------------------------------------------

std::optional<int> setting(const char* path) {
  const auto text = target::read_file_at(AT_FDCWD, path, 32);
  int value = 0;
  if (!text || std::from_chars(text->data(), text->data() + text->size(), value).ec != std::errc())
    return std::nullopt;
  return value;
}

Finding yama() {
  const auto scope = setting("/proc/sys/kernel/yama/ptrace_scope");
  Finding finding{
      kernel, "yama", Verdict::yes, "not in this kernel: your own processes are accessible", {}};
  if (!scope) return finding;
  finding.detail = fmt::format("kernel.yama.ptrace_scope is {}", *scope);
  if (*scope == 0) return finding;
  finding.verdict = *scope == 3 ? Verdict::no : Verdict::partial;
  finding.remedy = *scope == 3 ? "only a reboot resets it"
                               : "sysctl kernel.yama.ptrace_scope=0, or CAP_SYS_PTRACE";
  return finding;
}

Finding paranoia() {
  const auto level = setting("/proc/sys/kernel/perf_event_paranoid");
  Finding finding{kernel, "perf_event_paranoid", Verdict::no, "no perf events in this kernel",
                  "a kernel with CONFIG_PERF_EVENTS"};
  if (!level) return finding;
  const bool need_admin = !sandbox::added_for_perf_events().empty();
  const int capability = need_admin ? CAP_SYS_ADMIN : CAP_PERFMON;
  finding.verdict =
      *level <= 0 || target::effective_capability(capability) ? Verdict::yes : Verdict::partial;
  finding.detail = fmt::format("kernel.perf_event_paranoid is {}", *level);
  finding.remedy = finding.verdict == Verdict::yes ? ""
                   : need_admin ? "CAP_SYS_ADMIN, or: sysctl kernel.perf_event_paranoid=2"
                                : "CAP_PERFMON, or: sysctl kernel.perf_event_paranoid=0";
  return finding;
}

bool schedstat_counts() {
  const auto line = target::read_file_at(AT_FDCWD, "/proc/thread-self/schedstat", 128);
  const std::size_t space = line ? line->rfind(' ') : std::string::npos;
  return space != std::string::npos && line->compare(space, 2, " 0") != 0;
}

/// The kernel shows its addresses as zeros to users that may not have them. To others, too, it
/// shows those of a CPU's own variables so, which come first.
Finding kernel_names() {
  constexpr std::size_t some_lines = 16384;
  const auto text = target::read_file_at(AT_FDCWD, "/proc/kallsyms", some_lines);
  const std::string_view lines = text ? std::string_view(*text) : std::string_view();
  bool there = false;
  for (std::size_t at = 0; at < lines.size() && !there; at = lines.find('\n', at) + 1) {
    there = lines.find_first_not_of('0', at) < lines.find(' ', at);
    if (lines.find('\n', at) == std::string_view::npos) break;
  }
  return present("kernel symbols", there, "names of kernel functions in profiles",
                 "CAP_SYSLOG, or: sysctl kernel.kptr_restrict=0");
}

void examine_kernel(std::vector<Finding>& into) {
  utsname name{};
  ::uname(&name);
  into.push_back({kernel, "release", Verdict::yes, name.release, {}});
  into.push_back(of(kernel, "/proc", target::require_own_proc(), "of this PID namespace"));
  const bool types = ::access(bpf::kernel_btf, R_OK) == 0;
  const std::string needs_types =
      bpf::sysfs_is_mounted() ? "a kernel with CONFIG_DEBUG_INFO_BTF" : "mount -t sysfs sysfs /sys";
  into.push_back(present("BTF", types, bpf::kernel_btf, needs_types));
  into.push_back(present("PROCMAP_QUERY", target::kernel_has_procmap_query(),
                         "finds the process context quickly", "Linux 6.11 or later"));
  into.push_back(present("uprobe_multi", bpf::kernel_has_struct("bpf_uprobe_multi_link"),
                         "attaches to many probes at once",
                         types ? "Linux 6.6 or later" : needs_types));
  into.push_back(present("bpf_task_from_pid", bpf::kernel_has_function("bpf_task_from_pid"),
                         "profiles threads that already wait at the start",
                         types ? "Linux 6.2 or later" : needs_types));
  into.push_back(present("schedstat", schedstat_counts(), "counts the runs of each thread",
                         "a kernel with CONFIG_SCHED_INFO"));
  into.push_back(present("syscall file", ::access("/proc/thread-self/syscall", F_OK) == 0,
                         "detects that a thread is blocked",
                         "a kernel with CONFIG_HAVE_ARCH_TRACEHOOK"));
  into.push_back(yama());
  into.push_back(paranoia());
  into.push_back(kernel_names());
}

// --- modes --------------------------------------------------------------------------------------

Result<void> try_iterator() {
  const target::FileDescriptor self(static_cast<int>(::syscall(SYS_pidfd_open, ::getpid(), 0)));
  auto iterator = TRY(bpf::ThreadIterator::open(self.get()));
  std::vector<vitrine_thread> threads;
  return iterator->read(threads);
}

Result<void> try_sampler() {
  auto sampler = TRY(bpf::Sampler::open());
  return sampler->start(1);
}

Result<void> try_profiler(bool off_cpu, vitrine_unwinds unwinds = VITRINE_UNWINDS_NOT) {
  bpf::ProfilerOptions options;
  options.unwinds = unwinds;
  options.frequency = off_cpu ? 0 : 1;
  options.off_cpu = off_cpu;
  options.pending_bytes = 1U << 20;
  options.ring_bytes = 1U << 20;
  auto profiler = TRY(bpf::Profiler::open(options));
  return profiler->start();
}

/// A child process that waits, to try things on.
class WaitingChild {
 public:
  WaitingChild() : pid_(::fork()) {
    if (pid_ == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      for (;;) ::pause();
    }
  }
  ~WaitingChild() {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  WaitingChild(const WaitingChild&) = delete;
  WaitingChild& operator=(const WaitingChild&) = delete;

  [[nodiscard]] pid_t pid() const { return pid_; }

 private:
  pid_t pid_;
};

Result<void> try_ptrace() {
  const WaitingChild child;
  auto process = TRY(target::Process::open(child.pid()));
  Result<void> outcome;
  const std::array tids{child.pid()};
  target::visit_stopped(process, tids, std::chrono::milliseconds(500), nullptr,
                        [&](std::size_t, const Result<Address>& stopped) {
                          if (!stopped) outcome = tl::unexpected(stopped.error());
                        });
  return outcome;
}

/// A mode that works works for one's own processes; for those of others it takes one more right.
Finding limited_to_own(Finding finding) {
  if (finding.verdict != Verdict::yes || target::effective_capability(CAP_SYS_PTRACE))
    return finding;
  finding.verdict = Verdict::partial;
  finding.detail += ", for your own processes";
  finding.remedy = setcap("CAP_SYS_PTRACE");
  return finding;
}

void examine_modes(std::vector<Finding>& into) {
  const auto iterator = try_iterator();
  into.push_back(of(kernel, "BPF task iterator", iterator, "with pid filter"));
  const auto sampler = try_sampler();
  into.push_back(of(kernel, "BPF CPU-clock sampler", sampler, "on every CPU"));

  Finding snapshot = of(modes, "snapshot", iterator, "proves by the task iterator");
  if (!iterator && schedstat_counts()) {
    snapshot.verdict = Verdict::partial;
    snapshot.detail = fmt::format("proves by /proc only: {}", iterator.error().message);
    if (!target::effective_capability(CAP_SYS_PTRACE))
      snapshot.detail += "; for your own processes";
  }
  into.push_back(limited_to_own(std::move(snapshot)));
  into.push_back(limited_to_own(of(modes, "ebpf", sampler, "sees running threads")));
  into.push_back(limited_to_own(of(modes, "ptrace", try_ptrace(), "stops each thread")));

  // Of other users' processes there are samples nevertheless, without labels and names.
  into.push_back(limited_to_own(
      of(profiles, "on CPU", try_profiler(false), "stacks and labels of running threads")));
  into.push_back(limited_to_own(
      of(profiles, "off CPU", try_profiler(true), "stacks and labels of waiting threads")));
  into.push_back(limited_to_own(of(profiles, "unwinding in the kernel",
                                   try_profiler(false, VITRINE_UNWINDS_ELSE_COPIES),
                                   "as profiles do by default; else stacks are copied")));
}

}  // namespace

std::string_view name(Verdict verdict) {
  switch (verdict) {
    case Verdict::yes:
      return "yes";
    case Verdict::no:
      return "no";
    case Verdict::partial:
      return "partly";
  }
  return "unknown";
}

std::vector<Finding> examine() {
  std::vector<Finding> findings;
  examine_capabilities(findings);
  examine_kernel(findings);
  examine_modes(findings);
  return findings;
}

bool attaching_takes_admin() {
  return !bpf::has_uprobe_multi().value_or(true);
}

}  // namespace vitrine::observe
