#include "check/check.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <tuple>

#include "base/limits.hpp"
#include "base/text.hpp"
#include "check/file_facts.hpp"
#include "check/live.hpp"
#include "check/rule.hpp"
#include "sandbox/files.hpp"
#include "sandbox/worker.hpp"
#include "target/mapped_files.hpp"
#include "target/maps.hpp"
#include "target/proc_file.hpp"
#include "target/threads.hpp"

namespace vitrine::check {

constexpr Verdict last(Verdict) {
  return Verdict::undecided;
}

template <pack::Of<Outcome> T>
auto fields(T& outcome) {
  auto& [verdict, seen, remedy] = outcome;
  return std::tie(verdict, seen, remedy);
}

template <pack::Of<FileReport> T>
auto fields(T& report) {
  auto& [path, published, intended, program, nameless, outcomes, problems] = report;
  return std::tie(path, published, intended, program, nameless, outcomes, problems);
}

namespace {

struct Request {
  std::string path;
  std::string file_name;
  std::optional<bool> asked_v0;
};

template <pack::Of<Request> T>
auto fields(T& request) {
  auto& [path, file_name, asked_v0] = request;
  return std::tie(path, file_name, asked_v0);
}

std::array<std::span<const Rule<FileSubject>>, 4> tables() {
  return {label_file_rules(), thread_context_file_rules(), sdt_rules(), dof_rules()};
}

/// The last component of the kernel's path of an open file: links have been followed.
std::string file_name_of(int file) {
  std::string path(limits::name_bytes, '\0');
  const ssize_t n =
      ::readlink(fmt::format("/proc/self/fd/{}", file).c_str(), path.data(), path.size());
  path.resize(n > 0 ? static_cast<std::size_t>(n) : 0);
  const auto root = target::open_at(AT_FDCWD, "/", O_PATH | O_DIRECTORY);
  path = target::without_deleted(std::move(path), file, root ? root->get() : -1);
  return std::string(file_name(path));
}

/// In a worker.
Result<FileReport> ask_all(const Request& request, FileDescriptor file) {
  auto subject = TRY(FileSubject::of(std::move(file), request.path, request.file_name));
  subject->labels.asked_v0 = request.asked_v0;
  const FileSubject& found = *subject;
  FileReport report{found.path, found.published,   found.intended, found.program, found.nameless(),
                    {},         found.elf.problems};
  for (const auto table : tables())
    for (const Rule<FileSubject>& rule : table) report.outcomes.push_back(rule.ask(found));
  // What was not read is no fault of the file.
  if (const int error = found.file->error(); error != 0)
    return fail(ErrorCode::failed, fmt::format("cannot be read: {}", std::strerror(error)));
  return report;
}

}  // namespace

std::vector<const Requirement*> file_requirements() {
  std::vector<const Requirement*> all;
  for (const auto table : tables())
    for (const Rule<FileSubject>& rule : table) all.push_back(&rule.requirement);
  return all;
}

Result<FileReport> report_on(const FileDescriptor& file, const std::string& path,
                             std::optional<bool> asked_v0) {
  auto& parser = sandbox::Parser::of_this_thread();
  auto report =
      TRY_WHILE(path, parser.ask<&ask_all>({path, file_name_of(file.get()), asked_v0}, file.get()));
  if (report.outcomes.size() != file_requirements().size())
    return fail_while(path, parser.invalid_response().value());
  report.path = path;
  return report;
}

namespace {

Finding finding(const Requirement& rule, std::string subject, Outcome outcome) {
  const bool open = outcome.verdict == Verdict::fails || outcome.verdict == Verdict::undecided;
  if (!open)
    outcome.remedy.clear();
  else if (outcome.remedy.empty())
    outcome.remedy = rule.remedy;
  return {&rule, std::move(subject), std::move(outcome), std::nullopt};
}

/// Asks the rules of `profiles`.
template <class Subject>
void ask(std::span<const Rule<Subject>> rules, const Subject& subject, Profiles profiles,
         const std::string& name, Report& into) {
  for (const Rule<Subject>& rule : rules)
    if (!rule.requirement.profiles.common(profiles).empty())
      into.findings.push_back(finding(rule.requirement, name, rule.ask(subject)));
}

/// Whether one version of custom labels is asked for, and so which.
std::optional<bool> asked_v0(Profiles claimed) {
  const bool v0 = claimed.has(Profile::custom_labels_v0);
  const bool v1 = claimed.has(Profile::custom_labels_v1);
  return v0 == v1 ? std::nullopt : std::optional(v0);
}

/// Takes the outcomes of `profiles` over.
void take_file(const FileReport& file, Profiles profiles, Report& into) {
  const auto rules = file_requirements();
  for (std::size_t i = 0; i < rules.size(); ++i)
    if (!rules[i]->profiles.common(profiles).empty())
      into.findings.push_back(finding(*rules[i], file.path, file.outcomes[i]));
  into.checked.add(profiles);
}

/// A static program without symbols may publish labels: no reader can know.
void report_nameless(const FileReport& file, Report& into) {
  Outcome outcome = file.outcomes.front();
  outcome.verdict = Verdict::undecided;
  into.findings.push_back(finding(*file_requirements().front(), file.path, std::move(outcome)));
}

/// A process, its files, and what is found out about them.
class ProcessCheck {
 public:
  ProcessCheck(target::Process& process, const Options& options, Report& into)
      : process_(process), options_(options), into_(into), context_(process) {}

