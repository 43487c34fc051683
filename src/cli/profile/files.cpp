// vitrine profile merge, diff and open: profiles that are files, of vitrine and of other tools.
#include "sandbox/files.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>

#include "base/file_descriptor.hpp"
#include "base/label_keys.hpp"
#include "base/limits.hpp"
#include "base/text.hpp"
#include "cli/output/json.hpp"
#include "cli/output/live.hpp"
#include "cli/output/text.hpp"
#include "cli/profile/outputs.hpp"
#include "cli/profile/request.hpp"
#include "cli/profile/text.hpp"
#include "cli/shell/confinement.hpp"
#include "cli/shell/options.hpp"
#include "cli/shell/output_file.hpp"
#include "cli/shell/report.hpp"
#include "cli/shell/run.hpp"
#include "profile/compare.hpp"
#include "profile/decode.hpp"
#include "profile/merge.hpp"
#include "profile/select.hpp"

namespace vitrine::cli {
namespace {

constexpr std::string_view standard_input = "-";

/// A file of the user's: also a pipe, as shells make of <(COMMAND).
struct ProfileFile {
  std::string path;
  FileDescriptor file;
};

Result<ProfileFile> open_profile(const std::string& path) {
  if (path == standard_input) return ProfileFile{"standard input", FileDescriptor(::dup(0))};
  FileDescriptor file(::open(path.c_str(), O_RDONLY | O_NOCTTY | O_CLOEXEC));
  if (!file) return sandbox::file_error(path, "read", errno);
  return ProfileFile{path, std::move(file)};
}

Result<profile::Profile> read_profile(const ProfileFile& from) {
  const auto bytes = read_all(from.file.get(), limits::profile_file_bytes + 1, &interrupted());
  if (!bytes && bytes.error() == EINTR)
    return fail(ErrorCode::interrupted, fmt::format("{}: interrupted", from.path));
  if (!bytes) return sandbox::file_error(from.path, "read", bytes.error());
  if (bytes->size() > limits::profile_file_bytes)
    return fail(ErrorCode::limit, fmt::format("{} is larger than {} MiB", from.path,
                                              limits::profile_file_bytes >> 20));
  return TRY_WHILE(from.path, profile::decode(*bytes));
}

/// The files are opened, then every right that opening took is dropped, then they are read.
Result<std::vector<ProfileFile>> open_profiles(const std::vector<std::string>& paths,
                                               const Needs& needs) {
  if (std::ranges::count(paths, standard_input) > 1)
    return fail(ErrorCode::usage, "standard input can be read once", "give the other files a name");
  allow_many_files();
  std::vector<ProfileFile> files;
  for (const std::string& path : paths) files.push_back(TRY(open_profile(path)));
  TRY(go_on_confined(needs));
  return files;
}

Result<profile::Profile> merge_profiles(const std::vector<ProfileFile>& files) {
  profile::Merge merge;
  for (const ProfileFile& file : files) {
    const auto one = TRY(read_profile(file));
    TRY_WHILE(file.path, merge.add(one));
  }
  return merge.take();
}

/// Of a command that reads files, and may write some.
Needs needs_of_files(const std::vector<std::string>& written) {
  Needs needs = needs_of_building();
  const bool elsewhere =
      std::ranges::any_of(written, [](const std::string& path) { return !is_users_own(path); });
  needs.setting_up = capabilities::writing;
  needs.working = elsewhere ? capabilities::writing : sandbox::Capabilities();
  return needs;
}

void define_files(CLI::App& app, const char* name, std::vector<std::string>& files,
                  const char* text) {
  app.add_option(name, files, text)->required();
}

/// "base.pb.gz", or "profile-1.pb.gz and 59 more".
std::string title_of_files(const std::vector<std::string>& files) {
  const std::string first(file_name(files.front()));
  return files.size() == 1 ? first : fmt::format("{} and {} more", first, files.size() - 1);
}

/// Without the folders that both are in: a page has little room.
std::vector<std::string> names_of_sides(const std::string& before, const std::string& after) {
  const bool are_equal = before == after;
  const std::string_view same(before.begin(), std::ranges::mismatch(before, after).in1);
  const std::size_t common =
      (are_equal ? std::string_view(before) : same).rfind('/') + 1;  // none: 0
  return {before.substr(common), after.substr(common) + (are_equal ? " (after)" : "")};
}

// vitrine profile merge

class ProfileMergeCommand : public Command {
 public:
  Manual manual() const override {
    return {
        "profile merge",
        "add up profiles that are files",
        {"Reads pprof and OTLP files, of vitrine and of other tools, and adds them up: times, "
         "samples, losses, and lengths of time. Without -o and --top, vitrine prints the summary "
         "that vitrine profile prints. A file that was mapped at another address in another "
         "process is the same file; its functions are not doubled.",
         "Only time is read: CPU time, and waiting time (off_cpu, delay, wall). Other sample "
         "types, such as bytes, are ignored; a file without time is refused. pprof files hold "
         "sums without times, so their timeline is empty.",
         "A FILE may be compressed, a pipe, or - for standard input."},
        {{"vitrine profile merge profile-*.pb.gz -o day.pb.gz",
          "one file of what --continuous wrote"},
         {"vitrine profile merge profile-*.pb.gz --top tenant",
          "the time of each tenant in all of them"},
         {"vitrine profile merge cpu.pprof --filter tenant=acme --format folded",
          "folded stacks of one tenant, of a file of another tool"}},
        {"profile-diff", "profile-open", "profile"}};
  }

