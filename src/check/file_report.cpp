#include "check/file_report.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <tuple>

#include "base/limits.hpp"
#include "check/file_subject.hpp"
#include "check/rules.hpp"
#include "target/maps.hpp"
#include "worker/parser.hpp"

namespace vitrine::check {

constexpr Verdict last(Verdict) {
  return Verdict::undecided;
}

template <pack::Of<Answer> T>
auto fields(T& answer) {
  auto& [verdict, seen, remedy] = answer;
  return std::tie(verdict, seen, remedy);
}

template <pack::Of<FileReport> T>
auto fields(T& report) {
  auto& [path, published, intended, program, nameless, answers, problems] = report;
  return std::tie(path, published, intended, program, nameless, answers, problems);
}

namespace {

struct Question {
  std::string path;
  std::string file_name;
  std::optional<bool> asked_v0;
};

template <pack::Of<Question> T>
auto fields(T& question) {
  auto& [path, file_name, asked_v0] = question;
  return std::tie(path, file_name, asked_v0);
}

std::array<std::span<const Rule<FileSubject>>, 4> tables() {
  return {label_file_rules(), thread_context_file_rules(), sdt_rules(), dof_rules()};
}

/// The last component of where the kernel says that an open file is: links have been followed.
std::string file_name_of(int file) {
  std::string path(limits::name_bytes, '\0');
  const ssize_t n =
      ::readlink(fmt::format("/proc/self/fd/{}", file).c_str(), path.data(), path.size());
  path.resize(n > 0 ? static_cast<std::size_t>(n) : 0);
  path = target::without_deleted(std::move(path));
  return path.substr(path.rfind('/') + 1);
}

/// In a worker.
Result<FileReport> ask_all(const Question& question, FileDescriptor file) {
  auto subject = TRY(FileSubject::of(std::move(file), question.path, question.file_name));
  subject->labels.asked_v0 = question.asked_v0;
  const FileSubject& found = *subject;
  FileReport report{found.path, found.published,   found.intended, found.program, found.nameless(),
                    {},         found.elf.problems};
  for (const auto table : tables())
    for (const Rule<FileSubject>& rule : table) report.answers.push_back(rule.ask(found));
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
  auto report = TRY_WHILE(path, worker::Parser::of_this_thread().ask<&ask_all>(
                                    {path, file_name_of(file.get()), asked_v0}, file.get()));
  if (report.answers.size() != file_requirements().size())
    return fail(ErrorCode::failed, path + ": its parser returned an invalid response");
  report.path = path;
  return report;
}

}  // namespace vitrine::check
