// Structures of this layer as base/pack.hpp has them.
#pragma once

#include "dof/packed.hpp"
#include "elf/packed.hpp"
#include "probe/argument.hpp"
#include "probe/dof_probes.hpp"
#include "probe/probe.hpp"

namespace vitrine::probe {

constexpr Kind last(Kind) {
  return Kind::function;
}
constexpr ValueKind last(ValueKind) {
  return ValueKind::bytes;
}
constexpr SiteUse last(SiteUse) {
  return SiteUse::enabled_pointer;
}
constexpr ArgumentError::Kind last(ArgumentError::Kind) {
  return ArgumentError::Kind::unsupported;
}

template <pack::Of<Enumerator> T>
auto fields(T& enumerator) {
  auto& [value, name] = enumerator;
  return std::tie(value, name);
}

template <pack::Of<ArgumentType> T>
auto fields(T& described) {
  auto& [name, type, kind, argument, length_argument, enumerators] = described;
  return std::tie(name, type, kind, argument, length_argument, enumerators);
}

template <pack::Of<Site> T>
auto fields(T& site) {
  auto& [address, file_offset, use, verified, is_stub, semaphore, semaphore_offset, counted_first,
         arguments, types, function, demangled, problems, at_return, is_exit, risk] = site;
  return std::tie(address, file_offset, use, verified, is_stub, semaphore, semaphore_offset,
                  counted_first, arguments, types, function, demangled, problems, at_return,
                  is_exit, risk);
}

template <pack::Of<Probe> T>
auto fields(T& probe) {
  auto& [kind, provider, name, sites, enabled_sites, patterns] = probe;
  return std::tie(kind, provider, name, sites, enabled_sites, patterns);
}

template <pack::Of<ArgumentError> T>
auto fields(T& error) {
  auto& [kind, message] = error;
  return std::tie(kind, message);
}

template <pack::Of<PlacedDof> T>
auto fields(T& placed) {
  auto& [object, address, file_offset, dynamic_relocations, relocations] = placed;
  return std::tie(object, address, file_offset, dynamic_relocations, relocations);
}

template <pack::Of<DofFile> T>
auto fields(T& file) {
  auto& [dofs, content_elsewhere, searched, problems] = file;
  return std::tie(dofs, content_elsewhere, searched, problems);
}

}  // namespace vitrine::probe

template <vitrine::pack::Of<vitrine_operand> T>
auto fields(T& operand) {
  auto& [kind, flags, size, shift, base, index, scale, extend, displacement] = operand;
  return std::tie(kind, flags, size, shift, base, index, scale, extend, displacement);
}
