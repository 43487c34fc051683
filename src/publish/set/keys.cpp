#include "publish/set/keys.hpp"

#include <pthread.h>

#include <cstdlib>
#include <cstring>
#include <new>

#if VITRINE_PUBLISH_OTEL
#include "publish/context/publisher.hpp"
#endif
#include "publish/base/local_atomic.hpp"
#include "publish/base/thread.hpp"

namespace vitrine::publish {
namespace {

constexpr std::size_t buckets = 1024;
constexpr std::uint32_t max_id = 65'000;

std::atomic<KeyData*> table[buckets];
pthread_mutex_t table_mutex = PTHREAD_MUTEX_INITIALIZER;
std::uint32_t last_id = span_id_tag;

std::atomic<KeyData*>& bucket_of(std::string_view name) noexcept {
  std::uint64_t hash = 0xcbf29ce484222325;  // FNV-1a
  for (const char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return table[hash % buckets];
}

KeyData* find_in(const std::atomic<KeyData*>& bucket, std::string_view name) noexcept {
  KeyData* key = bucket.load(std::memory_order_acquire);
  while (key != nullptr && key->name() != name) key = key->next;
  return key;
}

/// A trace shows as two labels of fixed names; in the record it has fields of its own.
std::uint16_t reserved_id(std::string_view name) noexcept {
  if (name == trace_id_key) return trace_id_tag;
  if (name == span_id_key) return span_id_tag;
  return 0;
}

#if VITRINE_PUBLISH_OTEL

/// Whether a key may have a tag.otel of `later`.
std::atomic<bool> any_later{false};

std::int16_t otel_index(std::string_view name) noexcept {
  bool later = false;
  if (const auto index = otel_key_index(name, &later)) return *index;
  return later ? KeyData::later : std::int16_t{-1};
}

/// Ends the wait of a key: it may be used by other threads meanwhile, which see one tag or the other.
void know_index(KeyData& key, std::int16_t otel) noexcept {
  std::int16_t expected = KeyData::later;
  __atomic_compare_exchange_n(&key.tag.otel, &expected, otel, false, __ATOMIC_RELAXED,
                              __ATOMIC_RELAXED);
}

/// Puts keys into the key map that it could not take before. Stops at the first that it still cannot
/// take: the others would fare the same.
void retry_later_keys() noexcept {
  // Reset first: a thread that adds one meanwhile sets it again.
  if (!any_later.exchange(false, std::memory_order_acq_rel)) return;
  for (const std::atomic<KeyData*>& bucket : table) {
    for (KeyData* key = bucket.load(std::memory_order_acquire); key != nullptr; key = key->next) {
      if (key->otel() != KeyData::later) continue;
      const std::int16_t otel = otel_index(key->name());
      if (otel == KeyData::later) {
        any_later.store(true, std::memory_order_release);
        return;
      }
      know_index(*key, otel);
    }
  }
}

void note_later_key() noexcept {
  retry_keys_by(retry_later_keys);
  any_later.store(true, std::memory_order_release);
}

#else

std::int16_t otel_index(std::string_view) noexcept {
  return -1;
}
void know_index(KeyData&, std::int16_t) noexcept {}
void retry_later_keys() noexcept {}
void note_later_key() noexcept {}

#endif

}  // namespace

const KeyData* find_key(std::string_view name) noexcept {
  return find_in(bucket_of(name), name);
}

const KeyData* intern(std::string_view name) noexcept {
  if (name.size() > labels::max_key_bytes) return nullptr;
  handle_forks_and_exits();
  retry_later_keys();
  std::atomic<KeyData*>& bucket = bucket_of(name);
  if (const KeyData* known = find_in(bucket, name)) return known;

  const std::uint16_t reserved = reserved_id(name);
  // Before our lock is taken: the key map has one of its own.
  const std::int16_t otel = reserved == 0 ? otel_index(name) : std::int16_t{-1};
  constexpr std::size_t unit = alignof(KeyData);
  const std::size_t bytes = sizeof(KeyData) + (name.size() + unit - 1) / unit * unit;
  void* memory = std::aligned_alloc(unit, bytes);
  if (memory == nullptr) return nullptr;
  std::memset(memory, 0, bytes);

  KeyData* key = nullptr;
  {
    const Lock lock(table_mutex);
    key = find_in(bucket, name);
    if (key == nullptr && last_id < max_id) {
      key = new (memory) KeyData();
      memory = nullptr;
      key->next = bucket.load(std::memory_order_relaxed);
      key->tag = {reserved != 0 ? reserved : static_cast<std::uint16_t>(++last_id), otel};
      key->size = static_cast<std::uint32_t>(name.size());
      if (!name.empty()) std::memcpy(key->bytes, name.data(), name.size());
      bucket.store(key, std::memory_order_release);
    }
  }
  if (otel == KeyData::later)
    note_later_key();
  else if (key != nullptr)
    know_index(*key, otel);  // another thread may have made it, and had less luck
  std::free(memory);
  return key;
}

void lock_keys() noexcept {
  pthread_mutex_lock(&table_mutex);
}

void unlock_keys() noexcept {
  pthread_mutex_unlock(&table_mutex);
}

}  // namespace vitrine::publish

namespace vitrine::labels {

Key::Key(std::string_view name) noexcept : data_(publish::intern(name)) {}

std::string_view Key::name() const noexcept {
  return data_ == nullptr ? std::string_view() : data_->name();
}

}  // namespace vitrine::labels
