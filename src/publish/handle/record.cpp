#include "publish/handle/record.hpp"

#if VITRINE_PUBLISH_OTEL

#include <atomic>
#include <cstdlib>
#include <cstring>

#include "publish/set/block_layout.hpp"
#include "publish/set/keys.hpp"

namespace vitrine::publish {
namespace {

std::atomic<bool> wanted_records{false};

__attribute__((constructor)) void look_into_environment() {
  const char* value = secure_getenv("VITRINE_THREAD_CONTEXT");
  if (value != nullptr && std::strcmp(value, "1") == 0) want_records(true);
}

/// An id as other writers have it (its bytes), or as we do (hex digits). Otherwise it stays zero: as
/// many hex digits as an id has bytes are the text of a shorter one.
template <std::size_t N>
void take_id(std::uint8_t (&id)[N], std::string_view value) noexcept {
  std::size_t digits = 0;
  while (digits < value.size() && hex_digit(value[digits]) >= 0) ++digits;
  if (value.size() == N && digits != N) {
    std::memcpy(id, value.data(), N);
  } else if (value.size() == 2 * N && digits == 2 * N) {
    for (std::size_t i = 0; i < N; ++i)
      id[i] = static_cast<std::uint8_t>(hex_digit(value[2 * i]) << 4 | hex_digit(value[2 * i + 1]));
  }
}

void write_record(HandleRecord& record, const Version& version) noexcept {
  std::memset(record.head.trace_id, 0, sizeof record.head.trace_id);
  std::memset(record.head.span_id, 0, sizeof record.head.span_id);
  record.head.trace_flags = 0;
  std::size_t used = 0;
  for (std::size_t i = 0; i < version.count; ++i) {
    const Label& label = version.labels()[i];
    const std::string_view name(reinterpret_cast<const char*>(label.key.buf), label.key.len);
    const std::string_view value(reinterpret_cast<const char*>(label.value.buf), label.value.len);
    if (name == trace_id_key) {
      take_id(record.head.trace_id, value);
    } else if (name == span_id_key) {
      take_id(record.head.span_id, value);
    } else if (const KeyData* key = intern(name)) {
      const std::int16_t index = key->otel();
      if (index < 0 || !fits_record(value, used, sizeof record.attributes)) continue;
      const std::size_t size = attribute_size(value);
      char* to = record.attributes + used;
      to[0] = static_cast<char>(index);
      to[1] = static_cast<char>(size);
      copy_bytes(to + 2, value.data(), size);
      used += 2 + size;
    }
  }
  record.head.attrs_size = static_cast<std::uint16_t>(used);
}

void set_valid(HandleRecord& record, std::uint8_t valid) noexcept {
  labels::detail::store_fence();
  __atomic_store_n(&record.head.valid, valid, __ATOMIC_RELAXED);
  labels::detail::store_fence();
}

}  // namespace

bool records_wanted() noexcept {
  return wanted_records.load(std::memory_order_relaxed);
}

void want_records(bool wanted) noexcept {
  wanted_records.store(wanted, std::memory_order_relaxed);
  Thread& self = thread_once();
  if (wanted) clear_cells(self, cells_here(self));
}

void refresh(HandleRecord& record, Handle& handle, const Cells* here) noexcept {
  if (record.busy) return;
  bool current = false;
  while (!current) {
    record.busy = true;
    local_fence();
    Version* version = hold_version(handle, here);
    set_valid(record, 0);
    if (version != nullptr) {
      write_record(record, *version);
      set_valid(record, 1);
    }
    local_fence();
    record.busy = false;
    local_fence();
    if (version == nullptr) return;
    // From here on a handler that changes the handle writes the record itself.
    current = handle.storage() == version->storage();
    version->let_go(here);
  }
}

void end_record(Handle& handle) noexcept {
  if (HandleRecord* record = record_of(handle)) set_valid(*record, 0);
}

}  // namespace vitrine::publish

#endif
