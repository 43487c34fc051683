#include "observe/ps.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <map>
#include <memory>
#include <optional>
#include <set>

#include "format/redact.hpp"
#include "format/thread_schema.hpp"
#include "observe/labels/definitions.hpp"
#include "observe/probes/probes.hpp"
#include "observe/process/facts.hpp"
#include "sandbox/work_budget.hpp"
#include "target/proc_file.hpp"
#include "target/process.hpp"
#include "target/threads.hpp"

namespace vitrine::observe {
namespace {

/// A publisher, and what shows whether its memory is another's, too.
struct Found {
  Publisher publisher;
  bool unfinished = false;  ///< its budget was spent
  target::Identity identity;
  pid_t parent = 0;
  Address context_header = 0;
  std::uint64_t context_stamp = 0;
};

pid_t parent_of(int proc_dir) {
  const auto status = target::read_file_at(proc_dir, "status", target::proc_file_bytes);
  const auto field = status ? target::status_field(*status, "PPid") : std::nullopt;
  pid_t parent = 0;
  if (field) std::from_chars(field->data(), field->data() + field->size(), parent);
  return parent;
}

/// The context's part: also what it declares of thread records.
void look_at_context(target::Process& process, Found& found, const Redaction& redaction,
                     std::optional<format::ThreadSchema>& schema) {
  const auto reader = ContextReader::of(process);
  auto state = reader->refresh();
  if (!state) {
    const ErrorCode code = state.error().code;
    if (code != ErrorCode::not_found && code != ErrorCode::not_permitted)
      found.publisher.problems.push_back(std::move(state.error().message));
    return;
  }
  if (!*state) return;
  const ContextState& context = **state;
  const format::ProcessContext shown = format::redacted(context.context, redaction);
  found.publisher.has_context = true;
  found.context_header = context.header;
  found.context_stamp = context.context.published_at_ns;
  if (const auto* service = format::find_text(shown.resource, "service.name"))
    found.publisher.service = *service;
  schema = format::schema_of(context.context);
}

void look_at_labels(target::Process& process, Found& found,
                    const std::optional<format::ThreadSchema>& schema,
                    symbol::ExecutableSymbols& executables, const sandbox::WorkBudget& budget) {
  DefinitionFinder finder(process, &executables);
  const auto refreshed = finder.refresh(schema, budget);
  found.unfinished = finder.unfinished();
  if (!refreshed) {
    // When the program's headers make no sense, it is no publisher of labels.
    if (refreshed.error().code == ErrorCode::failed)
      found.publisher.problems.push_back(refreshed.error().message);
    return;
  }
  auto& formats = found.publisher.formats;
  for (const Definition& definition : finder.all()) formats.push_back(definition.format);
  std::sort(formats.begin(), formats.end());
  formats.erase(std::unique(formats.begin(), formats.end()), formats.end());
  auto& problems = found.publisher.problems;
  if (!formats.empty())
    problems.insert(problems.end(), finder.notes().begin(), finder.notes().end());
}

/// Whether one process runs in the memory of its parent: a child of vfork or posix_spawn shows its
/// parent's labels until it executes another program.
bool shares_memory(const Found& child, const Found& parent) {
  constexpr int kcmp_vm = 1;  // KCMP_VM of linux/kcmp.h
  const long order =
      ::syscall(SYS_kcmp, child.publisher.pid, parent.publisher.pid, kcmp_vm, 0UL, 0UL);
  if (order >= 0) return order == 0;
  // Not available: a forked child has its parent's random bytes, but never its very context.
  return child.identity.random_address == parent.identity.random_address &&
         child.identity.random_bytes == parent.identity.random_bytes && child.context_header != 0 &&
         child.context_header == parent.context_header &&
         child.context_stamp == parent.context_stamp;
}

void drop_borrowers(std::vector<Found>& found) {
  std::map<pid_t, const Found*> by_pid;
  for (const Found& one : found) by_pid[one.publisher.pid] = &one;
  std::vector<pid_t> borrowers;
  for (const Found& one : found) {
    const auto parent = by_pid.find(one.parent);
    if (parent != by_pid.end() && shares_memory(one, *parent->second))
      borrowers.push_back(one.publisher.pid);
  }
  const auto borrows = [&](const Found& one) {
    return std::binary_search(borrowers.begin(), borrowers.end(), one.publisher.pid);
  };
  found.erase(std::remove_if(found.begin(), found.end(), borrows), found.end());
}

/// A program with a plug-in that has probes, and the plug-in in another process, are files to be
/// read once: what was looked into is kept from process to process.
struct Known {
  symbol::ExecutableSymbols executables;
  ProbeFiles probes;
};

std::size_t count_probes(pid_t pid, ProbeFiles& files, const sandbox::WorkBudget& budget,
                         bool& unfinished, std::vector<std::string>& problems) {
  const auto found = files.of_process(pid, budget);
  unfinished = unfinished || (found && found->left_out != 0);
  if (!found && found.error().code == ErrorCode::failed) problems.push_back(found.error().message);
  std::size_t count = 0;
  std::set<const ProbeFile*> counted;
  if (found)
    for (const ProbeModule& module : found->modules)
      if (counted.insert(module.file.get()).second) count += module.file->probes.size();
  return count;
}

/// What one process publishes; nullopt: nothing. Errors: as Process::open.
Result<std::optional<Found>> look_at(pid_t pid, std::string comm, const ListOptions& options,
                                     Known& known, const sandbox::WorkBudget& budget) {
  auto process = TRY(target::Process::open(pid));
  Found found;
  std::optional<format::ThreadSchema> schema;
  look_at_context(process, found, options.redaction, schema);
  look_at_labels(process, found, schema, known.executables, budget);
  if (auto why = process.memory().withheld(); !why.empty())
    found.publisher.problems.push_back(std::move(why));
  const Publisher& publisher = found.publisher;
  const bool publishes =
      !publisher.formats.empty() || publisher.has_context || !publisher.problems.empty();
  if (publishes || options.with_probes)
    found.publisher.probes =
        count_probes(pid, known.probes, budget, found.unfinished, found.publisher.problems);
  if (!publishes && publisher.probes == 0 && !found.unfinished) return std::nullopt;
  const auto tids = TRY(target::thread_ids(process.proc_dir()));
  found.publisher.pid = pid;
  found.publisher.comm = std::move(comm);
  found.publisher.threads = tids.size();
  found.identity = process.identity();
  found.parent = parent_of(process.proc_dir());
  return found;
}

/// Looks at all processes: each within a small budget first, so that none makes the others wait;
/// then again, within what is left for all, at those for which that was not enough.
class Lister {
 public:
  explicit Lister(const ListOptions& options) : options_(options) {}

