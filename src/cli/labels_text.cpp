#include "cli/labels_text.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <tuple>

#include "cli/json.hpp"

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
    trace_id = hex_id(set.trace->trace_id);
    span_id = hex_id(set.trace->span_id);
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

}  // namespace

std::string labels_text(const observe::Snapshot& snapshot, bool every_thread, const Style& style) {
  std::vector<Definition> definitions;
  std::map<int, std::map<Content, Line>> threads;
  for (const ThreadLabels& thread : snapshot.threads) {
    const Definition definition = definition_of(thread);
    if (std::find(definitions.begin(), definitions.end(), definition) == definitions.end())
      definitions.push_back(definition);
    Content content = content_of(thread);
    Line& line = threads[thread.tid][unordered(content)];
    if (line.definitions.empty()) line.content = std::move(content);
    line.comm = thread.comm;
    line.evidence = std::max(line.evidence, thread.evidence);
    line.definitions.push_back(definition);
  }
  if (threads.empty()) return style.dim("no thread was seen\n");

  Table table;
  table.row({style.dim("TID"), style.dim("THREAD"), style.dim("EVIDENCE"), style.dim("LABELS")});
  std::size_t quiet = 0;
  for (const auto& [tid, contents] : threads) {
    const bool nothing = contents.size() == 1 && is_quiet(contents.begin()->first);
    if (nothing && !every_thread) {
      ++quiet;
      continue;
    }
    for (const auto& [key, line] : contents) {
      const Content& content = line.content;
      if (contents.size() > 1 && is_quiet(content) && !every_thread) continue;
      std::string labels = describe(content, style);
      if (contents.size() > 1)
        labels += (labels.empty() ? "" : " ") +
                  style.dim(fmt::format("({} only)", names(line.definitions)));
      table.row({std::to_string(tid), printable(line.comm),
                 content.error.empty() ? describe(line.evidence, style) : "-", labels});
    }
  }
  std::string out = headings(definitions, style);
  if (quiet < threads.size()) out += table.str(2);
  if (quiet > 0)
    out += style.dim(
        fmt::format("  {} thread{} with no labels in force\n", quiet, quiet == 1 ? "" : "s"));
  return out;
}

}  // namespace vitrine::cli
