// vitrine usdt dump: the DOFs of a file in full.

#include "cli/usdt/dump.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>

#include "cli/output/live.hpp"
#include "cli/output/text.hpp"
#include "cli/shell/options.hpp"
#include "cli/shell/report.hpp"
#include "cli/shell/run.hpp"
#include "dof/dof.hpp"

namespace vitrine::cli {
namespace {

Json strings(const std::vector<std::string>& texts) {
  Json out = Json::array();
  for (const std::string& text : texts) out.push_back(json_bytes(text));
  return out;
}

Json hexes(const std::vector<std::uint32_t>& offsets) {
  Json out = Json::array();
  for (const std::uint32_t offset : offsets) out.push_back(hex(offset));
  return out;
}

const char* name(dof::Relocation relocation) {
  switch (relocation) {
    case dof::Relocation::load_base:
      return "setx";
    case dof::Relocation::own_address:
      return "dofrel";
    case dof::Relocation::none:
      break;
  }
  return "none";
}

Json sites(const probe::PlacedDof& dof, std::optional<Address> function,
           const std::vector<std::uint32_t>& offsets) {
  if (!function) return nullptr;
  Json out = Json::array();
  for (const std::uint32_t offset : offsets)
    out.push_back(hex(dof::site_address(dof.object.model, *function, offset)));
  return out;
}

Json hex_or_null(std::optional<Address> address) {
  return address ? Json(hex(*address)) : Json();
}

Json json_record(const probe::PlacedDof& dof, const dof::Record& record, bool relocatable) {
  const auto function =
      relocatable ? std::nullopt : dof::function_address(dof.object, record, dof.placement());
  const dof::Prototype& prototype = record.prototype;
  return {{"probe", json_bytes(record.name)},
          {"function", json_bytes(record.function)},
          {"address", hex_or_null(function)},
          {"sites", sites(dof, function, record.offsets)},
          {"enabled_sites", sites(dof, function, record.enabled_offsets)},
          {"offsets", hexes(record.offsets)},
          {"enabled_offsets", hexes(record.enabled_offsets)},
          {"types", strings(prototype.translated)},
          {"native_types", strings(prototype.native)},
          {"argument_map", prototype.argument_map},
          {"relocation", name(record.relocation)},
          {"word", hex(record.word)},
          {"word_offset", hex(record.word_offset)}};
}

Json json_provider(const probe::PlacedDof& dof, const dof::Provider& provider, bool relocatable) {
  const dof::Stabilities& stability = provider.stabilities;
  Json out = {{"name", json_bytes(provider.name)},
              {"stability",
               {{"provider", dof::name(stability.provider)},
                {"module", dof::name(stability.module)},
                {"function", dof::name(stability.function)},
                {"name", dof::name(stability.name)},
                {"args", dof::name(stability.args)}}},
              {"records", Json::array()},
              {"semaphores", Json::array()}};
  for (const dof::Record& record : provider.records)
    out["records"].push_back(json_record(dof, record, relocatable));
  for (const dof::Semaphore& semaphore : provider.semaphores)
    out["semaphores"].push_back(
        {{"probe", json_bytes(semaphore.name)},
         {"address", hex_or_null(relocatable ? std::nullopt
                                             : dof::semaphore_address(dof.object, semaphore,
                                                                      dof.placement()))}});
  return out;
}

}  // namespace

Json to_json(const observe::DofListing& listing, const probe::PlacedDof& dof) {
  const dof::Object& object = dof.object;
  Json out = {{"file", json_bytes(listing.path)},
              {"address", hex(dof.address)},
              {"file_offset", hex(dof.file_offset)},
              {"model", object.model == dof::Model::lp64 ? "lp64" : "ilp32"},
              {"version", object.version},
              {"loadable_size", object.loadable_size},
              {"file_size", object.file_size}};
  if (listing.relocatable) {
    Json& relocations = out["relocations"] = Json::array();
    for (const elf::SectionRelocation& one : dof.relocations)
      relocations.push_back({{"offset", hex(one.offset)},
                             {"type", elf::relocation_name(listing.machine, one.type)},
                             {"symbol", json_bytes(one.symbol)},
                             {"addend", one.addend}});
  } else {
    out["dynamic_relocations"] = dof.dynamic_relocations.size();
  }
  Json& providers = out["providers"] = Json::array();
  for (const dof::Provider& provider : object.providers)
    providers.push_back(json_provider(dof, provider, listing.relocatable));
  for (const dof::Problem& problem : object.problems)
    out["problems"].push_back(json_bytes(problem.text));
  return out;
}

namespace {

constexpr std::size_t dof_indent = 4;

std::string types(const std::vector<std::string>& all) {
  std::vector<std::string> texts;
  texts.reserve(all.size());
  for (const std::string& one : all) texts.push_back(printable(one));
  return fmt::format("{}", fmt::join(texts, ", "));
}

/// "(char *) from (int, char *): 1": which native arguments they are of, where that is not plain.
std::string arguments(const dof::Prototype& prototype) {
  std::string shown = fmt::format("({})", types(prototype.translated));
  std::vector<std::uint8_t> plain(prototype.native.size());
  for (std::size_t i = 0; i < plain.size(); ++i) plain[i] = static_cast<std::uint8_t>(i);
  if (prototype.translated == prototype.native && prototype.argument_map == plain) return shown;
  return fmt::format("{} from ({}), arguments {}", shown, types(prototype.native),
                     prototype.argument_map.empty()
                         ? "-"
                         : fmt::format("{}", fmt::join(prototype.argument_map, ", ")));
}

/// "3 × R_X86_64_PC64, 1 × type 99"
template <class Relocation>
std::string kinds(std::uint16_t machine, const std::vector<Relocation>& relocations) {
  std::map<std::string, std::size_t> counts;
  for (const Relocation& one : relocations) ++counts[elf::relocation_name(machine, one.type)];
  std::vector<std::string> texts;
  texts.reserve(counts.size());
  for (const auto& [name, count] : counts) texts.push_back(fmt::format("{} × {}", count, name));
  return fmt::format("{}", fmt::join(texts, ", "));
}

std::string needs(const observe::DofListing& listing, const probe::PlacedDof& dof,
                  const Style& style) {
  if (listing.relocatable)
    return dof.relocations.empty()
               ? style.yellow("not linked yet, and without relocations: addresses are unknown")
               : fmt::format("not linked yet: {}", kinds(listing.machine, dof.relocations));
  const std::size_t count = dof.dynamic_relocations.size();
  if (count == 0) return style.green("needs no dynamic relocations");
  return style.yellow(fmt::format("needs {}: {}", counted(count, "dynamic relocation"),
                                  kinds(listing.machine, dof.dynamic_relocations)));
}

std::string stabilities(const dof::Stabilities& all, const Style& style) {
  const std::string first = dof::name(all.provider);
  const std::pair<const char*, const dof::Stability&> rest[] = {
      {"module", all.module}, {"function", all.function}, {"name", all.name}, {"args", all.args}};
  std::string text = first;
  for (const auto& [what, stability] : rest)
    if (stability != all.provider) text += fmt::format(", {} {}", what, dof::name(stability));
  return style.dim(text);
}

/// The lines of one provider.
class ProviderText {
 public:
  ProviderText(const probe::PlacedDof& dof, const dof::Provider& provider, bool relocatable,
               const Style& style)
      : dof_(dof), provider_(provider), relocatable_(relocatable), style_(style) {}

