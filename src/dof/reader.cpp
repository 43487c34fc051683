#include "dof/reader.hpp"

#include <algorithm>
#include <map>

#include "base/memory.hpp"
#include "dof/header.hpp"
#include "dof/sections.hpp"

namespace vitrine::dof {
namespace {

constexpr std::size_t oldest_provider_bytes = 40;  // version 1 had no is-enabled sites

Stability stability_of(std::uint32_t attributes) {
  return {static_cast<std::uint8_t>(attributes >> 24), static_cast<std::uint8_t>(attributes >> 16),
          static_cast<std::uint8_t>(attributes >> 8)};
}

class RecordReader {
 public:
  RecordReader(const ProviderSource& source, const vitrine_dof_provider& provider)
      : source_(source), provider_(provider) {}

  /// Errors: malformed (a table that the provider refers to cannot be used).
  Result<void> open() {
    TRY(take(probes_, provider_.probes, VITRINE_DOF_SECTION_PROBES));
    TRY(take(offsets_, provider_.offsets, VITRINE_DOF_SECTION_PROFFS));
    TRY(take(arguments_, provider_.arguments, VITRINE_DOF_SECTION_PRARGS));
    if (provider_.enabled_offsets == 0) return {};  // section 0 is the string table's
    return take(enabled_offsets_, provider_.enabled_offsets, VITRINE_DOF_SECTION_PRENOFFS);
  }

  std::vector<Record> read() {
    const vitrine_dof_section& table = source_.sections.at(provider_.probes);
    std::vector<Record> records;
    for (std::uint64_t at = 0; at < probes_.size(); at += table.entry_size) {
      auto record = read(load<vitrine_dof_probe>(probes_, at), table.offset + at);
      if (source_.budget.exhausted()) break;
      if (record)
        records.push_back(std::move(*record));
      else
        source_.problems.add(Part::records, "probe record {} of section {}: {}",
                             at / table.entry_size, provider_.probes, record.error().message);
    }
    return records;
  }

 private:
  Result<void> take(std::span<const std::byte>& into, std::uint32_t index, std::uint32_t type) {
    into = TRY(source_.sections.content(index, type));
    return {};
  }

  Result<Record> read(const vitrine_dof_probe& raw, std::uint64_t word_offset) {
    Record record;
    record.word = raw.address;
    record.word_offset = word_offset;
    const auto relocation = source_.relocations.of(word_offset);
    if (!relocation) return malformed("its relocations are invalid");
    record.relocation = *relocation;
    const auto name = source_.sections.string(provider_.strings, raw.name, limits::dof_probe_name);
    if (!name) return malformed("its name {}", name.error().message);
    if (name->empty()) return malformed("its name is empty");
    record.name = *name;
    const auto function =
        source_.sections.string(provider_.strings, raw.function, limits::dof_read_function_name);
    if (!function) return malformed("its function's name {}", function.error().message);
    record.function = *function;
    TRY(read_sites(raw, record));
    TRY(read_prototype(raw, record.prototype));
    source_.budget.take(sizeof record + record.name.size() + record.function.size());
    return record;
  }

  Result<void> read_sites(const vitrine_dof_probe& raw, Record& record) {
    const bool plain = source_.version == VITRINE_DOF_VERSION_PLAIN;
    if (plain && raw.enabled_offset_count > 0)
      return malformed("it has {} is-enabled sites, which version 1 does not support",
                       raw.enabled_offset_count);
    if (enabled_offsets_.data() == nullptr &&
        (raw.enabled_offset_count > 0 || raw.enabled_offset_index != 0))
      return malformed("it has is-enabled sites, but its provider has no table of them");
    if (raw.offset_count + raw.enabled_offset_count == 0) return malformed("it has no sites");
    if (auto read = read_offsets(offsets_, raw.offset_index, raw.offset_count, record.offsets);
        !read)
      return malformed("its sites {}", read.error().message);
    if (auto read = read_offsets(enabled_offsets_, raw.enabled_offset_index,
                                 raw.enabled_offset_count, record.enabled_offsets);
        !read)
      return malformed("its is-enabled sites {}", read.error().message);
    return {};
  }

