// The tables of rules, one an area; and all of them as one list.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "check/rule.hpp"
#include "observe/labels.hpp"

namespace vitrine::check {

struct FileSubject;
struct ContextSubject;
struct ProcessSubject;

std::span<const Rule<FileSubject>> label_file_rules();
std::span<const Rule<FileSubject>> thread_context_file_rules();
std::span<const Rule<FileSubject>> sdt_rules();
std::span<const Rule<FileSubject>> dof_rules();
std::span<const Rule<ContextSubject>> process_context_rules();
std::span<const Rule<ContextSubject>> thread_schema_rules();
std::span<const Rule<ProcessSubject>> process_rules();

/// What does not hold of a reading: a sentence without a full stop, or a label of the reading.
using Breach = std::variant<std::string, const format::Label*>;

/// A rule about one reading of one thread: asked of each, and counted.
struct ReadingRule {
  Requirement requirement;
  /// Nullopt: it holds.
  std::optional<Breach> (*broken)(const observe::ThreadLabels& reading);
};

std::span<const ReadingRule> live_label_rules();
std::span<const ReadingRule> live_record_rules();

/// Every rule, in the order in which they are listed.
std::vector<const Requirement*> all_requirements();

}  // namespace vitrine::check