  std::string str() {
    std::string out = fmt::format("  provider {}  {}\n", style_.bold(printable(provider_.name)),
                                  stabilities(provider_.stabilities, style_));
    for (const std::string_view name : names()) {
      out += probe(name);
      Table table;
      for (const dof::Record* record : records_.at(name)) add_sites(table, *record);
      out += table.str(dof_indent + 2);
    }
    for (const dof::Semaphore& semaphore : provider_.semaphores)
      if (!has_records(semaphore.name))
        out += fmt::format("{:{}}{}{}\n", "", dof_indent, style_.cyan(printable(semaphore.name)),
                           semaphore_text(semaphore.name));
    return out;
  }

 private:
  /// In the order of their first records.
  std::vector<std::string_view> names() {
    std::vector<std::string_view> all;
    for (const dof::Record& record : provider_.records) {
      auto& records = records_[record.name];
      if (records.empty()) all.emplace_back(record.name);
      records.push_back(&record);
    }
    for (const dof::Semaphore& semaphore : provider_.semaphores)
      semaphores_.emplace(semaphore.name, &semaphore);
    return all;
  }

  [[nodiscard]] bool has_records(std::string_view name) const { return records_.contains(name); }

  std::string probe(std::string_view name) {
    return fmt::format("{:{}}{}{}{}\n", "", dof_indent, style_.cyan(printable(name)),
                       arguments(records_.at(name).front()->prototype), semaphore_text(name));
  }

