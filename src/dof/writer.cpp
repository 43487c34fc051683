#include "dof/writer.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <iterator>
#include <limits>
#include <map>
#include <span>

#include "abi/dof.h"
#include "base/limits.hpp"
#include "base/memory.hpp"
#include "base/text.hpp"
#include "dof/header.hpp"

namespace vitrine::dof {
namespace {

constexpr std::uint32_t string_section = 0;

std::uint32_t attributes_of(const Stability& stability) {
  return std::uint32_t{stability.name} << 24 | std::uint32_t{stability.data} << 16 |
         std::uint32_t{stability.dependency_class} << 8;
}

template <class... Args>
tl::unexpected<Error> usage(fmt::format_string<Args...> text, Args&&... args) {
  return fail(ErrorCode::usage, fmt::format(text, std::forward<Args>(args)...));
}

Result<void> check_name(std::string_view name, std::size_t most, const char* what) {
  if (name.empty() || name.size() > most || name.find('\0') != name.npos)
    return usage("the {} \"{}\" has {} bytes: not between 1 and {}, or it contains a NUL", what,
                 name, name.size(), most);
  return {};
}

Result<void> check(const Prototype& prototype, std::string_view probe) {
  for (const auto* types : {&prototype.native, &prototype.translated}) {
    if (types->size() > limits::dof_arguments)
      return usage("the probe {} has {} arguments; the limit of DOF is {}", probe, types->size(),
                   limits::dof_arguments);
    for (const std::string& type : *types)
      TRY(check_name(type, limits::dof_type_name, "argument type"));
  }
  if (prototype.argument_map.size() != prototype.translated.size())
    return usage("the probe {} maps {} arguments and has {}", probe, prototype.argument_map.size(),
                 prototype.translated.size());
  for (const std::uint8_t native : prototype.argument_map)
    if (native >= prototype.native.size())
      return usage("the probe {} maps an argument to native argument {} of {}", probe, native,
                   prototype.native.size());
  return {};
}

Result<void> check(const Object& object) {
  for (const Provider& provider : object.providers) {
    TRY(check_name(provider.name, limits::dof_provider_name, "provider"));
    for (const Record& record : provider.records) {
      TRY(check_name(record.name, limits::dof_probe_name, "probe"));
      if (auto checked = check_name(record.function, limits::dof_function_name, "function");
          !checked)
        return checked;
      if (record.offsets.empty() && record.enabled_offsets.empty())
        return usage("the probe {} has no site in {}", record.name, record.function);
      if (object.version == VITRINE_DOF_VERSION_PLAIN && !record.enabled_offsets.empty())
        return usage("the probe {} has is-enabled sites, which version 1 does not support",
                     record.name);
      TRY(check(record.prototype, record.name));
    }
    for (const Semaphore& semaphore : provider.semaphores)
      TRY(check_name(semaphore.name, limits::dof_probe_name, "probe"));
  }
  return {};
}

/// Bytes that grow by whole values.
template <class T>
void append(std::string& bytes, const T& value) {
  static_assert(std::is_trivially_copyable_v<T>);
  bytes.append(reinterpret_cast<const char*>(&value), sizeof value);
}

struct Section {
  vitrine_dof_section header{};
  std::string content;
};

class Writer {
 public:
  explicit Writer(Object& object) : object_(object) {}

  Result<std::vector<std::byte>> write() {
    add({VITRINE_DOF_SECTION_STRTAB, 1, 0}, {});
    for (Provider& provider : object_.providers) add(provider);
    add_semaphores();
    sections_[string_section].content = strings_.bytes();
    place();
    if (total_ > limits::dof_bytes)
      return fail(ErrorCode::limit,
                  fmt::format("the DOF would have {} bytes; the limit of readers is {}", total_,
                              limits::dof_bytes));
    record_words();
    return bytes();
  }

 private:
  struct Kind {
    std::uint32_t type, alignment, entry_size;
  };

  std::uint32_t add(Kind kind, std::string content,
                    std::uint32_t flags = VITRINE_DOF_SECTION_LOAD) {
    sections_.push_back(
        {{kind.type, kind.alignment, flags, kind.entry_size, 0, 0}, std::move(content)});
    return static_cast<std::uint32_t>(sections_.size() - 1);
  }