  void define(CLI::App& app) override {
    define_files(app, "FILE", files_, "Profiles: pprof or OTLP");
    output_.define(app);
  }

  Needs needs() const override { return needs_of_files(output_.paths()); }

  Result<int> run() override {
    catch_interrupts();
    TRY(output_.take());
    for (const ProfileOutput& output : output_.outputs) TRY(check_writable(output));
    const auto files = TRY(open_profiles(files_, needs()));
    auto merged = TRY(merge_profiles(files));
    const profile::Profile selected = output_.select(std::move(merged));
    output_.report_unmet();
    return show_profile(selected, output_, title_of_files(files_), nullptr);
  }

 private:
  std::vector<std::string> files_;
  ProfileView output_;
};

// vitrine profile open

class ProfileOpenCommand : public Command {
 public:
  Manual manual() const override {
    return {"profile open",
            "make a page for a browser out of profiles that are files",
            {"Reads pprof and OTLP files, of vitrine and of other tools, as vitrine profile merge "
             "does, and writes one HTML page with flame graphs, tables and filters by label. The "
             "page needs no network: open it in a browser, or send it to a colleague."},
            {{"vitrine profile open cpu.pb.gz", "writes cpu.html"},
             {"vitrine profile open profile-*.pb.gz -o day.html --group-by tenant",
              "a page of all of them, by tenant"}},
            {"profile-merge", "profile-diff", "profile"}};
  }

  void define(CLI::App& app) override {
    define_files(app, "FILE", files_, "Profiles: pprof or OTLP");
    app.add_option("-o,--output", path_,
                   "Page to write; - for standard output (name of the first FILE + .html)")
        ->option_text("FILE.html");
    define_group_by(app, encoding_.group_by);
    filter_.define(app);
  }

  Needs needs() const override { return needs_of_files({page()}); }

  Result<int> run() override {
    catch_interrupts();
    TRY(filter_.take());
    const ProfileOutput output{page(), profile::Encoding::html};
    TRY(check_writable(output));
    const auto files = TRY(open_profiles(files_, needs()));
    auto merged = TRY(merge_profiles(files));
    const profile::Profile selected = filter_.select(std::move(merged));
    filter_.report_unmet();
    encoding_.title = title_of_files(files_);
    if (auto written = write_profile(selected, output, encoding_);
        !written && written.error().code != ErrorCode::interrupted)  // no reader is no failure
      return tl::unexpected(std::move(written.error()));
    if (output.path != "-")
      print_error("vitrine: {}: open it in a browser\n", printable(output.path));
    return exit_done;
  }

