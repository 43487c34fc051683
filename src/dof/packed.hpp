// Structures of this layer as base/pack.hpp has them.
#pragma once

#include "base/pack.hpp"
#include "dof/dof.hpp"

namespace vitrine::dof {

constexpr Model last(Model) {
  return Model::lp64;
}
constexpr Relocation last(Relocation) {
  return Relocation::own_address;
}
constexpr Part last(Part) {
  return Part::size;
}

template <pack::Of<Stability> T>
auto fields(T& stability) {
  auto& [name, data, dependency_class] = stability;
  return std::tie(name, data, dependency_class);
}

template <pack::Of<Stabilities> T>
auto fields(T& stabilities) {
  auto& [provider, module, function, name, args] = stabilities;
  return std::tie(provider, module, function, name, args);
}

template <pack::Of<Prototype> T>
auto fields(T& prototype) {
  auto& [native, translated, argument_map] = prototype;
  return std::tie(native, translated, argument_map);
}

template <pack::Of<Record> T>
auto fields(T& record) {
  auto& [name, function, demangled, prototype, offsets, enabled_offsets, word, word_offset,
         relocation] = record;
  return std::tie(name, function, demangled, prototype, offsets, enabled_offsets, word, word_offset,
                  relocation);
}

template <pack::Of<Semaphore> T>
auto fields(T& semaphore) {
  auto& [name, word, word_offset] = semaphore;
  return std::tie(name, word, word_offset);
}

template <pack::Of<Provider> T>
auto fields(T& provider) {
  auto& [name, stabilities, records, semaphores] = provider;
  return std::tie(name, stabilities, records, semaphores);
}

template <pack::Of<Problem> T>
auto fields(T& problem) {
  auto& [part, text] = problem;
  return std::tie(part, text);
}

template <pack::Of<Object> T>
auto fields(T& object) {
  auto& [model, version, offset, loadable_size, file_size, providers, problems] = object;
  return std::tie(model, version, offset, loadable_size, file_size, providers, problems);
}

}  // namespace vitrine::dof