  void add(Provider& provider) {
    std::string probes, maps, offsets, enabled_offsets;
    std::map<std::string, std::uint32_t> known_maps;
    for (const Record& record : provider.records) {
      vitrine_dof_probe raw{};
      raw.address = record.word;
      raw.function = strings_.add(record.function);
      raw.name = strings_.add(record.name);
      raw.native_types = strings_.add(record.prototype.native);
      raw.translated_types = strings_.add(record.prototype.translated);
      raw.native_count = static_cast<std::uint8_t>(record.prototype.native.size());
      raw.translated_count = static_cast<std::uint8_t>(record.prototype.translated.size());
      const auto& of_arguments = record.prototype.argument_map;
      const auto [map, is_new] =
          known_maps.try_emplace(std::string(of_arguments.begin(), of_arguments.end()),
                                 static_cast<std::uint32_t>(maps.size()));
      if (is_new) maps += map->first;
      raw.argument_index = map->second;
      raw.offset_index = append_offsets(offsets, record.offsets);
      raw.offset_count = static_cast<std::uint16_t>(record.offsets.size());
      if (!record.enabled_offsets.empty())
        raw.enabled_offset_index = append_offsets(enabled_offsets, record.enabled_offsets);
      raw.enabled_offset_count = static_cast<std::uint16_t>(record.enabled_offsets.size());
      append(probes, raw);
    }
    vitrine_dof_provider raw{};
    raw.strings = string_section;
    raw.name = strings_.add(provider.name);
    raw.provider_attributes = attributes_of(provider.stabilities.provider);
    raw.module_attributes = attributes_of(provider.stabilities.module);
    raw.function_attributes = attributes_of(provider.stabilities.function);
    raw.name_attributes = attributes_of(provider.stabilities.name);
    raw.args_attributes = attributes_of(provider.stabilities.args);
    raw.probes = add({VITRINE_DOF_SECTION_PROBES, 8, sizeof(vitrine_dof_probe)}, std::move(probes));
    raw.arguments = add({VITRINE_DOF_SECTION_PRARGS, 1, 1}, std::move(maps));
    raw.offsets = add({VITRINE_DOF_SECTION_PROFFS, 4, 4}, std::move(offsets));
    if (!enabled_offsets.empty())
      raw.enabled_offsets = add({VITRINE_DOF_SECTION_PRENOFFS, 4, 4}, std::move(enabled_offsets));
    std::string content;
    append(content, raw);
    provider_sections_.push_back(add({VITRINE_DOF_SECTION_PROVIDER, 4, 0}, std::move(content)));
    probe_sections_.push_back(raw.probes);
    add_relocations(provider, raw.probes);
  }

  static std::uint32_t append_offsets(std::string& table,
                                      const std::vector<std::uint32_t>& offsets) {
    const auto first = static_cast<std::uint32_t>(table.size() / sizeof(std::uint32_t));
    for (const std::uint32_t offset : offsets) append(table, offset);
    return first;
  }

  void add_relocations(const Provider& provider, std::uint32_t probes) {
    std::string table;
    for (std::size_t i = 0; i < provider.records.size(); ++i) {
      const Record& record = provider.records[i];
      if (record.relocation == Relocation::none) continue;
      append(table, vitrine_dof_relocation{strings_.add(record.function),
                                           static_cast<std::uint32_t>(record.relocation),
                                           i * sizeof(vitrine_dof_probe), 0});
    }
    if (table.empty()) return;
    const std::uint32_t relocations =
        add({VITRINE_DOF_SECTION_RELTAB, 8, sizeof(vitrine_dof_relocation)}, std::move(table));
    std::string content;
    append(content, vitrine_dof_relocation_header{string_section, relocations, probes});
    add({VITRINE_DOF_SECTION_URELHDR, 4, 0}, std::move(content));
  }

  void add_semaphores() {
    std::string table;
    for (std::size_t i = 0; i < object_.providers.size(); ++i)
      for (const Semaphore& semaphore : object_.providers[i].semaphores)
        append(table, vitrine_dof_semaphore{semaphore.word, provider_sections_[i],
                                            strings_.add(semaphore.name)});
    if (table.empty()) return;
    semaphore_section_ = add({VITRINE_DOF_SECTION_SEMAPHORES, 8, sizeof(vitrine_dof_semaphore)},
                             std::move(table), 0);
  }

  /// Loadable sections, then the strings, then the rest.
  void place() {
    total_ = sizeof(vitrine_dof_header) + sections_.size() * sizeof(vitrine_dof_section);
    for (std::uint32_t i = string_section + 1; i < sections_.size(); ++i)
      if (i != semaphore_section_) place(sections_[i]);
    place(sections_[string_section]);
    loadable_ = total_;
    if (semaphore_section_ != 0) place(sections_[semaphore_section_]);
  }

