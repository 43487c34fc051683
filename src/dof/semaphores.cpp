#include "dof/semaphores.hpp"

#include "dof/provider_reader.hpp"

namespace vitrine::dof {

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

}  // namespace vitrine::dof
