#include "observe/presumed_definitions.hpp"

#include <elf.h>

#include <array>

#include "abi/custom_labels.hpp"
#include "abi/thread_context.hpp"
#include "observe/executable_symbols.hpp"
#include "target/tls_arithmetic.hpp"

namespace vitrine::observe {
namespace {

struct Slot {
  std::string_view symbol;
  format::Format format;
};

constexpr std::array<Slot, 3> slots{{
    {abi::custom_labels::v1_slot_symbol, format::Format::custom_labels_v1},
    {abi::custom_labels::v0_slot_symbol, format::Format::custom_labels_v0},
    {abi::thread_context::slot_symbol, format::Format::otel_thread_ctx_v1},
}};

}  // namespace

std::vector<Definition> presumed_definitions(file::FileMemory& file) {
  std::array<std::string_view, slots.size()> names;
  for (std::size_t i = 0; i < slots.size(); ++i) names[i] = slots[i].symbol;
  const auto facts = read_executable(file, names);
  if (!facts || !facts->tls || !facts->symbols) return {};
  std::vector<Definition> definitions;
  for (std::size_t i = 0; i < slots.size(); ++i) {
    const auto& symbol = (*facts->symbols)[i];
    if (!symbol || symbol->type != STT_TLS) continue;
    Definition definition;
    definition.format = slots[i].format;
    definition.location = target::StaticTls{
        target::executable_tls_offset(native_machine, *facts->tls, symbol->value)};
    definitions.push_back(std::move(definition));
  }
  return definitions;
}

}  // namespace vitrine::observe
