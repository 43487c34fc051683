// Structures of this layer as base/pack.hpp has them.
#pragma once

#include "base/pack.hpp"
#include "elf/file.hpp"
#include "elf/image.hpp"
#include "elf/relocations.hpp"
#include "elf/symbols.hpp"

namespace vitrine::elf {

template <pack::Of<Encoding> T>
auto fields(T& encoding) {
  auto& [wide, big_endian] = encoding;
  return std::tie(wide, big_endian);
}

template <pack::Of<Segment> T>
auto fields(T& segment) {
  auto& [type, flags, offset, address, file_size, memory_size, alignment] = segment;
  return std::tie(type, flags, offset, address, file_size, memory_size, alignment);
}

template <pack::Of<TlsSegment> T>
auto fields(T& segment) {
  auto& [vaddr, size, alignment] = segment;
  return std::tie(vaddr, size, alignment);
}

template <pack::Of<Symbol> T>
auto fields(T& symbol) {
  auto& [index, value, size, type, binding, section, visibility] = symbol;
  return std::tie(index, value, size, type, binding, section, visibility);
}

template <pack::Of<NamedFunction> T>
auto fields(T& function) {
  auto& [name, start] = function;
  return std::tie(name, start);
}

template <pack::Of<DynamicRelocation> T>
auto fields(T& relocation) {
  auto& [where, type, value] = relocation;
  return std::tie(where, type, value);
}

template <pack::Of<SectionRelocation> T>
auto fields(T& relocation) {
  auto& [offset, type, symbol, addend] = relocation;
  return std::tie(offset, type, symbol, addend);
}

}  // namespace vitrine::elf
