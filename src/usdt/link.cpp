#include "usdt/link.hpp"

#include <elf.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <limits>
#include <map>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

#include "base/text.hpp"
#include "sandbox/files.hpp"
#include "usdt/machine.hpp"
#include "usdt/object_file.hpp"
#include "usdt/object_locks.hpp"
#include "usdt/object_parser.hpp"
#include "usdt/object_writer.hpp"
#include "usdt/probe_object.hpp"
#include "usdt/symbols.hpp"

namespace vitrine::usdt {
namespace {

/// Functions that have sites, each once, and which of them each site is in.
struct SiteFunctions {
  std::vector<Function> functions;
  std::vector<std::size_t> of_site;
};

SiteFunctions functions_of(const ObjectFile& object, std::span<const CallSite> sites) {
  std::vector<Place> places;
  places.reserve(sites.size());
  for (const CallSite& site : sites) places.push_back({site.section, site.start});
  SiteFunctions found;
  std::map<Function, std::size_t> known;
  for (Function& function : containing_functions(object, places)) {
    const auto [at, is_new] = known.try_emplace(function, found.functions.size());
    found.of_site.push_back(at->second);
    if (is_new) found.functions.push_back(std::move(function));
  }
  return found;
}

/// Where a uprobe goes, with the name of the function, of sites that have notes: no is-enabled checks.
std::vector<Function> noted_sites(std::span<const CallSite> sites, const SiteFunctions& where) {
  std::vector<Function> noted;
  noted.reserve(sites.size());
  for (std::size_t i = 0; i < sites.size(); ++i)
    if (!sites[i].use.enabled)
      noted.push_back({where.functions[where.of_site[i]].name,
                       {sites[i].section, sites[i].start + sites[i].pattern.site}});
  return noted;
}

/// `at_sites`: names of noted_sites(), or none.
Result<std::vector<FunctionSites>> gather(std::span<const CallSite> sites,
                                          const SiteFunctions& where,
                                          std::span<const std::string> aliases,
                                          std::span<const std::string> at_sites) {
  std::map<std::tuple<std::uint32_t, std::uint32_t, std::size_t>, FunctionSites> gathered;
  std::size_t noted = 0;
  for (std::size_t i = 0; i < sites.size(); ++i) {
    const CallSite& site = sites[i];
    const std::size_t in = where.of_site[i];
    const Function& function = where.functions[in];
    const std::uint64_t offset = site.start + site.pattern.site - function.start.offset;
    if (offset > std::numeric_limits<std::uint32_t>::max())
      return fail(ErrorCode::limit, fmt::format("a probe call is {} bytes after the start of {}",
                                                offset, function.name));
    FunctionSites& one = gathered[{site.use.provider, site.use.probe, in}];
    if (one.alias.empty())
      one = {site.use.provider, site.use.probe, function.name, aliases[in], {}, {}, {}, {}};
    (site.use.enabled ? one.enabled_offsets : one.offsets)
        .push_back(static_cast<std::uint32_t>(offset));
    if (site.use.enabled) continue;
    one.jumps.push_back(site.pattern.instruction == dof::Instruction::jump ? 1 : 0);
    if (!at_sites.empty()) one.at_sites.push_back(at_sites[noted++]);
  }
  std::vector<FunctionSites> all;
  all.reserve(gathered.size());
  for (auto& [key, one] : gathered) all.push_back(std::move(one));
  return all;
}

/// The symbol stays in the relocation: without it, a linker that folds identical functions would
/// fold those of different probes (docs/formats/object-step.md, "Calls and functions").
void neutralise(std::span<std::byte> bytes, const ObjectFile& object, const CallSite& site) {
  const std::size_t at =
      static_cast<std::size_t>(object.sections()[site.section].offset + site.start);
  std::memcpy(&bytes[at], site.pattern.bytes.data(), site.pattern.length);
  std::memset(&bytes[site.type_at], 0, object.machine().wide ? sizeof(Elf32_Word) : 1);
}

void look_for_lto(const ObjectFile& object, RewrittenObject& result) {
  bool lto = false;
  for (std::uint32_t i = 1; i < object.sections().size() && !lto; ++i)
    lto = object.section_name(i).starts_with(".gnu.lto_") || object.section_name(i) == ".llvm.lto";
  if (!lto) return;
  result.only_lto = std::ranges::any_of(
      object.symbols(), [](const Symbol& symbol) { return symbol.name == "__gnu_lto_slim"; });
  result.fat_lto = !result.only_lto;
}

}  // namespace

Result<RewrittenObject> rewrite(std::span<const std::byte> bytes, const DeclaredProbes& declared,
                                const SiteRules& rules, std::string_view salt) {
  RewrittenObject result;
  if (is_bitcode(bytes)) {
    result.machine = bitcode_machine(bytes);
    result.only_lto = true;
    return result;
  }
  const auto object = TRY(ObjectFile::read(bytes));
  auto found = TRY(find_sites(object, declared, rules));
  result.machine = &object.machine();
  result.left_to_stubs = std::move(found.left_to_stubs);
  result.undeclared = std::move(found.undeclared);
  look_for_lto(object, result);
  const auto features = TRY(feature_bits(object));
  if (!result.only_lto) result.features = features;
  if (found.sites.empty()) return result;

  const SiteFunctions where = functions_of(object, found.sites);
  const unsigned char binding = rules.weak_aliases ? STB_WEAK : STB_GLOBAL;
  ObjectKey key(bytes, salt);
  const Aliases aliases = name_functions(object, where.functions, key, binding);
  const auto sites = rules.notes ? noted_sites(found.sites, where) : std::vector<Function>();
  const Aliases at_sites = name_sites(object, sites, key, binding);
  result.functions = TRY(gather(found.sites, where, aliases.names, at_sites.names));

  std::vector<std::byte> out(bytes.begin(), bytes.end());
  bool changed = !aliases.added.empty() || !at_sites.added.empty();
  for (const CallSite& site : found.sites) {
    if (site.use.enabled)
      (site.pattern.use == dof::Use::fire ? result.pointer_protocol : result.register_protocol) =
          true;
    if (site.patched) continue;
    neutralise(out, object, site);
    changed = true;
  }
  if (!changed) return result;
  std::vector<NewSymbol> symbols;
  for (const std::size_t i : aliases.added)
    symbols.push_back({aliases.names[i], where.functions[i].start, binding});
  for (const std::size_t i : at_sites.added)
    symbols.push_back({at_sites.names[i], sites[i].start, binding});
  TRY(append_symbols(out, object, symbols));
  result.bytes = std::move(out);
  return result;
}

namespace {

namespace fs = std::filesystem;

std::string absolute(const std::string& path) {
  std::error_code ignored;
  return fs::absolute(path, ignored).lexically_normal().string();
}

std::string real(const std::string& path) {
  std::error_code error;
  const auto found = fs::canonical(path, error);
  return error ? absolute(path) : found.string();
}

/// Files by their real paths, which are looked up only for those that are one file: a hard link is another
/// one, as a file gets its new content by a rename.
class DistinctFiles {
 public:
  /// False: it is there. One that does not exist is not put in: opening it reports why.
  bool insert(const std::string& path) {
    struct stat status {};
    if (::stat(path.c_str(), &status) != 0) return true;
    auto& names = names_[{status.st_dev, status.st_ino}];
    if (is_among(names, path)) return false;
    names.push_back(path);
    return true;
  }

