#include "cli/profile/view.hpp"

#include <algorithm>
#include <array>
#include <string_view>

#include "cli/output/live.hpp"
#include "cli/output/text.hpp"
#include "cli/shell/report.hpp"

namespace vitrine::cli {

void FilterOption::define(CLI::App& app) {
  app.add_option("--filter", filter_, "Keep only samples that match")->option_text("FILTER");
  redact_.define(app, "labels and attributes");
}

Result<void> FilterOption::take() {
  if (!filter_.empty())
    only_ = std::make_shared<const profile::Filter>(TRY(profile::Filter::parse(filter_)));
  redaction_ = TRY(redact_.take());
  return {};
}

void FilterOption::look_at_keys(const profile::Profile& taken) const {
  if (!redaction_.any() || taken.samples.empty()) return;
  has_looked_ = true;
  for (const profile::LabelSet& set : taken.label_sets)
    for (const profile::Label& label : set) redact_.look_at_label(label.key);
  for (const profile::Process& process : taken.processes)
    for (const auto& attribute : process.resource) redact_.look_at_attribute(attribute.key);
  if (taken.links.empty()) return;
  redact_.look_at_label("trace_id");
  redact_.look_at_label("span_id");
}

profile::Profile FilterOption::select(profile::Profile taken) const {
  look_at_keys(taken);
  if (only_ != nullptr) taken = profile::filtered(std::move(taken), *only_);
  return profile::redacted(std::move(taken), redaction_);
}

void define_group_by(CLI::App& app, std::vector<std::string>& keys) {
  app.add_option("--group-by", keys,
                 "Outermost frames: the values of these keys (folded, speedscope, html)")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->option_text("KEY,...");
}

void ProfileView::define(CLI::App& app) {
  define_output(app);
  add_choice(app, "--format", formats_, profile::encoding_names,
             "Format of the first -o, then of the second, and so on")
      ->allow_extra_args(false);
  define_group_by(app, encoding.group_by);
  filter_.define(app);
  app.add_option("--top", top,
                 "Show a table of time, share and samples by the values of these keys")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->option_text("KEY,...");
  define_encoding(app);
}

void ProfileView::define_continuous(CLI::App& app) {
  filter_.define(app);
  define_output(app);
  define_group_by(app, encoding.group_by);
  define_encoding(app);
}

void ProfileView::define_output(CLI::App& app) {
  app.add_option("-o,--output", paths_, "Output file, - for standard output; may be repeated")
      ->allow_extra_args(false)
      ->option_text("FILE");
}

void ProfileView::define_encoding(CLI::App& app) {
  app.add_option("--label-prefix", encoding.label_prefix, "Prefix of label keys (otlp, pprof)")
      ->option_text("TEXT");
  app.add_flag("--otlp-compact", encoding.otlp_compact,
               "Refer to otlp attributes by index: smaller, supported by fewer receivers");
}

Result<void> ProfileView::take() {
  outputs = TRY(profile_outputs(paths_, formats_));
  for (const ProfileOutput& output : outputs)
    if (output.path == "-" && !top.empty())
      return fail(ErrorCode::usage, "--top's table and a profile cannot both go to standard output",
                  "give the profile a file: -o profile.pb.gz");
  return filter_.take();
}

profile::Profile ProfileView::select(profile::Profile taken) const {
  return filter_.select(std::move(taken));
}

void ProfileView::spare(observe::ProfilingOptions& options,
                        std::optional<std::chrono::milliseconds> every) const {
  const auto& only = filter_.only();
  if (only != nullptr && !only->has_key("process")) options.only = only;
  // A page has a timeline, and so have tables.
  constexpr std::array with_times{profile::Encoding::html, profile::Encoding::json,
                                  profile::Encoding::json_flat};
  const bool has_times = std::ranges::any_of(outputs, [&](const ProfileOutput& output) {
    return std::ranges::find(with_times, output.encoding) != with_times.end();
  });
  if (has_times) return;
  constexpr std::chrono::nanoseconds longest =
      std::chrono::seconds(10);  // of a profile that is taken once
  const std::chrono::nanoseconds interval =
      every ? *every : std::min(options.duration.value_or(longest), longest);
  options.time_resolution =
      std::max(options.time_resolution, interval / observe::times_of_interval);
}

namespace {

std::vector<std::string> lines_of(std::string_view text) {
  std::vector<std::string> lines;
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    lines.emplace_back(text.substr(0, end));
    text.remove_prefix(std::min(end, text.size() - 1) + 1);
  }
  return lines;
}

int write_outputs(const profile::Profile& selected, const ProfileView& view,
                  const profile::EncodeOptions& encoding, const ProfileTextOptions& text) {
  int status = exit_done;
  for (const ProfileOutput& output : view.outputs) {
    const auto written = write_profile(selected, output, encoding);
    if (!written && written.error().code == ErrorCode::interrupted) continue;  // | head
    if (!written)
      status = report(written.error());
    else if (output.path != "-")
      print_error("vitrine: {}: {}", printable(output.path), profile_head(selected, text));
  }
  return status;
}

}  // namespace

int show_profile(const profile::Profile& selected, const ProfileView& view,
                 const std::string& title, ProfileSender* sender) {
  const ProfileTextOptions text{.utf8 = shows_utf8(), .sees_starts = view.sees_starts};
  profile::EncodeOptions encoding = view.encoding;
  encoding.title = title;
  if (sender != nullptr) sender->send(selected);
  const int status = write_outputs(selected, view, encoding, text);
  const bool summary = view.top.empty() && view.outputs.empty() && sender == nullptr;
  if (!summary)  // which has them, too
    for (const std::string& line : lines_of(profile_losses(selected, text))) note(line);
  if (selected.samples.empty() && view.has_filter())
    note("no sample matches --filter: a condition is KEY=VALUE, and blanks are a part of both");
  const Style style = Style::of_stdout();
  if (!view.top.empty())
    write_output(top_text(view.top, profile::top(selected, view.top), style, text));
  else if (summary)
    write_output(profile_summary(selected, style, text));
  (void)flush_output();
  return status;
}

}  // namespace vitrine::cli
