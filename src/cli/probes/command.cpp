// vitrine probes: the static probes of files and processes.

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>

#include "cli/output/json.hpp"
#include "cli/output/live.hpp"
#include "cli/output/text.hpp"
#include "cli/shell/libraries.hpp"
#include "cli/shell/options.hpp"
#include "cli/shell/report.hpp"
#include "cli/shell/run.hpp"
#include "observe/probes/functions.hpp"
#include "observe/probes/probe_symbols.hpp"
#include "observe/probes/probes.hpp"
#include "probe/probe.hpp"
#include "probe/types.hpp"

namespace vitrine::cli {
namespace {

/// Probes of one file, in one place of a process or in none.
struct ShownProbes {
  const observe::ProbeFile* file = nullptr;
  std::optional<Address> bias;  ///< in a process
  std::vector<const probe::Probe*> probes;
};

std::string title(const probe::Probe& probe) {
  std::string title;
  title.reserve(probe.provider.size() + 1 + probe.name.size());
  append_printable(title, probe.provider);
  title += ':';
  append_printable(title, probe.name);
  return title;
}

/// "id: int, item: const char *" where a probe describes itself, else as the note has them.
std::string arguments(const probe::Site& site) {
  std::vector<std::string> texts;
  for (const probe::ArgumentType& type : site.types) {
    const std::string name = type.argument < site.arguments.size()
                                 ? printable(probe::type_name(type, site.arguments[type.argument]))
                                 : printable(type.type);
    texts.push_back(type.name.empty() ? name : printable(type.name) + ": " + name);
  }
  if (!texts.empty()) return fmt::format("{}", fmt::join(texts, ", "));
  std::string out;
  for (const std::string& argument : site.arguments) {
    if (!out.empty()) out += ' ';
    append_printable(out, argument);
  }
  return out;
}

/// Of all sites: an optimiser has each site's arguments elsewhere, so one is shown for all.
std::string arguments(const probe::Probe& probe) {
  if (probe.sites.empty()) return {};
  std::string first = arguments(probe.sites.front());
  if (probe.sites.size() == 1) return first;
  const bool alike = std::all_of(probe.sites.begin(), probe.sites.end(), [&](const auto& site) {
    return site.arguments == probe.sites.front().arguments;
  });
  return alike || !probe.sites.front().types.empty() ? first : first + " …";
}

std::string semaphore(const probe::Probe& probe) {
  const auto guarded = std::count_if(probe.sites.begin(), probe.sites.end(),
                                     [](const probe::Site& site) { return site.semaphore != 0; });
  if (guarded == 0) return "-";
  return static_cast<std::size_t>(guarded) == probe.sites.size() ? "yes" : "some";
}

/// How many calls a probe has. In its stub it fires for calls that the object step did not see.
std::string sites_of(const probe::Probe& probe) {
  const auto calls = std::count_if(probe.sites.begin(), probe.sites.end(),
                                   [](const probe::Site& site) { return !site.is_stub; });
  return calls == 0 && !probe.sites.empty() ? "stub" : std::to_string(calls);
}

/// What is wrong with a site, and the function it is in.
std::string remarks(const probe::Site& site, const Style& style) {
  std::string out;
  for (const std::string& problem : site.problems)
    out += style.yellow(" (" + printable(problem) + ")");
  if (!site.function.empty()) out += style.dim("  in " + printable(site.function_name()));
  if (site.is_stub) out += style.dim("  (stub)");
  return out;
}

std::string site_text(const probe::Site& site, observe::ArgumentErrors& errors,
                      const Style& style) {
  std::string out = arguments(site);
  if (!site.types.empty() && !site.arguments.empty())
    out += style.dim(
        fmt::format("  {}", printable(fmt::format("{}", fmt::join(site.arguments, " ")))));
  for (const auto& error : errors.of(site))
    if (error) out += style.yellow(" (" + printable(error->message) + ")");
  return out + remarks(site, style);
}

std::string where(const probe::Site& site, const ShownProbes& shown) {
  return hex(site.address + shown.bias.value_or(0));
}

/// The file's name, then a line a probe: how many sites it has, whether a semaphore guards them, and
/// its arguments. False: the output has no reader.
bool print_probes(const ShownProbes& shown, const Style& style) {
  Table table;
  table.row(
      {style.dim("PROBE"), style.dim("SITES"), style.dim("SEMAPHORE"), style.dim("ARGUMENTS")});
  for (const probe::Probe* probe : shown.probes)
    table.row(style.cyan(title(*probe)), sites_of(*probe), semaphore(*probe), arguments(*probe));
  const std::string title = style.bold(printable(shown.file->path)) + '\n';
  return write_output(title) && table.print(2);
}

/// The file's name and build id, then each probe with a line for each of its sites: where it is, in
/// which function, the semaphore, the arguments; and below it what is wrong with it.
std::string sites_text(const ShownProbes& shown, const Style& style) {
  std::string out = style.bold(printable(shown.file->path));
  if (!shown.file->build_id.empty())
    out += style.dim(fmt::format("  build id {}", shown.file->build_id));
  observe::ArgumentErrors errors(*shown.file);
  if (shown.bias) out += style.dim(fmt::format("  loaded at {}", hex(*shown.bias)));
  out += '\n';
  for (const probe::Probe* probe : shown.probes) {
    out += "  " + style.cyan(title(*probe)) + '\n';
    Table table;
    for (const probe::Site& site : probe->sites)
      table.row({where(site, shown), site.semaphore == 0 ? "-" : "semaphore " + hex(site.semaphore),
                 site_text(site, errors, style)});
    for (const probe::Site& site : probe->enabled_sites)
      table.row({where(site, shown), "is-enabled",
                 fmt::format("by {}", probe::protocol_name(site.use)) + remarks(site, style)});
    out += table.str(4);
  }
  return out;
}

class ProbesCommand : public Command {
 public:
  Manual manual() const override {
    return {
        "probes",
        "list the static probes of files and processes",
        {"Lists the probes (USDT: SystemTap notes and DTrace DOF) of files for any machine and "
         "byte order, or of all files that a process has loaded: its program, libraries and "
         "plug-ins, including deleted files and files in containers. Notes in a separate debug "
         "file are found by build ID and .gnu_debuglink.",
         "A target is a process ID or a path; a name without a slash is searched in the "
         "current directory, then in PATH. PATTERNS select probes: PROVIDER:NAME, each with "
         "shell wildcards (quote them), or a pattern without a colon for the name only. With "
         "patterns, finding nothing is a failure. A DOF provider also has the name of its "
         "instance in a process: shop4242.",
         "func:MODULE:FUNCTION lists functions as probes, with their parameters where there is "
         "debug "
         "information: see `vitrine trace --help`. MODULE is a path, or the name of a program or "
         "library; it needs no other target.",
         "Each line shows how many sites a probe has (an inlined function has several), "
         "whether semaphores guard it, and its arguments: names and types if the probe records "
         "them, otherwise the locations that the compiler chose. --sites shows every site. A probe "
         "of a provider also fires in its stub, for calls that the object step has not replaced; "
         "the stub is not counted, unless it is all there is (then SITES is `stub`)."},
        {{"vitrine probes /usr/bin/stap", "the probes of a program"},
         {"vitrine probes 4242 'libstdcxx:*'", "the probes of one provider in process 4242"},
         {"vitrine probes 'func:libc:mall*'", "functions of a library, as probes"},
         {"vitrine probes --sites 4242", "addresses, functions, semaphores and arguments"},
         {"vitrine probes --json 4242 | jq -r .name", "one JSON object for each probe"}},
        {"ps", "readelf(1)"}};
  }