  void place(Section& section) {
    section.header.offset = align_up(total_, section.header.alignment);
    section.header.size = section.content.size();
    total_ = section.header.offset + section.header.size;
  }

  void record_words() {
    std::uint64_t semaphore =
        semaphore_section_ == 0 ? 0 : sections_[semaphore_section_].header.offset;
    for (std::size_t i = 0; i < object_.providers.size(); ++i) {
      std::uint64_t word = sections_[probe_sections_[i]].header.offset;
      for (Record& record : object_.providers[i].records) {
        record.word_offset = word;
        word += sizeof(vitrine_dof_probe);
      }
      for (Semaphore& one : object_.providers[i].semaphores) {
        one.word_offset = semaphore;
        semaphore += sizeof(vitrine_dof_semaphore);
      }
    }
    object_.loadable_size = loadable_;
    object_.file_size = total_;
  }

  [[nodiscard]] std::vector<std::byte> bytes() const {
    std::vector<std::byte> out(total_);
    const auto put = [&](std::uint64_t at, const void* from, std::size_t size) {
      if (size > 0) std::memcpy(out.data() + at, from, size);
    };
    vitrine_dof_header header{};
    std::memcpy(header.magic,
                "\x7f"
                "DOF",
                sizeof header.magic);
    header.model = static_cast<std::uint8_t>(object_.model);
    header.encoding = VITRINE_DOF_LITTLE_ENDIAN;
    header.version = object_.version;
    header.dif_version = VITRINE_DOF_DIF_VERSION;
    header.dif_int_registers = VITRINE_DOF_REGISTERS;
    header.dif_tuple_registers = VITRINE_DOF_REGISTERS;
    header.header_size = sizeof header;
    header.section_size = sizeof(vitrine_dof_section);
    header.section_count = static_cast<std::uint32_t>(sections_.size());
    header.section_offset = sizeof header;
    header.loadable_size = loadable_;
    header.file_size = total_;
    put(0, &header, sizeof header);
    std::uint64_t at = sizeof header;
    for (const Section& section : sections_) {
      put(at, &section.header, sizeof section.header);
      put(section.header.offset, section.content.data(), section.content.size());
      at += sizeof section.header;
    }
    return out;
  }

  Object& object_;
  StringTable strings_;
  std::vector<Section> sections_;
  std::vector<std::uint32_t> provider_sections_, probe_sections_;  ///< one a provider
  std::uint32_t semaphore_section_ = 0;                            ///< 0: none
  std::uint64_t loadable_ = 0, total_ = 0;
};

/// Takes up to a record's worth of `from`, from `at` on.
std::vector<std::uint32_t> part(const std::vector<std::uint32_t>& from, std::size_t at) {
  const std::size_t begin = std::min(at, from.size());
  const std::size_t end = std::min(begin + limits::dof_record_sites, from.size());
  return {from.begin() + static_cast<std::ptrdiff_t>(begin),
          from.begin() + static_cast<std::ptrdiff_t>(end)};
}

std::size_t sites_of(const Record& record) {
  return std::max(record.offsets.size(), record.enabled_offsets.size());
}

}  // namespace

std::vector<Record> split(const Record& record) {
  std::vector<Record> parts;
  for (std::size_t at = 0; at == 0 || at < sites_of(record); at += limits::dof_record_sites) {
    Record one = record;
    one.offsets = part(record.offsets, at);
    one.enabled_offsets = part(record.enabled_offsets, at);
    parts.push_back(std::move(one));
  }
  return parts;
}

Result<std::vector<std::byte>> write(Object& object) {
  TRY(check(object));
  for (Provider& provider : object.providers) {
    std::vector<Record> records;
    records.reserve(provider.records.size());
    for (Record& record : provider.records)
      if (sites_of(record) <= limits::dof_record_sites)
        records.push_back(std::move(record));
      else
        std::ranges::move(split(record), std::back_inserter(records));
    provider.records = std::move(records);
  }
  return Writer(object).write();
}

std::string function_name(std::string_view symbol) {
  if (symbol.size() <= limits::dof_function_name) return std::string(symbol);
  const auto hash = fnv1a<std::uint32_t>(symbol);
  constexpr std::size_t hash_bytes = 9;  // '~' and 8 digits
  return fmt::format("{}~{:08x}", symbol.substr(0, limits::dof_function_name - hash_bytes), hash);
}

}  // namespace vitrine::dof
