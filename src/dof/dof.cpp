#include "dof/dof.hpp"

#include <fmt/format.h>

#include <span>

namespace vitrine::dof {
namespace {

std::string name_of(std::span<const std::string_view> names, std::uint8_t number) {
  return number < names.size() ? std::string(names[number]) : std::to_string(number);
}

}  // namespace

std::string name(const Stability& stability) {
  return fmt::format("{}/{}/{}", name_of(stability_names, stability.name),
                     name_of(stability_names, stability.data),
                     name_of(dependency_class_names, stability.dependency_class));
}

namespace {

std::optional<std::uint64_t> unless_left_out(Model model, std::uint64_t address,
                                             Placement placement) {
  const std::uint64_t base = wrapped(model, address);
  if (base == 0 || base == wrapped(model, placement.header)) return std::nullopt;
  return base;
}

}  // namespace

std::uint64_t wrapped(Model model, std::uint64_t address) {
  return model == Model::ilp32 ? address & UINT32_MAX : address;
}

std::optional<std::uint64_t> function_address(const Object& object, const Record& record,
                                              Placement placement) {
  switch (record.relocation) {
    case Relocation::own_address:
      if (wrapped(object.model, record.word) == 0) return std::nullopt;  // the word is no function
      return unless_left_out(object.model, record.word + placement.header + record.word_offset,
                             placement);
    case Relocation::load_base:
      if (wrapped(object.model, record.word) == 0) return std::nullopt;
      return unless_left_out(object.model, record.word + placement.load_base, placement);
    case Relocation::none:
      break;
  }
  return unless_left_out(object.model, record.word, placement);
}

std::uint64_t site_address(Model model, std::uint64_t function, std::uint32_t offset) {
  return wrapped(model, function + offset);
}

std::optional<std::uint64_t> semaphore_address(const Object& object, const Semaphore& semaphore,
                                               Placement placement) {
  return unless_left_out(object.model, semaphore.word + placement.header + semaphore.word_offset,
                         placement);
}

}  // namespace vitrine::dof