  Result<void> read_offsets(std::span<const std::byte> table, std::uint32_t first,
                            std::uint32_t count, std::vector<std::uint32_t>& into) {
    // 64 bits: as a product of 32, an index of 0x40000000 would come out as 0.
    const std::uint64_t entries = table.size() / sizeof(std::uint32_t);
    if (std::uint64_t{first} + count > entries)
      return malformed("{} to {} are not in the table of {}", first, std::uint64_t{first} + count,
                       entries);
    if (count == 0 || !source_.budget.take(count * sizeof(std::uint32_t))) return {};
    into.resize(count);
    std::memcpy(into.data(), table.data() + first * sizeof(std::uint32_t),
                count * sizeof(std::uint32_t));
    return {};
  }

  Result<void> read_prototype(const vitrine_dof_probe& raw, Prototype& prototype) {
    if (auto read = read_types(raw.native_types, raw.native_count, prototype.native); !read)
      return malformed("the type of its native argument {}", read.error().message);
    if (auto read = read_types(raw.translated_types, raw.translated_count, prototype.translated);
        !read)
      return malformed("the type of its argument {}", read.error().message);
    if (raw.translated_count == 0) return {};
    if (std::uint64_t{raw.argument_index} + raw.translated_count > arguments_.size())
      return malformed("its arguments {} to {} are not in the table of {}", raw.argument_index,
                       std::uint64_t{raw.argument_index} + raw.translated_count, arguments_.size());
    for (std::size_t i = 0; i < raw.translated_count; ++i) {
      const auto native = load<std::uint8_t>(arguments_, raw.argument_index + i);
      if (native >= raw.native_count)
        return malformed("its argument {} comes from native argument {} of {}", i, native,
                         raw.native_count);
      prototype.argument_map.push_back(native);
    }
    return {};
  }

  /// `count` strings, one after another. Without any, the offset means nothing.
  Result<void> read_types(std::uint32_t offset, std::size_t count, std::vector<std::string>& into) {
    std::uint64_t at = offset;
    for (std::size_t i = 0; i < count; ++i) {
      const auto type = source_.sections.string(provider_.strings, at, limits::dof_type_name);
      if (!type) return malformed("{} {}", i, type.error().message);
      if (!source_.budget.take(sizeof(std::string) + type->size())) return {};
      into.emplace_back(*type);
      at += type->size() + 1;
    }
    return {};
  }