 private:
  /// In the working directory, beside nothing that it could replace by accident: FILE has another
  /// ending.
  std::string page() const {
    if (!path_.empty()) return path_;
    if (files_.empty() || files_.front() == standard_input) return "profile.html";
    std::string name(file_name(files_.front()));
    for (const std::string_view ending : {".gz", ".pb", ".pprof", ".otlp", ".prof"})
      if (name.ends_with(ending) && name.size() > ending.size())
        name.resize(name.size() - ending.size());
    return name + ".html";
  }

  std::vector<std::string> files_;
  std::string path_;
  profile::EncodeOptions encoding_;
  FilterOption filter_;
};

// vitrine profile diff

constexpr std::size_t max_diff_keys = 2;

struct DiffOptions {
  std::vector<std::string> keys;  ///< empty: the most informative
  bool rate = false;
  std::size_t rows = 10;
};

std::string amount_text(double value, bool rate) {
  return rate ? fmt::format("{:.3f}", value) : fmt::format("{:.1f}%", 100 * value);
}

std::string change_text(const profile::Difference& difference, bool rate, bool utf8) {
  return fmt::format("{}{} {}{}", difference.change() < 0 ? '-' : '+',
                     amount_text(std::abs(difference.change()), rate), utf8 ? "±" : "+-",
                     amount_text(difference.noise(), rate));
}

bool is_significant(const profile::ComparedRow& row) {
  return row.own.is_significant() || row.total.is_significant();
}

std::vector<std::string> cells_of(const profile::Difference& difference, bool rate,
                                  const Style& style, bool utf8) {
  const std::string change = change_text(difference, rate, utf8);
  return {amount_text(difference.before.value, rate), amount_text(difference.after.value, rate),
          !difference.is_significant() ? style.dim(change)
          : difference.change() > 0    ? style.red(change)
                                       : style.green(change)};
}

/// The rows that differ by more than noise; and how many do not.
std::string diff_table(const std::vector<profile::ComparedRow>& rows, const std::string& what,
                       bool with_own, const DiffOptions& options, const Style& style) {
  const bool utf8 = shows_utf8();
  Table table;
  std::vector<std::string> head;
  if (with_own) head = {"self: before", "after", "change"};
  head.insert(head.end(), {with_own ? "total: before" : "before", "after", "change", what});
  for (std::string& cell : head) cell = style.dim(cell);
  table.row(head);
  std::size_t shown = 0, more = 0, noise = 0;
  for (const profile::ComparedRow& row : rows) {
    if (!is_significant(row)) {
      ++noise;
      continue;
    }
    if (shown == options.rows) {
      ++more;
      continue;
    }
    ++shown;
    std::vector<std::string> cells;
    if (with_own) cells = cells_of(row.own, options.rate, style, utf8);
    for (std::string& cell : cells_of(row.total, options.rate, style, utf8))
      cells.push_back(std::move(cell));
    cells.push_back(printable(with_own ? row.name : group_cell(row.name)));
    table.row(cells);
  }
  std::string out = shown == 0 ? std::string() : table.str(2);
  if (more != 0) out += fmt::format("  {} more (--rows)\n", more);
  if (noise != 0 || shown == 0)
    out += fmt::format("  {} changed by less than the noise of sampling\n",
                       shown == 0 ? "none, or" : counted(noise, what));
  return out;
}

Json diff_json(const profile::Difference& difference) {
  return {{"before", difference.before.value},
          {"after", difference.after.value},
          {"change", difference.change()},
          {"noise", difference.noise()},
          {"significant", difference.is_significant()}};
}

class ProfileDiffCommand : public Command {
 public:
  Manual manual() const override {
    return {
        "profile diff",
        "show what changed between two profiles",
        {"Reads two pprof or OTLP files, of vitrine and of other tools, and prints the functions "
         "and the values of labels whose part of the time changed most: before, after, and the "
         "change with its noise. self is the time of a function without what it calls, total with "
         "it.",
         "The noise is the change that sampling alone causes between two equal programs, in 19 of "
         "20 cases: "
         "smaller changes are not shown, but counted. Longer profiles have less noise.",
         "If a program does twice the work, the parts of its time stay the same: --rate compares "
         "CPUs, the time for each second of the profile.",
         "Functions are the same by their names. Use vitrine profile merge first to compare "
         "one set of files with another."},
        {{"vitrine profile diff monday.pb.gz tuesday.pb.gz", "what changed, by function and label"},
         {"vitrine profile diff monday.pb.gz tuesday.pb.gz --by tenant --rate",
          "the CPUs of each tenant, before and after"},
         {"vitrine profile diff monday.pb.gz tuesday.pb.gz -o diff.html",
          "both flame graphs on one page, coloured by the difference"},
         {"vitrine profile diff old.otlp new.otlp --json", "every row, for scripts"}},
        {"profile-merge", "profile-open", "profile"}};
  }

