#include "cli/profile/text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <string_view>

#include "base/label_keys.hpp"
#include "base/limits.hpp"
#include "base/text.hpp"
#include "cli/output/text.hpp"
#include "profile/encode.hpp"

namespace vitrine::cli {
namespace {

struct Values {
  double time = 0;
  std::size_t samples = 0;
  std::map<std::string_view, double> of;  // time by value
};

constexpr std::size_t few_samples = 20;  // of so few an id cannot be distinguished from a name
constexpr double values_of_an_id = 0.5;  // different ones a sample

/// Bits of information in the value of a sample which has it, by the part of the time that has it.
double score(const Values& values, double all) {
  if (values.samples > few_samples &&
      static_cast<double>(values.of.size()) > values_of_an_id * static_cast<double>(values.samples))
    return 0;
  double bits = 0;
  for (const auto& [value, time] : values.of)
    if (time > 0) bits -= time / values.time * std::log2(time / values.time);
  // A key with one value still distinguishes its samples from those without.
  return values.time / all * (bits + 0.1);
}

}  // namespace

std::vector<std::string> informative_keys(const profile::Profile& profile, std::size_t most) {
  std::map<std::string_view, Values> keys;
  double all = 0;
  for (const profile::Sample& sample : profile.samples) {
    const auto time = static_cast<double>(sample.value_ns);
    all += time;
    if (sample.labels == profile::none) continue;
    for (const profile::Label& label : profile.label_sets[sample.labels]) {
      Values& values = keys[label.key];
      values.time += time;
      values.samples += sample.count;
      values.of[label.value] += time;
    }
  }
  std::vector<std::pair<double, std::string_view>> ranked;
  for (const auto& [key, values] : keys)
    if (const double points = score(values, all); points > 0) ranked.emplace_back(points, key);
  std::stable_sort(ranked.begin(), ranked.end(),
                   [](const auto& a, const auto& b) { return a.first > b.first; });
  std::vector<std::string> informative;
  for (const auto& [points, key] : ranked)
    if (informative.size() < most) informative.emplace_back(key);
  return informative;
}

namespace {

using profile::none;

/// What a place is called where no function is known.
std::string_view fallback(const profile::Profile& profile, const profile::Location& location) {
  if (location.mapping == none) return "(unknown)";
  return file_name(profile.mappings[location.mapping].file);
}

/// Which of the values a sample has; past the end: none of them.
std::size_t position_of(const profile::Profile& profile, const profile::Sample& sample,
                        const LabelValues& split) {
  if (split.values.empty()) return 0;
  const auto value = profile::value_of(profile, sample, split.key);
  const auto at =
      value ? std::find(split.values.begin(), split.values.end(), *value) : split.values.end();
  return static_cast<std::size_t>(at - split.values.begin());
}

}  // namespace

std::vector<FunctionTime> top_functions(const profile::Profile& profile, profile::Measure measure,
                                        const LabelValues& split) {
  std::map<std::string_view, FunctionTime> functions;
  std::set<std::string_view> on_stack;
  for (const profile::Sample& sample : profile.samples) {
    if (sample.measure != measure) continue;
    on_stack.clear();
    bool own = false;
    const std::size_t value = position_of(profile, sample, split);
    const auto spend = [&](std::string_view name, bool may_own) {
      FunctionTime& function = functions[name];
      if (on_stack.insert(name).second) {
        function.all_ns += sample.value_ns;
        function.all_ns_of.resize(split.values.size());
        if (value < split.values.size()) function.all_ns_of[value] += sample.value_ns;
      }
      if (!own && may_own) function.own_ns += sample.value_ns, own = true;
    };
    for (const profile::Index at : profile.stacks[sample.stack].locations) {
      const profile::Location& location = profile.locations[at];
      // What waits does so in the scheduler: its caller is more informative.
      const bool may_own =
          measure == profile::Measure::on_cpu || location.kind != profile::FrameKind::kernel;
      if (location.lines.empty()) spend(fallback(profile, location), may_own);
      for (const profile::Line& line : location.lines)
        spend(profile.functions[line.function].name, may_own);
    }
  }
  std::vector<FunctionTime> sorted;
  for (auto& [name, function] : functions) {
    function.name = name;
    sorted.push_back(std::move(function));
  }
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const auto& a, const auto& b) { return a.own_ns > b.own_ns; });
  return sorted;
}

