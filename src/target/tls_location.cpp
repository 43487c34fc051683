#include "target/tls_location.hpp"

#include <fmt/format.h>

#include <array>

#include "base/limits.hpp"

namespace vitrine::target {
namespace {

constexpr std::uint64_t unallocated = ~std::uint64_t{0};

// Where a thread keeps the address of its DTV.
Address dtv_slot(Libc libc, Machine machine, Address tp) {
  if (machine == Machine::x86_64) return tp + 8;
  return libc == Libc::musl ? tp - 8 : tp;
}

Result<std::optional<Address>> in_block(std::uint64_t block, std::uint64_t offset) {
  if (block == 0 || block == unallocated) return std::nullopt;
  if (block < limits::lowest_address)
    return fail(ErrorCode::malformed, fmt::format("the DTV names a TLS block at {:#x}", block));
  return block + offset;
}

// glibc: entries of 16 bytes {block, to_free}. The one before the first holds how many there are,
// the first the generation up to which the thread has caught up with dlopen and dlclose.
Result<std::optional<Address>> through_glibc(const DynamicTls& tls, Address dtv, Memory& memory) {
  struct Head {
    std::uint64_t count, padding, generation, padding2;
  };
  const auto head = TRY(memory.read_value<Head>(dtv - 16, "the first word of a DTV"));
  if (tls.module_id > head.count || head.generation < tls.need_generation) return std::nullopt;
  const auto block = TRY(memory.read_value<std::uint64_t>(dtv + 16 * tls.module_id, "a DTV entry"));
  return in_block(block, tls.offset);
}

// musl: words; the first is how many follow.
Result<std::optional<Address>> through_musl(const DynamicTls& tls, Address dtv, Memory& memory) {
  const auto count = TRY(memory.read_value<std::uint64_t>(dtv, "the first word of a DTV"));
  if (tls.module_id > count) return std::nullopt;
  const auto block = TRY(memory.read_value<std::uint64_t>(dtv + 8 * tls.module_id, "a DTV entry"));
  return in_block(block, tls.offset);
}

}  // namespace

Result<std::optional<Address>> evaluate(const TlsLocation& location, Machine machine, Address tp,
                                        Memory& memory) {
  if (const auto* fixed = std::get_if<StaticTls>(&location))
    return tp + static_cast<std::uint64_t>(fixed->offset);
  const auto& tls = std::get<DynamicTls>(location);
  if (tls.module_id == 0 || tls.module_id > limits::modules)
    return fail(ErrorCode::malformed, fmt::format("no such TLS module: {}", tls.module_id));
  const auto dtv =
      TRY(memory.read_value<Address>(dtv_slot(tls.libc, machine, tp), "the DTV pointer"));
  if (dtv == 0) return std::nullopt;
  return tls.libc == Libc::musl ? through_musl(tls, dtv, memory) : through_glibc(tls, dtv, memory);
}

std::string describe(const TlsLocation& location) {
  if (const auto* fixed = std::get_if<StaticTls>(&location))
    return fmt::format("TP{:+#x}", fixed->offset);
  const auto& tls = std::get<DynamicTls>(location);
  return fmt::format("module {} + {:#x} through the DTV ({})", tls.module_id, tls.offset,
                     tls.libc == Libc::musl ? "musl" : "glibc");
}

}  // namespace vitrine::target
