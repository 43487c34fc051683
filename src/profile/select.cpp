#include "profile/select.hpp"

#include <fmt/format.h>
#include <re2/re2.h>

#include <algorithm>
#include <map>
#include <memory>
#include <utility>

#include "base/label_keys.hpp"
#include "base/limits.hpp"
#include "base/text.hpp"
#include "profile/encode.hpp"

namespace vitrine::profile {
namespace {

class LinksAsLabels {
 public:
  LinksAsLabels(Profile& profile, const Redaction& redaction)
      : profile_(profile),
        redaction_(redaction),
        traces_(redaction.covers_label("trace_id")),
        spans_(redaction.covers_label("span_id")) {}

  void run() {
    if (!traces_ && !spans_) return;
    for (Sample& sample : profile_.samples) {
      const Link* link = entry(profile_.links, sample.link);
      if (link == nullptr) continue;
      const auto [known, fresh] = sets_.try_emplace({sample.labels, sample.link}, none);
      if (fresh) known->second = add(sample.labels, *link);
      sample.labels = known->second;
      sample.link = none;
      profile_.losses.truncated_labels += sample.labels == none;
    }
    profile_.links.clear();
  }

 private:
  /// The set of that number with the ids, if there is room.
  Index add(Index labels, const Link& link) {
    const LabelSet* before = entry(profile_.label_sets, labels);
    LabelSet set = before == nullptr ? LabelSet{} : *before;
    put(set, "trace_id", hex_text(link.trace_id), traces_);
    put(set, "span_id", hex_text(link.span_id), spans_);
    for (const Label& label : set) bytes_ += label.key.size() + label.value.size();
    if (bytes_ > limits::profile_label_bytes || sets_.size() > limits::profile_label_sets)
      return none;
    profile_.label_sets.push_back(std::move(set));
    return static_cast<Index>(profile_.label_sets.size() - 1);
  }

  void put(LabelSet& set, const char* key, const std::string& id, bool covered) const {
    const auto at = std::ranges::lower_bound(set, key, {}, &Label::key);
    if (at != set.end() && at->key == key) return;
    set.insert(at, {key, covered ? redaction_.replacement(id) : id});
  }

  Profile& profile_;
  const Redaction& redaction_;
  bool traces_, spans_;
  std::map<std::pair<Index, Index>, Index> sets_;  ///< by labels and link
  std::size_t bytes_ = 0;
};

/// A waker's label is called "waker.KEY", and keys that are taken become "label.KEY".
bool covers_label(const Redaction& redaction, std::string_view key) {
  while (!redaction.covers_label(key)) {
    if (key.starts_with(waker_key_prefix))
      key.remove_prefix(waker_key_prefix.size());
    else if (key.starts_with(renamed_key_prefix))
      key.remove_prefix(renamed_key_prefix.size());
    else
      return false;
  }
  return true;
}

}  // namespace

Profile redacted(Profile profile, const Redaction& redaction) {
  if (!redaction.any()) return profile;
  for (LabelSet& set : profile.label_sets)
    for (Label& label : set)
      if (covers_label(redaction, label.key)) label.value = redaction.replacement(label.value);
  LinksAsLabels(profile, redaction).run();
  for (Process& process : profile.processes)
    for (Attribute& attribute : process.resource)
      if (redaction.covers_attribute(attribute.key))
        attribute.value = redaction.replacement(attribute.value);
  return profile;
}

namespace {

/// One term of a filter as it was written.
struct Written {
  std::string key;
  bool negated = false;
  bool regex = false;
  std::string value;
};

std::string where(std::size_t position) {
  return fmt::format("at character {}", position + 1);
}

/// Reads `KEY=VALUE`, `KEY!=VALUE`, `KEY~REGEX` or `KEY!~REGEX` and moves behind it.
Result<Written> parse_term(std::string_view text, std::size_t& at) {
  const std::size_t start = at;
  Written term;
  const auto is_one_of = [&](std::size_t i, std::string_view characters) {
    return i < text.size() && characters.find(text[i]) != std::string_view::npos;
  };
  while (at < text.size() && !is_one_of(at, "=!~,")) {
    if (text[at] == '\\' && is_one_of(at + 1, "=!~,\\")) ++at;
    term.key += text[at++];
  }
  if (at < text.size() && text[at] == '!') term.negated = true, ++at;
  if (at == text.size() || (text[at] != '=' && text[at] != '~'))
    return fail(
        ErrorCode::usage,
        fmt::format("the filter '{}' has no comparison for '{}' {}", text, term.key, where(start)),
        "write KEY=VALUE, KEY!=VALUE, KEY~REGEX or KEY!~REGEX, with commas between them");
  if (term.key.empty())
    return fail(ErrorCode::usage, fmt::format("the filter '{}' has no key {}", text, where(start)));
  term.regex = text[at++] == '~';
  while (at < text.size() && text[at] != ',') {
    // Other backslashes are the value's own: they are frequent in regular expressions.
    const bool escapes =
        text[at] == '\\' && at + 1 < text.size() && (text[at + 1] == ',' || text[at + 1] == '\\');
    if (escapes) ++at;
    term.value += text[at++];
  }
  return term;
}

}  // namespace

std::optional<std::string> value_of(const Profile& profile, const Sample& sample,
                                    std::string_view key) {
  if (const LabelSet* set = entry(profile.label_sets, sample.labels)) {
    const auto found = std::lower_bound(
        set->begin(), set->end(), key,
        [](const Label& label, std::string_view wanted) { return label.key < wanted; });
    if (found != set->end() && found->key == key) return found->value;
  }
  if (key == "trace_id" || key == "span_id") {
    const Link* link = entry(profile.links, sample.link);
    if (link == nullptr) return std::nullopt;
    return key == "trace_id" ? hex_text(link->trace_id) : hex_text(link->span_id);
  }
  if (key == "tid") return std::to_string(sample.tid);
  if (key == "cpu") return std::to_string(sample.cpu);
  if (key == "thread") return sample.thread_name;
  const Process* process = entry(profile.processes, sample.process);
  if (process == nullptr) return std::nullopt;
  if (key == "pid") return std::to_string(process->pid);
  if (key == "process") return process->command;
  return std::nullopt;
}

struct Filter::Term {
  std::string key;
  bool negated = false;
  std::string value;  ///< empty, and no `regex`: the key is absent
  std::unique_ptr<const RE2> regex;