  void define(CLI::App& app) override {
    app.add_option("BEFORE", before_, "Profile to compare with")->required();
    app.add_option("AFTER", after_, "Profile to compare")->required();
    app.add_option("--by", options_.keys, "Compare the values of these keys (the most informative)")
        ->delimiter(',')
        ->allow_extra_args(false)
        ->option_text("KEY,...");
    app.add_flag("--rate", options_.rate, "Compare CPUs, not parts of the time");
    app.add_option("--rows", options_.rows, "Rows of each table (10)")
        ->check(at_least_one)
        ->option_text("N");
    app.add_option("-o,--output", page_,
                   "Write a page with both flame graphs, coloured by the difference")
        ->option_text("FILE.html");
    filter_.define(app);
    add_json(app, json_, "row, and a summary");
  }

  Needs needs() const override {
    return needs_of_files(page_.empty() ? std::vector<std::string>() : std::vector{page_});
  }

  Result<int> run() override {
    catch_interrupts();
    TRY(filter_.take());
    const ProfileOutput page{page_, profile::Encoding::html};
    if (!page_.empty()) TRY(check_writable(page));
    const auto files = TRY(open_profiles({before_, after_}, needs()));
    std::vector<profile::Profile> sides;
    for (const ProfileFile& file : files) {
      auto side = TRY(read_profile(file));
      sides.push_back(filter_.select(std::move(side)));
    }
    if (options_.rate)
      for (std::size_t i = 0; i < sides.size(); ++i)
        if (sides[i].duration_ns == 0)
          return fail(ErrorCode::unsupported, fmt::format("{} has no duration", files[i].path),
                      "omit --rate to compare parts of the time");
    if (!page_.empty()) {
      TRY(write_page(page, sides));
      if (page_ != "-") print_error("vitrine: {}: open it in a browser\n", printable(page_));
      return exit_done;
    }
    const std::vector<std::string> keys =
        options_.keys.empty() ? informative_keys(sides[1], max_diff_keys) : options_.keys;
    return json_ ? print_all(sides, keys) : print_text(files, sides, keys);
  }

 private:
  [[nodiscard]] profile::CompareBy by() const {
    return options_.rate ? profile::CompareBy::rate : profile::CompareBy::part;
  }

  /// One profile of both, whose samples have the side as a label.
  Result<void> write_page(const ProfileOutput& page, std::vector<profile::Profile>& sides) const {
    const std::string key = "profile";
    const std::vector<std::string> names = names_of_sides(before_, after_);
    profile::Merge merge;
    for (std::size_t i = 0; i < sides.size(); ++i)
      TRY(merge.add(profile::labelled(std::move(sides[i]), key, names[i])));
    profile::EncodeOptions options;
    options.title = fmt::format("{} and {}", names[0], names[1]);
    options.compare = {key, names[1], names[0]};
    return write_profile(merge.take(), page, options);
  }

  static bool has(const std::vector<profile::Profile>& sides, profile::Measure measure) {
    return std::ranges::any_of(sides, [&](const profile::Profile& side) {
      return std::ranges::any_of(
          side.samples, [&](const profile::Sample& sample) { return sample.measure == measure; });
    });
  }

