// The tables of rules, one an area; and all of them as one list.
#pragma once

#include <optional>
#include <span>
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

/// A rule about one reading of one thread: asked of each, and counted.
struct ReadingRule {
  Requirement requirement;
  /// Nullopt: it holds; else what does not, as a sentence without a full stop.
  std::optional<std::string> (*broken)(const observe::ThreadLabels& reading);
};

std::span<const ReadingRule> live_label_rules();
std::span<const ReadingRule> live_record_rules();

/// Every rule, in the order in which they are listed.
std::vector<const Requirement*> all_requirements();

}  // namespace vitrine::check
