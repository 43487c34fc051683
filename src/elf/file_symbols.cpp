#include "elf/file_symbols.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "base/limits.hpp"
#include "elf/file.hpp"
#include "elf/symbol_table.hpp"

namespace vitrine::elf {
namespace {

constexpr std::size_t chunk_bytes = 256 * 1024;
constexpr std::size_t occurrences_max = 4096;  // a linker writes each name once

// Where in the string table each of `names` occurs: st_name → index in `names`. A name may also be
// the tail of a longer one.
Result<std::map<std::uint64_t, std::size_t>> find_strings(Memory& file, const Section& strings,
                                                          std::span<const std::string_view> names) {
  if (strings.size > limits::symbol_name_table)
    return fail(ErrorCode::limit, fmt::format("{} bytes of symbol names", strings.size));
  std::size_t overlap = 0;
  for (const std::string_view name : names) overlap = std::max(overlap, name.size());
  std::map<std::uint64_t, std::size_t> found;
  std::string chunk(chunk_bytes + overlap, '\0');
  for (std::uint64_t first = 0; first < strings.size; first += chunk_bytes) {
    const std::size_t size =
        static_cast<std::size_t>(std::min<std::uint64_t>(chunk.size(), strings.size - first));
    const auto bytes = std::span(chunk).first(size);
    TRY(file.read_exact(strings.offset + first, std::as_writable_bytes(bytes), ".strtab"));
    const std::string_view text(bytes.data(), bytes.size());
    for (std::size_t i = 0; i < names.size(); ++i)
      for (auto at = text.find(names[i]); at != std::string_view::npos;
           at = text.find(names[i], at + 1))
        if (at + names[i].size() < text.size() && text[at + names[i].size()] == '\0' &&
            found.size() < occurrences_max)
          found[first + at] = i;
  }
  return found;
}

}  // namespace

Result<std::vector<std::optional<Symbol>>> find_file_symbols(
    Memory& file, std::span<const std::string_view> names) {
  TRY(read_header(file, 0));
  const auto elf = TRY(read_file(file));
  const auto& sections = elf.sections;
  const auto table = std::find_if(sections.begin(), sections.end(), [](const Section& section) {
    return section.type == SHT_SYMTAB;
  });
  if (table == sections.end()) {
    if (sections.empty() && !elf.problems.empty())
      return fail(ErrorCode::malformed, elf.problems.front());
    return fail(ErrorCode::not_found, "the file has no .symtab");
  }
  if (table->link >= sections.size())
    return fail(ErrorCode::malformed, fmt::format(".symtab links to section {}", table->link));
  const auto strings = TRY(find_strings(file, sections[table->link], names));

  const std::uint64_t count = table->size / symbol_bytes(elf.encoding);
  if (count > limits::symbols) return fail(ErrorCode::limit, fmt::format("{} symbols", count));
  std::vector<std::optional<Symbol>> found(names.size());
  if (strings.empty()) return found;
  TRY(visit_symbols(file, elf, *table, count, [&](std::size_t index, const TableSymbol& one) {
    const auto name = strings.find(one.name);
    if (name == strings.end() || one.section == SHN_UNDEF) return;
    auto& slot = found[name->second];
    if (!slot || slot->binding == STB_LOCAL)
      slot = Symbol{static_cast<std::uint32_t>(index),
                    one.value,
                    one.size,
                    one.type,
                    one.binding,
                    one.section,
                    one.visibility};
  }));
  return found;
}

}  // namespace vitrine::elf