  void define(CLI::App& app) override {
    app.add_option("TARGET", words_, "Process IDs and files, and patterns of probes")
        ->required()
        ->option_text("... [PATTERN...]");
    app.add_flag("--sites", sites_, "Show every site of every probe");
    add_json(app, json_, "probe");
  }

  Needs needs() const override {
    Needs needs = needs_of_reading();
    // run() does both: most files need none of the libraries, and leave more to be dropped.
    needs.launches = true;
    needs.libraries = false;
    return needs;
  }

  std::vector<Use> uses() const override {
    return {{"probes FILE", {}, {}, ""},
            {"probes PID", {}, capabilities::ptrace, "your own processes can be listed"}};
  }

  Result<int> run() override {
    auto targets = TRY(parse_targets(words_));
    patterns_ = std::move(targets.patterns);
    auto wanted = TRY(observe::function_patterns(targets.functions));
    functions_ = targets.functions;
    if (targets.targets.size() == 1 && functions_.empty() && !sites_ && !json_)
      if (TRY(show_plain(targets.targets.front().path))) return result();
    TRY(load_libraries());
    TRY(go_on_confined(needs()));
    observe::ProbeFiles files({.functions = sites_ || json_,
                               .wanted = std::move(wanted),
                               .most = limits::listed_functions});
    for (const ProbeTarget& target : targets.targets)
      if (!show(files, target)) return exit_done;  // the output has no reader
    return result();
  }

