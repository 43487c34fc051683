#include "cli/dof_json.hpp"

#include "dof/stability.hpp"

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

}  // namespace vitrine::cli
