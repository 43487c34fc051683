#include "target/glibc.hpp"

#include <fmt/format.h>

#include <array>
#include <string_view>

#include "base/limits.hpp"
#include "elf/symbols.hpp"

namespace vitrine::target {
namespace {

constexpr std::uint64_t forced_dynamic = ~std::uint64_t{0};
constexpr std::uint64_t structure_max = 64 * 1024;  // no structure of glibc is near that
constexpr std::size_t slot_lists_max = 1024;

enum Descriptor : std::size_t {
  link_map_tls_id,
  link_map_tls_offset,
  pthread_tid,
  sizeof_pthread,
  global_slots,
  list_length,
  list_next,
  list_slots,
  sizeof_slot,
  slot_generation,
  slot_map,
  descriptor_count,
};

constexpr std::array<std::string_view, descriptor_count> descriptor_names{
    "_thread_db_link_map_l_tls_modid",
    "_thread_db_link_map_l_tls_offset",
    "_thread_db_pthread_tid",
    "_thread_db_sizeof_pthread",
    "_thread_db_rtld_global__dl_tls_dtv_slotinfo_list",
    "_thread_db_dtv_slotinfo_list_len",
    "_thread_db_dtv_slotinfo_list_next",
    "_thread_db_dtv_slotinfo_list_slotinfo",
    "_thread_db_sizeof_dtv_slotinfo",
    "_thread_db_dtv_slotinfo_gen",
    "_thread_db_dtv_slotinfo_map",
};

// A member's descriptor is {u32 bits, u32 count, u32 offset}, a size's is one u32. Both end in the
// number wanted.
std::optional<std::uint64_t> number(Memory& memory, const Module& module,
                                    const std::optional<elf::Symbol>& symbol) {
  if (!symbol || symbol->size < 4) return std::nullopt;
  const auto value = memory.read_value<std::uint32_t>(
      module.image.bias + symbol->value + symbol->size - 4, "a descriptor of libc");
  return value && *value < structure_max ? std::optional<std::uint64_t>(*value) : std::nullopt;
}

using Numbers = std::array<std::uint64_t, descriptor_count>;

std::optional<Numbers> read_descriptors(Memory& memory, const Module& module) {
  const auto symbols = elf::find_symbols(memory, *module.dynamic, descriptor_names);
  if (!symbols) return std::nullopt;
  Numbers numbers{};
  for (std::size_t i = 0; i < descriptor_count; ++i) {
    const auto value = number(memory, module, (*symbols)[i]);
    if (!value) return std::nullopt;
    numbers[i] = *value;
  }
  return numbers;
}

Address find_rtld_global(Memory& memory, std::span<const Module> modules) {
  for (const Module& module : modules)
    if (module.dynamic && !module.executable)
      if (const auto symbol = elf::find_symbol(memory, *module.dynamic, "_rtld_global");
          symbol && *symbol)
        return module.image.bias + (*symbol)->value;
  return 0;
}

}  // namespace

std::optional<Glibc> Glibc::find(Memory& memory, std::span<const Module> modules) {
  for (const Module& module : modules) {
    if (!module.dynamic || module.executable) continue;
    const auto numbers = read_descriptors(memory, module);
    if (!numbers) continue;
    Glibc glibc;
    glibc.link_map_tls_id_ = (*numbers)[link_map_tls_id];
    glibc.link_map_tls_offset_ = (*numbers)[link_map_tls_offset];
    glibc.thread_ = {(*numbers)[pthread_tid], (*numbers)[sizeof_pthread]};
    glibc.list_length_ = (*numbers)[list_length];
    glibc.list_next_ = (*numbers)[list_next];
    glibc.list_slots_ = (*numbers)[list_slots];
    glibc.slot_size_ = (*numbers)[sizeof_slot];
    glibc.slot_generation_ = (*numbers)[slot_generation];
    glibc.slot_map_ = (*numbers)[slot_map];
    if (const Address global = find_rtld_global(memory, modules))
      glibc.slots_ = global + (*numbers)[global_slots];
    return glibc;
  }
  return std::nullopt;
}

Result<GlibcTls> Glibc::tls_of(Memory& memory, const Module& module) const {
  if (module.link_map == 0)
    return fail(ErrorCode::malformed, fmt::format("{} has no link_map", module.path));
  std::array<std::uint64_t, 2> words{};
  std::array<ReadRequest, 2> requests{
      ReadRequest{module.link_map + link_map_tls_id_,
                  std::as_writable_bytes(std::span(&words[0], 1)), 0},
      ReadRequest{module.link_map + link_map_tls_offset_,
                  std::as_writable_bytes(std::span(&words[1], 1)), 0}};
  memory.read(requests);
  if (!requests[0].complete() || !requests[1].complete())
    return fail(ErrorCode::malformed, fmt::format("the link_map of {} at {:#x} is not readable",
                                                  module.path, module.link_map));
  GlibcTls tls{words[0], std::nullopt};
  if (words[1] != 0 && words[1] != forced_dynamic) tls.static_offset = words[1];
  return tls;
}

Result<Glibc::Slot> Glibc::slot(Memory& memory, std::uint64_t module_id) const {
  const auto none = [&] {
    return fail(ErrorCode::not_found, fmt::format("glibc lists no TLS module {}", module_id));
  };
  if (slots_ == 0 || slot_size_ == 0) return none();
  auto list = TRY(memory.read_value<Address>(slots_, "_dl_tls_dtv_slotinfo_list"));
  std::uint64_t index = module_id;
  for (std::size_t i = 0; i < slot_lists_max && list != 0; ++i) {
    const auto length =
        TRY(memory.read_value<std::uint64_t>(list + list_length_, "a slotinfo list"));
    if (index < length) {
      if (index > limits::modules) return none();
      const Address entry = list + list_slots_ + index * slot_size_;
      const auto generation =
          TRY(memory.read_value<std::uint64_t>(entry + slot_generation_, "a slotinfo entry"));
      const auto map = TRY(memory.read_value<Address>(entry + slot_map_, "a slotinfo entry"));
      return Slot{generation, entry + slot_generation_, map};
    }
    index -= length;
    list = TRY(memory.read_value<Address>(list + list_next_, "a slotinfo list"));
  }
  return none();
}

}  // namespace vitrine::target