namespace {

constexpr std::size_t max_keys = 2;
constexpr std::size_t name_columns = 56, value_columns = 12;

struct Sums {
  std::uint64_t on_cpu_ns = 0, off_cpu_ns = 0;
  std::size_t on_cpu = 0, off_cpu = 0;  // samples

  void add(const profile::Sample& sample) {
    const bool on = sample.measure == profile::Measure::on_cpu;
    (on ? on_cpu_ns : off_cpu_ns) += sample.value_ns;
    (on ? on_cpu : off_cpu) += sample.count;
  }
};

Sums sums_of(const profile::Profile& profile) {
  Sums sums;
  for (const profile::Sample& sample : profile.samples) sums.add(sample);
  return sums;
}

std::string time_text(std::uint64_t ns, const ProfileTextOptions& options) {
  return duration_text(static_cast<double>(ns), options.utf8);
}

std::string share(std::uint64_t part, std::uint64_t all) {
  if (all == 0) return "";
  return fmt::format("{:5.1f}%", 100.0 * static_cast<double>(part) / static_cast<double>(all));
}

/// A name from a target, without what would end its line.
std::string short_name(std::string_view name, std::size_t columns = name_columns) {
  return cut_to(printable(name), columns, "...");
}

/// "what: count (more)"; nothing, where there were none.
std::string count_line(std::string_view what, std::uint64_t count, std::string_view more) {
  return count == 0 ? std::string() : fmt::format("{}: {} ({})\n", what, count, more);
}

/// The values of a key with the most time.
LabelValues largest_values(const profile::Profile& profile, const std::string& key,
                           profile::Measure measure) {
  constexpr std::size_t max_values = 3;
  LabelValues split{key, {}};
  std::vector<std::pair<std::uint64_t, std::string>> values;
  for (profile::TopRow& row : profile::top(profile, {key}))
    values.emplace_back(measure == profile::Measure::on_cpu ? row.on_cpu_ns : row.off_cpu_ns,
                        std::move(row.values.front()));
  std::stable_sort(values.begin(), values.end(),
                   [](const auto& a, const auto& b) { return a.first > b.first; });
  for (const auto& [time, name] : values)
    if (auto value = value_of_group(name); time != 0 && value && split.values.size() < max_values)
      split.values.push_back(std::move(*value));
  if (split.values.size() < 2) split.values.clear();  // nothing to compare
  return split;
}

/// The time of the samples of one measure, and of those with each of the values.
FunctionTime time_of_all(const profile::Profile& profile, profile::Measure measure,
                         const LabelValues& split) {
  FunctionTime all;
  all.all_ns_of.resize(split.values.size());
  for (const profile::Sample& sample : profile.samples) {
    if (sample.measure != measure) continue;
    all.all_ns += sample.value_ns;
    if (const std::size_t value = position_of(profile, sample, split); value < split.values.size())
      all.all_ns_of[value] += sample.value_ns;
  }
  return all;
}

std::string function_table(const std::vector<FunctionTime>& functions, const FunctionTime& all,
                           const LabelValues& split, const Style& style) {
  Table table;
  std::vector<std::string> head{"  self", " total"};
  for (const std::string& value : split.values)
    head.push_back(short_name(group_cell(group_name(value)), value_columns));
  head.emplace_back("function");
  for (std::string& cell : head) cell = style.dim(cell);
  table.row(head);
  for (const FunctionTime& function : functions) {
    std::vector<std::string> cells{share(function.own_ns, all.all_ns),
                                   share(function.all_ns, all.all_ns)};
    for (std::size_t i = 0; i < split.values.size(); ++i)
      cells.push_back(share(function.all_ns_of[i], all.all_ns_of[i]));
    cells.push_back(short_name(function.name));
    table.row(cells);
  }
  return table.str(2);
}

/// Those that every stack has are not informative; they are named in one line.
std::string line_of_common(const std::vector<FunctionTime>& functions) {
  constexpr std::size_t max_named = 4;
  std::string out;
  for (std::size_t i = 0; i < std::min(functions.size(), max_named); ++i)
    out += (i == 0 ? "" : ", ") + short_name(functions[i].name);
  if (functions.size() > max_named)
    out += fmt::format(" and {} more", functions.size() - max_named);
  return fmt::format("  in every stack: {}\n", out);
}

/// Two tables: the most time of its own, and the most in all.
std::string functions_text(const profile::Profile& profile, profile::Measure measure,
                           const std::string& key, const Style& style,
                           const ProfileTextOptions& options) {
  const LabelValues split = key.empty() ? LabelValues() : largest_values(profile, key, measure);
  const FunctionTime all = time_of_all(profile, measure, split);
  if (all.all_ns == 0) return {};
  const std::vector<FunctionTime> functions = top_functions(profile, measure, split);
  const char* const what =
      measure == profile::Measure::on_cpu ? "functions on CPU" : "waiting functions";
  const std::string by = split.values.empty()
                             ? std::string()
                             : fmt::format(" (total of each {})", printable(split.key));
  std::vector<FunctionTime> own, total, common;
  for (const FunctionTime& function : functions) {
    if (function.own_ns != 0 && own.size() < options.max_rows) own.push_back(function);
    if (function.own_ns < function.all_ns)
      (function.all_ns == all.all_ns ? common : total).push_back(function);
  }
  std::stable_sort(total.begin(), total.end(), [](const FunctionTime& a, const FunctionTime& b) {
    return a.all_ns > b.all_ns;
  });
  total.resize(std::min(total.size(), options.max_rows));
  std::string out = style.bold(what) + style.dim(by) + '\n';
  out += function_table(own, all, split, style);
  if (total.empty() && common.empty()) return out;
  out += '\n' + style.bold(fmt::format("{}, with what they call", what)) + style.dim(by) + '\n';
  if (!total.empty()) out += function_table(total, all, split, style);
  if (!common.empty()) out += line_of_common(common);
  return out;
}

/// Those of processes that vitrine's PID namespace does not have (PID 0) have not ended: a problem of the profile names
/// them.
std::uint64_t stacks_of_ended(const profile::Profile& profile) {
  std::uint64_t count = 0;
  for (const profile::Sample& sample : profile.samples) {
    const auto* stack = profile::entry(profile.stacks, sample.stack);
    const auto* process = profile::entry(profile.processes, sample.process);
    if (stack != nullptr && stack->end == profile::StackEnd::gone &&
        (process == nullptr || process->pid != 0))
      count += sample.count;
  }
  return count;
}

}  // namespace