  [[nodiscard]] bool has(const std::string& path) const {
    struct stat status {};
    if (::stat(path.c_str(), &status) != 0) return false;
    const auto found = names_.find({status.st_dev, status.st_ino});
    return found != names_.end() && is_among(found->second, path);
  }

 private:
  static bool is_among(const std::vector<std::string>& names, const std::string& path) {
    return !names.empty() &&
           std::any_of(names.begin(), names.end(),
                       [is = real(path)](const auto& name) { return real(name) == is; });
  }

  std::map<std::pair<dev_t, ino_t>, std::vector<std::string>> names_;
};

std::string probe_title(const Definition& definition, std::uint32_t provider, std::uint32_t probe) {
  const Provider& declared = definition.providers[provider];
  return declared.name + ":" + declared.probes[probe].name;
}

class Step {
 public:
  Step(const Definition& definition, const LinkOptions& options)
      : definition_(definition),
        options_(options),
        declared_(definition),
        rules_{options.enabled, options.long_nop, options.lld, options.sdt},
        parser_(declared_, rules_),
        output_(absolute(options.output)) {}

  Result<LinkReport> run() {
    if (options_.objects.empty()) {
      parts_.machine = options_.without_objects;
      if (parts_.machine == nullptr) return fail(ErrorCode::usage, "missing objects");
      parts_.pointer_protocol = options_.enabled == EnabledProtocol::pointer;
    }
    TRY(locks_.lock(options_.objects));
    DistinctFiles outputs;
    outputs.insert(options_.output);
    for (const std::string& path : options_.objects) {
      if (path == options_.output || outputs.has(path))
        return fail(ErrorCode::usage, path + " is both an object to process and the output",
                    "omit it from the list of objects");
      if (!seen_.insert(path)) continue;
      TRY(process(path));
    }
    if (parts_.machine == nullptr)
      return fail(ErrorCode::unsupported, "the machine is unknown: all objects are bitcode",
                  "add an object with machine code, for example an empty one");
    if (!options_.objects.empty()) TRY(check_sites());
    parts_.registration = options_.registration;
    parts_.weak_aliases = options_.lld;
    parts_.sdt = options_.sdt;
    auto bytes = TRY_WHILE(options_.output, probe_object(definition_, std::move(parts_)));
    // Written last: make compares its time with those of the objects.
    auto staged = TRY(sandbox::StagedFile::write(options_.output, bytes));
    staged_.push_back(std::move(staged));
    TRY(put_in_place());
    return std::move(report_);
  }