  Result<void> run() {
    TRY(open_files());
    for (const FileReport& file : files_) published_.add(file.published);
    live_.redaction = options_.redaction;
    context_.subject().redaction = options_.redaction;
    live_.expected = published_;
    live_.expected.add(options_.claimed);
    context_.subject().needs_schema = live_.expected.has(Profile::otep_4947);
    if (auto seen =
            watch(process_, context_, live_, options_.duration, options_.sample, options_.stop);
        !seen)
      return seen;
    const auto records = live_.readings.find(Profile::otep_4947);
    context_.subject().has_records =
        records != live_.readings.end() && records->second.in_force != 0;
    ask_files();
    ask_context();
    ask_live();
    return {};
  }

 private:
  Result<void> open_files() {
    const auto mapped = TRY(target::executable_files(process_.proc_dir()));
    const auto root = target::open_at(process_.proc_dir(), "root", O_PATH | O_DIRECTORY);
    std::size_t refused = 0;
    for (const target::MappedFile& one : mapped) {
      auto file =
          target::open_mapped(process_.proc_dir(), one).and_then([&](const FileDescriptor& fd) {
            const auto path = target::without_deleted(one.path, fd.get(), root ? root->get() : -1);
            return report_on(fd, path, asked_v0(options_.claimed));
          });
      ++into_.files;
      if (file) {
        files_.push_back(std::move(*file));
        continue;
      }
      const ErrorCode code = file.error().code;
      refused += code == ErrorCode::not_permitted ? 1 : 0;
      // Code that is no ELF file (a JIT's, a device's) is no fault.
      if (code != ErrorCode::malformed && code != ErrorCode::unsupported)
        into_.unread.push_back(file.error().message);
    }
    if (refused != 0 && refused == mapped.size())
      return tl::unexpected<Error>(
          target::access_refused(process_.pid(), process_.proc_dir(), "check"));
    return {};
  }

  /// Whether the process context announces the records of OTEP-4947. Draft D has the same version for
  /// those behind another symbol.
  [[nodiscard]] bool announces_records() {
    const auto& schema = context_.subject().schema;
    if (!schema) return false;
    if (schema->format == format::Format::otel_thread_ctx_v1) return true;
    return schema->format == format::Format::v2_draft_d &&
           std::ranges::none_of(live_.definitions, [](const observe::DefinitionInfo& one) {
             return one.format == format::Format::v2_draft_d;
           });
  }

  void ask_files() {
    Profiles somewhere;  // that some file has, or seems to
    for (const FileReport& file : files_) somewhere.add(file.intended);
    Profiles nowhere = options_.claimed;
    if (announces_records() && options_.profiles.has(Profile::otep_4947))
      nowhere.add(Profile::otep_4947);
    nowhere.remove(somewhere);
    nowhere.remove({Profile::otep_4719});
    for (const FileReport& file : files_) {
      Profiles profiles = file.intended.common(options_.profiles);
      if (file.program) profiles.add(nowhere);
      if (!profiles.empty()) take_file(file, profiles, into_);
      if (file.nameless && profiles.common(labels_profiles).empty() &&
          !options_.profiles.common(labels_profiles).empty())
        report_nameless(file, into_);
    }
  }

  void ask_context() {
    ContextSubject& subject = context_.subject();
    const bool expected = options_.claimed.has(Profile::otep_4719) || subject.there();
    if (expected && options_.profiles.has(Profile::otep_4719)) {
      ask(process_context_rules(), subject, {Profile::otep_4719}, "", into_);
      into_.checked.add(Profile::otep_4719);
    }
    ask(thread_schema_rules(), subject, live_profiles().common({Profile::otep_4947}), "", into_);
  }