  int print_text(const std::vector<ProfileFile>& files, const std::vector<profile::Profile>& sides,
                 const std::vector<std::string>& keys) const {
    const Style style = Style::of_stdout();
    const ProfileTextOptions text{.utf8 = shows_utf8()};
    std::string out;
    for (std::size_t i = 0; i < sides.size(); ++i)
      out += fmt::format("{} {}: {}", i == 0 ? "before" : "after ", printable(files[i].path),
                         profile_head(sides[i], text));
    for (const auto measure : {profile::Measure::on_cpu, profile::Measure::off_cpu}) {
      if (!has(sides, measure)) continue;
      const bool on_cpu = measure == profile::Measure::on_cpu;
      const char* const unit = options_.rate ? "CPUs"
                               : on_cpu      ? "part of the CPU time"
                                             : "part of the waiting time";
      out += '\n' + style.bold(on_cpu ? "functions on CPU" : "waiting functions") +
             style.dim(fmt::format(" ({})", unit)) + '\n' +
             diff_table(profile::compare_functions(sides[0], sides[1], measure, by()), "function",
                        true, options_, style);
      for (const std::string& key : keys)
        out += '\n' +
               style.bold(fmt::format("by {}, {}", printable(key), on_cpu ? "on CPU" : "waiting")) +
               style.dim(fmt::format(" ({})", unit)) + '\n' +
               diff_table(profile::compare_values(sides[0], sides[1], measure, key, by()), "value",
                          false, options_, style);
    }
    write_output(out);
    (void)flush_output();
    for (std::size_t i = 0; i < sides.size(); ++i)
      for (const std::string& remark : profile::remarks(sides[i]))
        note(fmt::format("{}: {}", files[i].path, remark));
    return exit_done;
  }

  int print_all(const std::vector<profile::Profile>& sides,
                const std::vector<std::string>& keys) const {
    const auto rows = [](const std::vector<profile::ComparedRow>& compared, const Json& head) {
      for (const profile::ComparedRow& row : compared) {
        Json object = head;
        object["name"] = json_bytes(row.name);
        if (!head.contains("key")) object["self"] = diff_json(row.own);
        object["total"] = diff_json(row.total);
        if (!print_json(object)) return false;
      }
      return true;
    };
    for (const auto measure : {profile::Measure::on_cpu, profile::Measure::off_cpu}) {
      if (!has(sides, measure)) continue;
      const char* const name = measure == profile::Measure::on_cpu ? "on_cpu" : "off_cpu";
      const auto functions = profile::compare_functions(sides[0], sides[1], measure, by());
      if (!rows(functions, {{"type", "function"}, {"measure", name}})) return exit_done;
      for (const std::string& key : keys) {
        const auto values = profile::compare_values(sides[0], sides[1], measure, key, by());
        if (!rows(values, {{"type", "label"}, {"measure", name}, {"key", json_bytes(key)}}))
          return exit_done;
      }
    }
    Json both = Json::array();
    for (const profile::Profile& side : sides) both.push_back(summary_of(side));
    (void)print_json(
        {{"summary",
          {{"before", both[0]}, {"after", both[1]}, {"unit", options_.rate ? "cpus" : "part"}}}});
    return exit_done;
  }

  static Json summary_of(const profile::Profile& side) {
    std::uint64_t on_cpu = 0, off_cpu = 0;
    for (const profile::Sample& sample : side.samples)
      (sample.measure == profile::Measure::on_cpu ? on_cpu : off_cpu) += sample.value_ns;
    Json remarks = Json::array();
    for (const std::string& remark : profile::remarks(side)) remarks.push_back(json_bytes(remark));
    return {{"samples", profile::number_of_samples(side)},
            {"on_cpu_ns", std::to_string(on_cpu)},
            {"off_cpu_ns", std::to_string(off_cpu)},
            {"start_ns", std::to_string(side.start_ns)},
            {"duration_ns", std::to_string(side.duration_ns)},
            {"remarks", std::move(remarks)}};
  }

  std::string before_, after_, page_;
  DiffOptions options_;
  FilterOption filter_;
  bool json_ = false;
};

}  // namespace

std::unique_ptr<Command> make_profile_merge_command() {
  return std::make_unique<ProfileMergeCommand>();
}

std::unique_ptr<Command> make_profile_diff_command() {
  return std::make_unique<ProfileDiffCommand>();
}

std::unique_ptr<Command> make_profile_open_command() {
  return std::make_unique<ProfileOpenCommand>();
}

}  // namespace vitrine::cli