  std::string semaphore_text(std::string_view name) {
    const auto semaphore = semaphores_.find(name);
    if (semaphore == semaphores_.end()) return {};
    if (relocatable_) return "  semaphore";
    const auto address = dof::semaphore_address(dof_.object, *semaphore->second, dof_.placement());
    return "  semaphore " + (address ? hex(*address) : "left out by the linker");
  }

  void add_sites(Table& table, const dof::Record& record) {
    const auto function =
        relocatable_ ? std::nullopt : dof::function_address(dof_.object, record, dof_.placement());
    if (!relocatable_ && !function) {
      table.row(
          {"left out", style_.dim(fmt::format(
                           "{} in a copy of {} that the linker dropped",
                           counted(record.offsets.size() + record.enabled_offsets.size(), "site"),
                           printable(record.function_name())))});
      return;
    }
    const auto add = [&](std::uint32_t offset, const char* what) {
      const std::string where = fmt::format("{}+{:#x}", printable(record.function_name()), offset);
      table.row({function ? hex(dof::site_address(dof_.object.model, *function, offset)) : "?",
                 where + style_.dim(what)});
    };
    for (const std::uint32_t offset : record.offsets) add(offset, "");
    for (const std::uint32_t offset : record.enabled_offsets) add(offset, "  is it enabled?");
  }

  const probe::PlacedDof& dof_;
  const dof::Provider& provider_;
  bool relocatable_;
  const Style& style_;
  std::map<std::string_view, std::vector<const dof::Record*>> records_;
  std::map<std::string_view, const dof::Semaphore*> semaphores_;
};

}  // namespace

std::string dof_text(const observe::DofListing& listing, const probe::PlacedDof& dof,
                     const Style& style) {
  const dof::Object& object = dof.object;
  std::string out =
      fmt::format("{}  DOF at {}, offset {}: {} version {}, {} bytes\n  {}\n",
                  style.bold(printable(listing.path)), hex(dof.address), hex(dof.file_offset),
                  object.model == dof::Model::lp64 ? "LP64" : "ILP32", object.version,
                  object.file_size, needs(listing, dof, style));
  for (const dof::Provider& provider : object.providers)
    out += ProviderText(dof, provider, listing.relocatable, style).str();
  if (object.providers.empty()) out += "  no providers\n";
  for (const dof::Problem& problem : object.problems)
    out += "  " + style.yellow(printable(problem.text)) + '\n';
  return out;
}

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
    add_json(app, json_, "DOF");
  }

  Needs needs() const override { return needs_of_reading(); }

  Result<int> run() override {
    int status = exit_done;
    for (const std::string& path : paths_) {
      const auto listing = observe::list_dof(path);
      const int code = listing ? show(*listing) : report(listing.error());
      if (status == exit_done) status = code;
      if (gone_) break;
    }
    flush_output();
    return status;
  }

 private:
  int show(const observe::DofListing& listing) {
    const probe::DofFile& file = listing.file;
    for (const std::string& problem : file.problems) note(listing.path + ": " + problem);
    for (const probe::PlacedDof& dof : file.dofs) {
      gone_ = json_ ? !print_json(to_json(listing, dof))
                    : !write_output(dof_text(listing, dof, Style::of_stdout()));
      if (gone_) return exit_done;
    }
    if (!file.dofs.empty()) return exit_done;
    if (!file.problems.empty()) return exit_failed;
    if (!json_)
      write_output(fmt::format(
          "{}: no DOF{}\n", printable(listing.path),
          file.content_elsewhere ? " (it is a debug file: the program has the DOF)" : ""));
    return exit_done;
  }

  std::vector<std::string> paths_;
  bool json_ = false;
  bool gone_ = false;  // the output has no reader
};

}  // namespace

std::unique_ptr<Command> make_usdt_dump_command() {
  return std::make_unique<UsdtDumpCommand>();
}

}  // namespace vitrine::cli
