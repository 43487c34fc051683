// vitrine usdt dump: the DOFs of a file in full.
#include <fmt/format.h>

#include <cstdio>

#include "cli/command.hpp"
#include "cli/dof_json.hpp"
#include "cli/dof_text.hpp"
#include "cli/exit_code.hpp"
#include "cli/report.hpp"

namespace vitrine::cli {
namespace {

class UsdtDumpCommand : public Command {
 public:
  Manual manual() const override {
    return {"usdt dump",
            "show the DOF of a file",
            {"Shows the tables (DOF) that list the probes of a program, library or object, "
             "whichever tool generated them: each provider with its stabilities (name/data/class), "
             "each probe with its argument types, and every site, with addresses of the file. A "
             "file may have several DOFs in sequence; a file without section headers is searched "
             "for them.",
             "If a DOF needs dynamic relocations, every process writes to it at start; vitrine "
             "prints their number. A DOF of vitrine usdt link needs none. For an object that is "
             "not linked yet, its ELF relocations are shown instead of addresses.",
             "Copies of a function that the linker dropped (inline functions of several objects) "
             "keep their lines, marked as left out. Damaged parts are reported, and the rest is "
             "shown."},
            {{"vitrine usdt dump ./shop", "providers, probes, sites"},
             {"vitrine usdt dump shop_probes.o", "before linking"},
             {"vitrine usdt dump --json ./shop | jq .dynamic_relocations",
              "one JSON object for each DOF"}},
            {"usdt-link", "probes", "readelf(1)"}};
  }

  void define(CLI::App& app) override {
    app.add_option("FILE", paths_, "ELF files: programs, libraries, objects")
        ->required()
        ->option_text("...");
    app.add_flag("--json", json_, "Print NDJSON: one object for each DOF");
  }

  Needs needs() const override { return needs_of_reading(); }

  int run() override {
    int status = exit_done;
    for (const std::string& path : paths_) {
      const auto listing = observe::list_dof(path);
      const int code = listing ? show(*listing) : report(listing.error());
      if (status == exit_done) status = code;
      if (gone_) break;
    }
    std::fflush(stdout);
    return status;
  }

 private:
  int show(const observe::DofListing& listing) {
    const probe::DofFile& file = listing.file;
    for (const std::string& problem : file.problems) note(listing.path + ": " + problem);
    for (const probe::PlacedDof& dof : file.dofs) {
      gone_ = json_ ? !print_json(to_json(listing, dof))
                    : std::fputs(dof_text(listing, dof, Style::of_stdout()).c_str(), stdout) < 0;
      if (gone_) return exit_done;
    }
    if (!file.dofs.empty()) return exit_done;
    if (!file.problems.empty()) return exit_failed;
    if (!json_)
      fmt::print("{}: no DOF{}\n", printable(listing.path),
                 file.content_elsewhere ? " (it is a debug file: the program has the DOF)" : "");
    return exit_done;
  }

  std::vector<std::string> paths_;
  bool json_ = false;
  bool gone_ = false;  // nobody reads any more
};

}  // namespace

std::unique_ptr<Command> make_usdt_dump_command() {
  return std::make_unique<UsdtDumpCommand>();
}

}  // namespace vitrine::cli