std::string profile_head(const profile::Profile& profile, const ProfileTextOptions& options) {
  const Sums sums = sums_of(profile);
  std::string out;
  if (profile.frequency != 0)
    out = fmt::format("{} on CPU ({})", counted(sums.on_cpu, "sample"),
                      time_text(sums.on_cpu_ns, options));
  if (sums.off_cpu != 0 || profile.frequency == 0)
    out += fmt::format("{}{} off CPU ({})", out.empty() ? "" : ", ",
                       counted(sums.off_cpu, "sample"), time_text(sums.off_cpu_ns, options));
  return out + fmt::format(" in {}\n", time_text(profile.duration_ns, options));
}

std::string profile_losses(const profile::Profile& profile, const ProfileTextOptions& options) {
  const auto ends = profile::count_ends(profile);
  const auto count_of = [&](profile::StackEnd end) { return ends[static_cast<std::size_t>(end)]; };
  std::string out;
  out += count_line("lost samples", profile.losses.events,
                    "a buffer was full: enlarge it by --buffer");
  using profile::StackEnd;
  out += count_line("truncated stacks", count_of(StackEnd::truncated),
                    "use --stack-bytes to copy more");
  out += count_line(
      "stacks without their middle", count_of(StackEnd::depth),
      fmt::format("--stack-depth keeps 512 frames if not given, at most {}", limits::stack_depth));
  out += count_line("stacks that end in a signal handler", count_of(StackEnd::other_stack),
                    "it runs on a stack of its own: install it without SA_ONSTACK");
  out += count_line("stacks too large to copy", count_of(StackEnd::out_of_reach),
                    fmt::format("frames farther away than {} bytes: make large local variables "
                                "static or allocate them",
                                limits::stack_copy));
  out += count_line("stacks not in memory", count_of(StackEnd::unread),
                    "those pages were not resident");
  out += count_line("incomplete stacks", count_of(StackEnd::no_rule),
                    "no unwind information for their last frame: compile that code with "
                    "-fasynchronous-unwind-tables or -fno-omit-frame-pointer");
  out += count_line("invalid stacks", count_of(StackEnd::bad),
                    "their last frame returns to no code, or to a frame below it, as while an "
                    "exception is caught");
  out += count_line("stacks of ended processes", stacks_of_ended(profile),
                    std::string("they ended before their code was examined") +
                        (options.sees_starts ? ""
                                             : ": start the command with --exec, or profile its "
                                               "parent with --follow"));
  out += count_line("samples with cut labels", profile.losses.truncated_labels,
                    "they were too long, or too many");
  out += count_line("samples without labels", profile.losses.unread_labels,
                    "they could not be read at the time of the sample");
  out += count_line("unnamed locations", profile.losses.unnamed,
                    "the files were not parsed in time: --naming waits longer");
  for (const std::string& problem : profile.problems) out += printable(problem) + '\n';
  return out;
}