 private:
  Result<int> result() {
    flush_output();
    if (status_ == exit_done && shown_ == 0 && !functions_.empty())
      return tl::unexpected(missing_.explain(functions_.front(), words_.front()));
    if (status_ == exit_done && shown_ == 0 && !patterns_.empty())
      return fail(ErrorCode::failed, "no probe matches", "omit the pattern to list all");
    return status_;
  }

  /// Most files have all of their probes in plain notes. To start a worker for them takes longer than to
  /// read and print them, so this process becomes as confined as a worker, and prints. False: the
  /// file is another one.
  Result<bool> show_plain(const std::string& path) {
    if (path.empty()) return false;  // a process
    auto opened = sandbox::open_regular_at(AT_FDCWD, path);
    if (!opened) return false;  // which is reported in the usual way
    auto file = sandbox::FileMemory::from(std::move(*opened));
    if (!file) return false;
    TRY(keep_opening_only());
    const auto plain = observe::PlainNotes::of(std::move(*file));
    if (!plain) return false;
    TRY(keep_open_files_only());
    // Like all of this process at its end, it is not taken down.
    static observe::ProbeFile found;
    found = plain->read(path);
    print_notes(found);
    show(found, std::nullopt, 0);
    return true;
  }

  bool show(observe::ProbeFiles& files, const ProbeTarget& target) {
    if (target.pid != 0) return show_process(files, target.pid);
    const auto file = files.open(target.path);
    if (!file) return fail_with(file.error());
    print_notes(**file);
    if ((*file)->probes.empty() && !json_ && patterns_.empty())
      write_output(fmt::format("{}: no probes\n", printable(target.path)));
    return show(**file, std::nullopt, 0);
  }

  bool show_process(observe::ProbeFiles& files, int pid) {
    const auto found = files.of_process(pid);
    if (!found) return fail_with(found.error());
    for (const std::string& problem : found->problems) note(problem);
    std::size_t probes = 0;
    for (const observe::ProbeModule& module : found->modules) {
      print_notes(*module.file);
      probes += module.file->probes.size();
      if (!show(*module.file, module.bias, pid)) return false;
    }
    if (found->files == 0 && found->unread != 0)
      return fail_with({ErrorCode::failed,
                        fmt::format("process {}: none of its files could be read", pid),
                        "the notes above have the reasons"});
    if (probes == 0 && !json_ && patterns_.empty())
      write_output(fmt::format("process {}: no probes in any of its {} files{}\n", pid,
                               found->files, found->unread == 0 ? "" : " that could be read"));
    return true;
  }

  /// False when the output has no reader.
  bool show(const observe::ProbeFile& file, std::optional<Address> bias, int pid) {
    ShownProbes shown{&file, bias, {}};
    missing_.add(file);
    for (const probe::Probe& probe : file.probes)
      if (probe::selected(probe, patterns_, pid)) shown.probes.push_back(&probe);
    shown_ += shown.probes.size();
    if (shown.probes.empty()) return true;
    if (!json_) {
      const Style style = Style::of_stdout();
      if (!sites_) return print_probes(shown, style);
      return write_output(sites_text(shown, style));
    }
    observe::ArgumentErrors errors(file);
    return std::all_of(shown.probes.begin(), shown.probes.end(), [&](const probe::Probe* probe) {
      return print_json(to_json(file, *probe, errors, bias, pid));
    });
  }

  void print_notes(const observe::ProbeFile& file) const {
    for (const std::string& problem : file.problems) note(file.path + ": " + problem);
    if (file.tombstones > 0 && sites_)
      note(fmt::format("{}: {} sites are omitted: the linker dropped their code", file.path,
                       file.tombstones));
  }

  bool fail_with(const Error& error) {
    const int code = report(error);
    if (status_ == exit_done) status_ = code;
    return true;
  }

  std::vector<std::string> words_;
  bool sites_ = false;
  bool json_ = false;
  std::vector<probe::Pattern> patterns_;
  std::vector<std::string> functions_;  ///< those of them that are of functions
  observe::MissingFunctions missing_;
  std::size_t shown_ = 0;
  int status_ = exit_done;
};

}  // namespace

std::unique_ptr<Command> make_probes_command() {
  return std::make_unique<ProbesCommand>();
}

}  // namespace vitrine::cli