 private:
  Result<void> process(const std::string& path) {
    const auto file = TRY(open_input(path));
    auto object = TRY_WHILE(path, parser_.rewrite(file, salt(path)));
    TRY(take(path, object));
    if (object.bytes.empty()) return {};
    auto staged =
        TRY(sandbox::StagedFile::write(path, object.bytes, sandbox::StagedFile::Time::kept));
    ObjectLocks::lock_new(staged.descriptor());
    staged_.push_back(std::move(staged));
    report_.rewritten.push_back(path);
    return {};
  }

  /// What distinguishes objects of equal bytes, and is the same in every build directory: where the
  /// object is as seen from the output.
  [[nodiscard]] std::string salt(const std::string& path) const {
    return fs::path(absolute(path)).lexically_relative(output_.parent_path()).string() + '\n' +
           output_.filename().string();
  }

  Result<void> take(const std::string& path, RewrittenObject& object) {
    if (parts_.machine == nullptr) {
      parts_.machine = object.machine;
      first_ = path;
    }
    if (object.machine != nullptr && parts_.machine != object.machine)
      return fail(ErrorCode::usage,
                  fmt::format("{} is for {}, but {} is for {}", path, object.machine->name, first_,
                              parts_.machine->name),
                  "process the objects of each machine separately");
    parts_.features &= object.features;
    const bool asks = options_.enabled == EnabledProtocol::pointer ? object.register_protocol
                                                                   : object.pointer_protocol;
    if (asks)
      return fail(ErrorCode::usage,
                  path + ": its is-enabled checks were processed for another protocol",
                  "recompile it, and give the same protocol to header and link");
    parts_.pointer_protocol = options_.enabled == EnabledProtocol::pointer;
    for (FunctionSites& one : object.functions) {
      report_.sites += one.offsets.size();
      report_.enabled_sites += one.enabled_offsets.size();
      ++report_.records;
      have_.emplace(one.provider, one.probe);
      parts_.functions.push_back(std::move(one));
    }
    describe(path, object);
    return {};
  }

  void describe(const std::string& path, const RewrittenObject& object) {
    lto_ = lto_ || object.only_lto;
    if (object.only_lto)
      report_.warnings.push_back(
          path +
          ": compiled with -flto, it has no machine code yet; its probes fire in the functions of "
          "the probe object. For probes at their own sites, generate native code first: gcc -flto "
          "-r -flinker-output=nolto-rel, or ld.lld -r");
    if (object.fat_lto)
      report_.warnings.push_back(path +
                                 ": compiled with gcc -flto -ffat-lto-objects; linked with -flto, "
                                 "its probes fire in the functions of the probe object");
    if (!object.left_to_stubs.empty())
      report_.notes.push_back(
          fmt::format("{}: {} uses of probes go through the functions of the probe object "
                      "(addresses, indirect calls, and is-enabled checks on aarch64)",
                      path, object.left_to_stubs.size()));
    for (const ProbeUse& use : object.left_to_stubs) have_.emplace(use.provider, use.probe);
    for (const std::string& name : object.undeclared)
      report_.notes.push_back(fmt::format(
          "{}: {} belongs to a provider that the definition does not declare: left unchanged", path,
          name));
  }

  Result<void> check_sites() {
    // Build systems rely on the failure: perl's then links without a probe object.
    if (have_.empty() && !options_.strict && !lto_)
      return fail(ErrorCode::failed, "none of the objects calls a declared probe",
                  "give the objects that were compiled with the provider's header");
    if (!options_.strict) return {};
    std::string missing;
    for (std::uint32_t i = 0; i < definition_.providers.size(); ++i)
      for (std::uint32_t j = 0; j < definition_.providers[i].probes.size(); ++j)
        if (!have_.contains({i, j}))
          missing += (missing.empty() ? "" : ", ") + probe_title(definition_, i, j);
    if (missing.empty()) return {};
    return fail(ErrorCode::failed, "no object calls these probes: " + missing,
                "give all objects that use the provider, or link without --strict");
  }

  Result<void> put_in_place() {
    for (std::size_t i = 0; i < staged_.size(); ++i) {
      auto done = staged_[i].put_in_place();
      if (done) continue;
      while (i > 0) staged_[--i].put_back();
      return done;
    }
    return {};
  }

  const Definition& definition_;
  const LinkOptions& options_;
  DeclaredProbes declared_;
  SiteRules rules_;
  ObjectParser parser_;
  ProbeObjectParts parts_;
  std::string first_;  ///< object, that decided the machine
  bool lto_ = false;   ///< objects whose uses of probes are not known yet
  DistinctFiles seen_;
  const fs::path output_;
  std::set<std::pair<std::uint32_t, std::uint32_t>> have_;  ///< provider, probe: used somewhere
  ObjectLocks locks_;  ///< released after what is below is gone
  std::vector<sandbox::StagedFile> staged_;
  LinkReport report_;
};

}  // namespace

Result<LinkReport> link(const Definition& definition, const LinkOptions& options) {
  return Step(definition, options).run();
}

}  // namespace vitrine::usdt
