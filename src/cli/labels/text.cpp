#include "cli/labels/text.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "base/text.hpp"
#include "cli/output/json.hpp"

namespace vitrine::cli {
namespace {

using observe::Evidence;
using observe::ThreadLabels;
using Definition = std::pair<format::Format, std::string>;

Definition definition_of(const ThreadLabels& thread) {
  return {thread.format, thread.module};
}

/// What a reading says, independent of the format that said it: ids that a format can only publish
/// as labels are the trace.
struct Content {
  std::vector<std::pair<std::string, std::string>> labels;
  std::string trace;  ///< "trace id/span id" in hex, or empty
  std::string error;
  std::vector<std::string> remarks;

  auto operator<=>(const Content&) const = default;
};

Content content_of(const ThreadLabels& thread) {
  Content content;
  if (!thread.set) {
    content.error = thread.set.error().message;
    return content;
  }
  const format::LabelSet& set = *thread.set;
  std::string trace_id;
  std::string span_id;
  if (set.trace) {
    trace_id = hex_text(set.trace->trace_id);
    span_id = hex_text(set.trace->span_id);
  }
  for (const format::Label& label : set.labels) {
    if (!set.trace && label.key == "trace_id" && label.value.size() == 32)
      trace_id = label.value;
    else if (!set.trace && label.key == "span_id" && label.value.size() == 16)
      span_id = label.value;
    else
      content.labels.emplace_back(label.key, label.value);
  }
  if (!trace_id.empty() || !span_id.empty()) content.trace = trace_id + "/" + span_id;
  for (const format::Truncation& cut : set.truncated)
    content.remarks.push_back(fmt::format("{} cut: {}", cut.what, cut.detail));
  for (const std::string& defect : format::texts(set.defects, set.defects_left_out))
    content.remarks.push_back("publisher's fault: " + defect);
  return content;
}

/// Order means nothing in a set: it is kept for the eye, and left out of comparisons.
Content unordered(Content content) {
  std::sort(content.labels.begin(), content.labels.end());
  return content;
}

bool is_quiet(const Content& content) {
  return content == Content{};
}

std::string describe(const Content& content, const Style& style) {
  if (!content.error.empty()) return style.red("not read: " + printable(content.error));
  std::string out;
  const auto add = [&](const std::string& item) { out += (out.empty() ? "" : " ") + item; };
  for (const auto& [key, value] : content.labels)
    add(style.cyan(delimited(key)) + "=" + delimited(value));
  if (!content.trace.empty()) add(style.dim("trace=" + printable(content.trace)));
  for (const std::string& remark : content.remarks)
    add(style.yellow("(" + printable(remark) + ")"));
  return out;
}

std::string describe(Evidence evidence, const Style& style) {
  const std::string text(observe::name(evidence));
  return evidence == Evidence::unproven ? style.yellow(text) : style.green(text);
}

/// Readings of one thread that say the same.
struct Line {
  Content content;  ///< in the order of the first of them
  std::string comm;
  Evidence evidence = Evidence::proven;  ///< the weakest of them
  std::vector<Definition> definitions;
};

std::string names(const std::vector<Definition>& definitions) {
  std::vector<std::string_view> formats;
  formats.reserve(definitions.size());
  for (const Definition& definition : definitions)
    formats.push_back(format::name(definition.first));
  return fmt::format("{}", fmt::join(formats, ", "));
}

/// "custom-labels-v1, otel-thread-ctx-v1 from /path": one line a module.
std::string headings(const std::vector<Definition>& definitions, const Style& style) {
  std::map<std::string, std::vector<Definition>> modules;
  for (const Definition& definition : definitions) modules[definition.second].push_back(definition);
  std::string out;
  for (const auto& [module, its] : modules)
    out += fmt::format("{} {}\n", style.bold(names(its)), style.dim("from " + printable(module)));
  return out;
}

/// Lines of one thread, by what they say.
using Lines = std::map<Content, Line>;

Lines lines_of(std::span<const ThreadLabels* const> readings) {
  Lines lines;
  for (const ThreadLabels* thread : readings) {
    Content content = content_of(*thread);
    Line& line = lines[unordered(content)];
    if (line.definitions.empty()) line.content = std::move(content);
    line.comm = thread->comm;
    line.evidence = std::max(line.evidence, thread->evidence);
    line.definitions.push_back(definition_of(*thread));
  }
  return lines;
}

/// The table of one snapshot. It is gone through twice, the first time for the widths of columns:
/// the labels of all threads in text would take several times the memory that they do.
class LabelsTable {
 public:
  LabelsTable(const observe::Snapshot& snapshot, bool every_thread, const Style& style)
      : every_thread_(every_thread), style_(style) {
    for (const ThreadLabels& thread : snapshot.threads) threads_[thread.tid].push_back(&thread);
    columns_.fit(head());
    for (const auto& [tid, readings] : threads_) {
      const bool listed = for_rows(tid, readings, [&](std::vector<std::string> cells, auto&&...) {
                            cells.emplace_back();
                            columns_.fit(cells);
                            return true;
                          }).listed;
      quiet_ += listed ? 0 : 1;
    }
  }