  const ProviderSource& source_;
  const vitrine_dof_provider& provider_;
  std::span<const std::byte> probes_, offsets_, enabled_offsets_, arguments_;
};

}  // namespace

Result<vitrine_dof_provider> read_provider_record(const Sections& sections, std::uint8_t version,
                                                  std::uint32_t index) {
  const auto bytes = TRY(sections.content(index, VITRINE_DOF_SECTION_PROVIDER));
  const std::size_t least =
      version == VITRINE_DOF_VERSION_PLAIN ? oldest_provider_bytes : sizeof(vitrine_dof_provider);
  if (bytes.size() < least)
    return malformed("has {} bytes instead of {}", bytes.size(), sizeof(vitrine_dof_provider));
  vitrine_dof_provider provider{};
  std::memcpy(&provider, bytes.data(), std::min(bytes.size(), sizeof provider));
  // In version 1 nothing declares what follows the 40 bytes.
  if (version == VITRINE_DOF_VERSION_PLAIN) provider.enabled_offsets = 0;
  return provider;
}

Result<Provider> read_provider(const ProviderSource& source, std::uint32_t index) {
  const auto raw = TRY(read_provider_record(source.sections, source.version, index));
  const auto name = source.sections.string(raw.strings, raw.name, limits::dof_provider_name);
  if (!name) return malformed("its name {}", name.error().message);
  if (name->empty()) return malformed("its name is empty");
  Provider provider;
  provider.name = *name;
  provider.stabilities = {stability_of(raw.provider_attributes),
                          stability_of(raw.module_attributes),
                          stability_of(raw.function_attributes), stability_of(raw.name_attributes),
                          stability_of(raw.args_attributes)};
  source.budget.take(sizeof provider);
  RecordReader records(source, raw);
  TRY(records.open());
  provider.records = records.read();
  return provider;
}

void read_semaphores(const Sections& sections,
                     const std::map<std::uint32_t, std::size_t>& provider_at, Object& object,
                     Budget& budget, Problems& problems) {
  for (std::uint32_t index = 0; index < sections.count(); ++index) {
    const vitrine_dof_section& section = sections.at(index);
    const auto content = sections.content(index, VITRINE_DOF_SECTION_SEMAPHORES);
    if (!content) continue;
    for (std::uint64_t at = 0; at < content->size(); at += section.entry_size) {
      const auto raw = load<vitrine_dof_semaphore>(*content, at);
      const std::uint64_t number = at / section.entry_size;
      const auto provider = provider_at.find(raw.provider);
      if (provider == provider_at.end()) {
        problems.add(
            Part::semaphores,
            "semaphore {} of section {} belongs to section {}, which is not a readable provider",
            number, index, raw.provider);
        continue;
      }
      const auto record = read_provider_record(sections, object.version, raw.provider);
      const auto name = sections.string(record->strings, raw.name, limits::dof_probe_name);
      if (!name || name->empty()) {
        problems.add(Part::semaphores, "semaphore {} of section {}: its name {}", number, index,
                     name ? "is empty" : name.error().message);
        continue;
      }
      if (!budget.take(sizeof(Semaphore) + name->size())) return;
      object.providers[provider->second].semaphores.push_back(
          {std::string(*name), raw.word, section.offset + at});
    }
  }
}

namespace {

constexpr std::size_t alignment = 8;

/// `dof` is all of it and no more.
Object read_object(std::span<const std::byte> dof, const vitrine_dof_header& header,
                   Budget& budget) {
  Object object;
  object.model = static_cast<Model>(header.model);
  object.version = header.version;
  object.loadable_size = header.loadable_size;
  object.file_size = header.file_size;
  Problems problems(object.problems);
  const auto sections = Sections::read(dof, header, problems);
  if (!sections) {
    problems.add(Part::sections, "{}", sections.error().message);
    return object;
  }
  const Relocations relocations(*sections, budget, problems);
  std::map<std::uint32_t, std::size_t> provider_at;
  for (std::uint32_t i = 0; i < sections->count() && !budget.exhausted(); ++i) {
    if (!sections->usable(i) || sections->at(i).type != VITRINE_DOF_SECTION_PROVIDER) continue;
    auto provider = read_provider({*sections, relocations, header.version, budget, problems}, i);
    if (!provider) {
      problems.add(Part::providers, "section {}, a provider: {}", i, provider.error().message);
      continue;
    }
    provider_at.emplace(i, object.providers.size());
    object.providers.push_back(std::move(*provider));
  }
  read_semaphores(*sections, provider_at, object, budget, problems);
  if (budget.exhausted())
    problems.add(Part::size, "decoded, it exceeds {} bytes: the rest is omitted", budget.total());
  problems.finish();
  return object;
}

/// Where the next 8-aligned DOF may begin; else the end.
std::size_t find_magic(std::span<const std::byte> bytes, std::size_t at) {
  while (at < bytes.size() && !has_magic(bytes.subspan(at))) at += alignment;
  return std::min(at, bytes.size());
}

bool is_zero(std::span<const std::byte> bytes) {
  return std::all_of(bytes.begin(), bytes.end(),
                     [](std::byte byte) { return byte == std::byte{}; });
}

}  // namespace

Objects read(std::span<const std::byte> section, std::uint64_t most) {
  Objects found;
  Budget budget(std::min(section.size() * limits::dof_expansion, most));
  Problems problems(found.problems);
  bool reported = false;  // of the bytes at `at`, by what was wrong before them
  for (std::size_t at = 0; at < section.size();) {
    const std::size_t next = find_magic(section, at);
    if (!reported && !is_zero(section.subspan(at, next - at)))
      problems.add(Part::header, "the {} bytes at offset {:#x} are not a DOF", next - at, at);
    if (next == section.size()) break;
    at = next;
    const auto header = read_header(section.subspan(at));
    if (!header) {
      problems.add(Part::header, "the DOF at offset {:#x}: {}", at, header.error().message);
      at += alignment;
      reported = true;
      continue;
    }
    reported = false;
    budget.take(sizeof(Object));
    found.objects.push_back(read_object(section.subspan(at, header->file_size), *header, budget));
    found.objects.back().offset = at;
    at = std::min(section.size(), align_up(at + header->file_size, alignment));
    if (budget.exhausted()) break;  // as its problems report
  }
  problems.finish();
  found.decoded_bytes = budget.taken();
  return found;
}

}  // namespace vitrine::dof
