#include "dof/reader.hpp"

#include <algorithm>
#include <map>

#include "dof/header.hpp"
#include "dof/provider_reader.hpp"
#include "dof/relocations.hpp"
#include "dof/sections.hpp"
#include "dof/semaphores.hpp"

namespace vitrine::dof {
namespace {

constexpr std::size_t alignment = 8;

constexpr std::size_t aligned(std::size_t size) {
  return (size + alignment - 1) / alignment * alignment;
}

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
  bool told = false;  // of the bytes at `at`, by what was wrong before them
  for (std::size_t at = 0; at < section.size();) {
    const std::size_t next = find_magic(section, at);
    if (!told && !is_zero(section.subspan(at, next - at)))
      problems.add(Part::header, "the {} bytes at offset {:#x} are not a DOF", next - at, at);
    if (next == section.size()) break;
    at = next;
    const auto header = read_header(section.subspan(at));
    if (!header) {
      problems.add(Part::header, "the DOF at offset {:#x}: {}", at, header.error().message);
      at += alignment;
      told = true;
      continue;
    }
    told = false;
    budget.take(sizeof(Object));
    found.objects.push_back(read_object(section.subspan(at, header->file_size), *header, budget));
    found.objects.back().offset = at;
    at = std::min(section.size(), aligned(at + header->file_size));
    if (budget.exhausted()) break;  // as its problems say
  }
  problems.finish();
  found.decoded_bytes = budget.taken();
  return found;
}

}  // namespace vitrine::dof