std::string top_text(const std::vector<std::string>& keys, const std::vector<profile::TopRow>& rows,
                     const Style& style, const ProfileTextOptions& options) {
  std::uint64_t on_cpu = 0, off_cpu = 0;
  for (const profile::TopRow& row : rows) on_cpu += row.on_cpu_ns, off_cpu += row.off_cpu_ns;
  Table table;
  std::vector<std::string> head;
  if (on_cpu != 0 || off_cpu == 0) head.insert(head.end(), {"on CPU", " share"});
  if (off_cpu != 0) head.insert(head.end(), {"off CPU", " share"});
  head.emplace_back("samples");
  for (const std::string& key : keys) head.push_back(short_name(key));
  for (std::string& cell : head) cell = style.dim(cell);
  table.row(head);
  const auto add = [&](const profile::TopRow& row) {
    std::vector<std::string> cells;
    if (on_cpu != 0 || off_cpu == 0)
      cells.insert(cells.end(), {time_text(row.on_cpu_ns, options), share(row.on_cpu_ns, on_cpu)});
    if (off_cpu != 0)
      cells.insert(cells.end(),
                   {time_text(row.off_cpu_ns, options), share(row.off_cpu_ns, off_cpu)});
    cells.push_back(std::to_string(row.samples));
    for (const std::string& value : row.values) cells.push_back(short_name(group_cell(value)));
    table.row(cells);
  };
  profile::TopRow others;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (i < options.max_rows || rows.size() == options.max_rows + 1) {
      add(rows[i]);
      continue;
    }
    others.on_cpu_ns += rows[i].on_cpu_ns;
    others.off_cpu_ns += rows[i].off_cpu_ns;
    others.samples += rows[i].samples;
    others.values = {fmt::format("({} more)", rows.size() - options.max_rows)};
  }
  if (others.samples != 0) add(others);
  return table.str(2);
}

std::string profile_summary(const profile::Profile& profile, const Style& style,
                            const ProfileTextOptions& options) {
  std::string out = profile_head(profile, options);
  std::vector<std::string> keys = informative_keys(profile, max_keys);
  if (profile.processes.size() > 1) keys.emplace_back("process");
  for (const std::string& key : keys)
    out += fmt::format("\n{}\n{}", style.bold("by " + printable(key)),
                       top_text({key}, profile::top(profile, {key}), style, options));
  const std::string key = keys.empty() ? std::string() : keys.front();
  for (const auto measure : {profile::Measure::on_cpu, profile::Measure::off_cpu})
    if (std::string text = functions_text(profile, measure, key, style, options); !text.empty())
      out += '\n' + text;
  if (const std::string losses = profile_losses(profile, options); !losses.empty())
    out += '\n' + losses;
  return out;
}

}  // namespace vitrine::cli