  Result<PublisherList> list() {
    const auto pids = TRY(target::all_processes());
    std::vector<pid_t> open;
    for (std::size_t i = 0; i < pids.size(); ++i) {
      if (look(pids[i], first_budget()) == Outcome::unfinished) open.push_back(pids[i]);
      if (options_.progress) options_.progress(i + 1, pids.size());
    }
    spent_ = std::chrono::nanoseconds(0);
    again_ = true;
    auto budget = options_.first_budget;
    while (!open.empty() && spent_ < options_.rest_budget) {
      budget *= growth;
      std::vector<pid_t> left;
      for (const pid_t pid : open) {
        const auto rest = std::min(budget, options_.rest_budget - spent_);
        if (rest.count() <= 0 || look(pid, rest) == Outcome::unfinished) left.push_back(pid);
      }
      open = std::move(left);
    }
    return finish(open);
  }

 private:
  enum class Outcome { done, unfinished };
  static constexpr int growth = 5;

  /// Less, where many processes have used theirs up.
  [[nodiscard]] std::chrono::nanoseconds first_budget() const {
    return spent_ < options_.rest_budget ? options_.first_budget : options_.first_budget / 10;
  }

  Outcome look(pid_t pid, std::chrono::nanoseconds time) {
    const auto directory =
        target::open_at(AT_FDCWD, fmt::format("/proc/{}", pid), O_RDONLY | O_DIRECTORY);
    const auto line =
        directory ? target::read_blocking_at(directory->get(), "stat", target::proc_file_bytes)
                  : Result<std::string>(tl::unexpected(directory.error()));
    const auto stat = line.and_then(target::parse_stat);
    if (!stat || stat->kernel_thread()) {
      forget(pid);
      if (!stat &&
          (stat.error().code == ErrorCode::failed || stat.error().code == ErrorCode::limit))
        report(pid, {}, stat.error());
      return Outcome::done;
    }
    const sandbox::WorkBudget budget(time);
    auto looked = look_at(pid, stat->comm, options_, known_, budget);
    forget(pid);
    const bool unfinished = looked && *looked && (*looked)->unfinished;
    if (unfinished || again_) spent_ += budget.used();
    if (!looked && looked.error().code == ErrorCode::not_found)
      return Outcome::done;  // it has ended
    looked_at_.insert(pid);
    if (looked && *looked) found_.emplace(pid, std::move(**looked));
    const auto code = looked ? ErrorCode{} : looked.error().code;
    // Memory that does not come, descriptors that there are no more of.
    if (!looked && code != ErrorCode::not_permitted) report(pid, stat->comm, looked.error());
    if (!looked && looked.error().code == ErrorCode::not_permitted) not_permitted_.insert(pid);
    return unfinished ? Outcome::unfinished : Outcome::done;
  }

  /// A process that may publish, and could not be read.
  void report(pid_t pid, const std::string& comm, const Error& error) {
    Found unread;
    unread.publisher.pid = pid;
    unread.publisher.comm = comm;
    unread.publisher.problems.push_back(error.message);
    found_.emplace(pid, std::move(unread));
    unread_.emplace(pid, error.message);
  }

  /// What an earlier look found.
  void forget(pid_t pid) {
    found_.erase(pid);
    looked_at_.erase(pid);
    not_permitted_.erase(pid);
    unread_.erase(pid);
  }

  PublisherList finish(const std::vector<pid_t>& unfinished) {
    for (const pid_t pid : unfinished)
      if (const auto one = found_.find(pid); one != found_.end())
        one->second.publisher.problems.emplace_back(
            "read in part: the time limit for its modules and files was reached");
    std::vector<Found> found;
    for (auto& [pid, one] : found_) found.push_back(std::move(one));
    drop_borrowers(found);
    PublisherList list;
    list.looked_at = looked_at_.size();
    list.not_permitted = not_permitted_.size();
    list.cut = unfinished.size();
    list.unread = unread_.size();
    if (!unread_.empty()) list.why_unread = unread_.begin()->second;
    for (Found& one : found) list.publishers.push_back(std::move(one.publisher));
    return list;
  }

  const ListOptions& options_;
  Known known_;
  std::map<pid_t, Found> found_;
  std::set<pid_t> looked_at_, not_permitted_;
  std::map<pid_t, std::string> unread_;  ///< and why
  std::chrono::nanoseconds spent_{0};    ///< by those whose first budget was not enough
  bool again_ = false;                   ///< only those are left
};

}  // namespace

Result<PublisherList> list_publishers(const ListOptions& options) {
  return Lister(options).list();
}

}  // namespace vitrine::observe
