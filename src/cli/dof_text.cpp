#include "cli/dof_text.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>

#include "cli/text.hpp"
#include "dof/stability.hpp"

namespace vitrine::cli {
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

}  // namespace vitrine::cli