  bool holds(const std::optional<std::string>& found) const {
    if (regex) return found && RE2::PartialMatch(*found, *regex);
    return value.empty() ? !found : found == value;
  }
};

Filter::Filter() = default;
Filter::Filter(Filter&&) noexcept = default;
Filter& Filter::operator=(Filter&&) noexcept = default;
Filter::~Filter() = default;

Result<Filter> Filter::parse(std::string_view text) {
  if (text.size() > limits::query_bytes)
    return fail(ErrorCode::usage, fmt::format("a filter of {} bytes exceeds the limit of {}",
                                              text.size(), limits::query_bytes));
  Filter filter;
  for (std::size_t at = 0;; ++at) {
    const std::size_t start = at;
    auto written = TRY(parse_term(text, at));
    Term term{.key = std::move(written.key), .negated = written.negated};
    if (written.regex) {
      RE2::Options options(RE2::Quiet);
      term.regex = std::make_unique<const RE2>(written.value, options);
      if (!term.regex->ok())
        return fail(ErrorCode::usage,
                    fmt::format("'{}' is not a regular expression ({}), in the filter '{}' {}",
                                written.value, term.regex->error(), text, where(start)));
    } else {
      term.value = std::move(written.value);
    }
    filter.terms_.push_back(std::move(term));
    if (at == text.size()) return filter;
  }
}

bool Filter::holds(const Profile& profile, const Sample& sample) const {
  return std::all_of(terms_.begin(), terms_.end(), [&](const Term& term) {
    return term.holds(value_of(profile, sample, term.key)) != term.negated;
  });
}

bool Filter::has_key(std::string_view key) const {
  return std::ranges::find(terms_, key, &Term::key) != terms_.end();
}

Profile filtered(Profile profile, const Filter& filter) {
  std::vector<Sample> samples = std::move(profile.samples);
  std::erase_if(samples, [&](const Sample& sample) { return !filter.holds(profile, sample); });
  profile.samples = std::move(samples);
  return profile;
}

std::vector<TopRow> top(const Profile& profile, const std::vector<std::string>& keys) {
  std::map<std::vector<std::string>, TopRow> rows;
  for (const Sample& sample : profile.samples) {
    std::vector<std::string> values;
    for (const std::string& key : keys)
      values.push_back(group_name(value_of(profile, sample, key)));
    TopRow& row = rows[std::move(values)];
    row.samples += sample.count;
    (sample.measure == Measure::on_cpu ? row.on_cpu_ns : row.off_cpu_ns) += sample.value_ns;
  }
  std::vector<TopRow> out;
  for (auto& [values, row] : rows) {
    row.values = values;
    out.push_back(std::move(row));
  }
  std::stable_sort(out.begin(), out.end(), [](const TopRow& a, const TopRow& b) {
    const auto time = [](const TopRow& row) { return row.on_cpu_ns + row.off_cpu_ns; };
    return time(a) != time(b) ? time(a) > time(b) : a.samples > b.samples;
  });
  return out;
}

}  // namespace vitrine::profile