  [[nodiscard]] std::size_t threads() const { return threads_.size(); }
  [[nodiscard]] std::size_t quiet() const { return quiet_; }

  bool print(const TextSink& out) const {
    if (!out(columns_.line(head(), 2))) return false;
    const auto print_row = [&](std::vector<std::string> cells, const Line& line, bool differs) {
      cells.push_back(describe(line.content, style_));
      if (differs)
        cells.back() += (cells.back().empty() ? "" : " ") +
                        style_.dim(fmt::format("({} only)", names(line.definitions)));
      return out(columns_.line(cells, 2));
    };
    return std::all_of(threads_.begin(), threads_.end(), [&](const auto& thread) {
      return for_rows(thread.first, thread.second, print_row).went_on;
    });
  }

 private:
  using Readings = std::vector<const ThreadLabels*>;

  struct Outcome {
    bool listed = false;
    bool went_on = true;
  };

  [[nodiscard]] std::vector<std::string> head() const {
    return {style_.dim("TID"), style_.dim("THREAD"), style_.dim("EVIDENCE"), style_.dim("LABELS")};
  }

  /// Calls `row(cells but the last, line, whether the thread has several lines)`.
  template <class Row>
  Outcome for_rows(int tid, const Readings& readings, const Row& row) const {
    const Lines lines = lines_of(readings);
    if (lines.size() == 1 && is_quiet(lines.begin()->first) && !every_thread_) return {};
    for (const auto& [key, line] : lines) {
      if (lines.size() > 1 && is_quiet(line.content) && !every_thread_) continue;
      const std::string evidence =
          line.content.error.empty() ? describe(line.evidence, style_) : "-";
      if (!row({std::to_string(tid), printable(line.comm), evidence}, line, lines.size() > 1))
        return {true, false};
    }
    return {true, true};
  }

  bool every_thread_;
  const Style& style_;
  std::map<int, Readings> threads_;
  Columns columns_;
  std::size_t quiet_ = 0;
};

}  // namespace

bool print_labels(const observe::Snapshot& snapshot, bool every_thread, const Style& style,
                  const TextSink& out) {
  if (snapshot.threads.empty()) return out(style.dim("no thread was seen\n"));
  std::vector<Definition> definitions;
  for (const ThreadLabels& thread : snapshot.threads) {
    const Definition definition = definition_of(thread);
    if (std::find(definitions.begin(), definitions.end(), definition) == definitions.end())
      definitions.push_back(definition);
  }
  const LabelsTable table(snapshot, every_thread, style);
  if (!out(headings(definitions, style))) return false;
  if (table.quiet() < table.threads() && !table.print(out)) return false;
  if (table.quiet() == 0) return true;
  return out(style.dim(
      fmt::format("  {} thread{} without labels\n", table.quiet(), table.quiet() == 1 ? "" : "s")));
}

}  // namespace vitrine::cli