  void ask_live() {
    const Profiles profiles = live_profiles();
    ask(process_rules(), live_, profiles, "", into_);
    for (const auto rules : {live_label_rules(), live_record_rules()})
      for (const ReadingRule& rule : rules)
        if (!rule.requirement.profiles.common(profiles).empty()) ask(rule, profiles);
    for (const std::string& text : live_.notes.waiting()) into_.notes.push_back(text);
  }

  /// A finding for each profile of which there are readings: a process may have sets of several.
  void ask(const ReadingRule& rule, Profiles profiles) {
    std::vector<Profile> read;
    for (const auto& [profile, seen] : live_.readings)
      if (seen.readings != 0 && profiles.has(profile) && rule.requirement.profiles.has(profile))
        read.push_back(profile);
    if (read.empty()) add(rule, undecided(why_none_counts(rule, profiles)), {});
    for (const Profile profile : read) ask(rule, profile, read.size() > 1);
  }

  [[nodiscard]] std::string why_none_counts(const ReadingRule& rule, Profiles profiles) const {
    std::size_t unproven = 0;
    for (const auto& [profile, seen] : live_.readings)
      if (profiles.has(profile) && rule.requirement.profiles.has(profile))
        unproven += seen.unproven;
    return unproven == 0 ? "no thread could be read"
                         : fmt::format("none of {} readings could be proven", unproven);
  }

  void ask(const ReadingRule& rule, Profile profile, bool one_of_several) {
    const ProfileReadings& seen = live_.readings.at(profile);
    Readings count{seen.threads.size(), seen.readings, 0, {}};
    const std::string of =
        one_of_several ? fmt::format(" (of {})", check::name(profile)) : std::string();
    const auto broken = live_.broken.find({&rule, profile});
    if (broken == live_.broken.end()) {
      Outcome outcome =
          holds(fmt::format("{} readings of {} threads{}", count.readings, count.threads, of));
      return add(rule, std::move(outcome), std::move(count));
    }
    count.violations = broken->second.violations;
    count.example = broken->second.example;
    Outcome outcome = fails(fmt::format(
        "{} of {} readings, in {} of {} threads{}; the first: {}", count.violations, count.readings,
        broken->second.threads.size(), count.threads, of, count.example));
    add(rule, std::move(outcome), std::move(count));
  }

  void add(const ReadingRule& rule, Outcome outcome, Readings count) {
    into_.findings.push_back(finding(rule.requirement, "", std::move(outcome)));
    into_.findings.back().readings = std::move(count);
  }

  /// Label profiles for which the process has, or should have, something at run time.
  [[nodiscard]] Profiles live_profiles() const { return live_.expected.common(options_.profiles); }

  // ask() of a table is the free function above.
  template <class Subject>
  static void ask(std::span<const Rule<Subject>> rules, const Subject& subject, Profiles profiles,
                  const char* name, Report& into) {
    check::ask(rules, subject, profiles, name, into);
  }

  target::Process& process_;
  const Options& options_;
  Report& into_;
  std::vector<FileReport> files_;
  Profiles published_;
  ContextWatch context_;
  ProcessSubject live_;
};

}  // namespace

Result<Report> check_file(const std::string& path, const Options& options) {
  const auto opened = TRY(sandbox::open_regular_at(AT_FDCWD, path));
  Profiles claimed = options.claimed;
  claimed.remove({Profile::otep_4719});
  const auto file = TRY(report_on(opened, path, asked_v0(claimed)));
  Report report;
  report.target = path;
  report.files = 1;
  if (options.claimed.has(Profile::otep_4719))
    report.notes.emplace_back("a process context exists only in a running process: give its PID");
  Profiles profiles = file.intended.common(options.profiles);
  profiles.add(claimed);
  if (!profiles.empty()) take_file(file, profiles, report);
  if (file.nameless && profiles.common(labels_profiles).empty() &&
      !options.profiles.common(labels_profiles).empty())
    report_nameless(file, report);
  for (const std::string& text : file.problems) report.notes.push_back(text);
  return report;
}

Result<Report> check_process(int pid, const Options& options) {
  auto process = TRY(target::Process::open(pid));
  Report report;
  report.pid = pid;
  const auto leader = target::thread(process.proc_dir(), pid);
  report.target =
      leader ? fmt::format("process {} ({})", pid, leader->comm) : fmt::format("process {}", pid);
  TRY_WHILE(report.target, ProcessCheck(process, options, report).run());
  if (auto why = process.memory().withheld();
      !why.empty() && std::ranges::find(report.notes, why) == report.notes.end())
    report.notes.push_back(std::move(why));
  return report;
}

}  // namespace vitrine::check
