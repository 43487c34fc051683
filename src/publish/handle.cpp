#include "publish/handle.hpp"

#include <algorithm>
#include <cerrno>
#include <new>

#include "publish/bytes.hpp"
#include "publish/thread.hpp"

namespace vitrine::publish {
namespace {

constexpr std::size_t longest = 64 * 1024;
constexpr std::size_t fewest_slots = 4;

/// Where empty values point: the ABI has no null ones.
const unsigned char no_bytes[1] = {0};

bool same_key(String a, String b) noexcept {
  return a.len == b.len && equal_bytes(reinterpret_cast<const char*>(a.buf),
                                       reinterpret_cast<const char*>(b.buf), a.len);
}

struct PinnedMemory {
  void* memory;
  Page* page;
};

PinnedMemory claim_pinned(std::size_t bytes) noexcept {
  Arena* arena = arena_of(thread());
  if (arena == nullptr) return {nullptr, nullptr};
  const Claim claimed = claim(*arena, bytes);
  if (claimed.memory == nullptr) return {nullptr, nullptr};
  claimed.page->pin();
  close_use(*claimed.page, arena);
  return {claimed.memory, claimed.page};
}

/// Calls `visit` for each label that `base` has after `change`.
template <class Visit>
void each_label(const Label* base, std::size_t count, Edit change, Visit&& visit) noexcept {
  for (std::size_t i = 0; i < count; ++i) {
    if (base[i].key.buf != nullptr &&
        find_label(change.labels, change.count, base[i].key) == nullptr)
      visit(base[i]);
  }
  for (std::size_t i = 0; i < change.count; ++i) {
    const Label& label = change.labels[i];
    if (label.value.buf != removed &&
        find_label(change.labels + i + 1, change.count - i - 1, label.key) == nullptr)
      visit(label);
  }
}

struct NewArray {
  int error;
  Array* array;  ///< pinned once
};

/// `base` after `change`, in at least `slots` slots.
NewArray make_array(const Label* base, std::size_t count, Edit change, std::size_t slots) noexcept {
  std::size_t labels = 0, bytes = 0;
  each_label(base, count, change, [&](const Label& label) {
    ++labels;
    bytes += label.key.len + label.value.len;
  });
  if (slots < labels) slots = labels;
  const std::size_t total = sizeof(Array) + slots * sizeof(Label) + bytes;
  if (labels > labels::max_labels || total > large_block_max) return {EMSGSIZE, nullptr};
  const PinnedMemory claimed = claim_pinned(total);
  if (claimed.memory == nullptr) return {ENOMEM, nullptr};

  auto* array = ::new (claimed.memory) Array{claimed.page, slots};
  labels::detail::store_fence();
  Label* to = array->labels();
  auto* string = reinterpret_cast<char*>(to + slots);
  const auto copy = [&](String from) {
    copy_bytes(string, reinterpret_cast<const char*>(from.buf), from.len);
    const auto* kept = reinterpret_cast<const unsigned char*>(string);
    string += from.len;
    return String{from.len, from.len == 0 ? no_bytes : kept};
  };
  each_label(base, count, change, [&](const Label& label) {
    const String key = copy(label.key);
    *to++ = {key, copy(label.value)};
  });
  for (Label* end = array->labels() + slots; to != end; ++to) *to = {{0, nullptr}, {0, nullptr}};
  labels::detail::store_fence();
  return {0, array};
}

std::uint64_t storage_of(Array* array) noexcept {
  return reinterpret_cast<std::uint64_t>(array->labels());
}

bool swap_storage(Handle& handle, Array* from, Array* to) noexcept {
  std::uint64_t expected = storage_of(from);
  return __atomic_compare_exchange_n(&handle.set.storage, &expected, storage_of(to), false,
                                     __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE);
}

/// The array in use, pinned once more.
Array* pin_storage(Handle& handle) noexcept {
  while (true) {
    const std::uint64_t storage = __atomic_load_n(&handle.set.storage, __ATOMIC_ACQUIRE);
    Array* array = Array::of(storage);
    Page* page = __atomic_load_n(&array->page, __ATOMIC_RELAXED);
    if (__atomic_load_n(&handle.set.storage, __ATOMIC_ACQUIRE) != storage) continue;
    page->pin();
    if (__atomic_load_n(&handle.set.storage, __ATOMIC_ACQUIRE) == storage) return array;
    page->unpin();  // a handler changed the set in between
  }
}

/// Lets observers see as many slots as every array from now on has.
void raise_count(Handle& handle, std::uint64_t slots) noexcept {
  std::uint64_t count = __atomic_load_n(&handle.set.count, __ATOMIC_RELAXED);
  while (count < slots && !__atomic_compare_exchange_n(&handle.set.count, &count, slots, false,
                                                       __ATOMIC_RELEASE, __ATOMIC_RELAXED)) {
  }
}

/// Takes `array`, pinned for us, over into the handle in place of `before`, pinned for us as well.
/// False: a handler was quicker; both pins are given back.
bool install(Handle& handle, Array* before, Array* array) noexcept {
  array->page->pin();  // the handle's
  if (!swap_storage(handle, before, array)) {
    before->page->unpin();
    array->page->unpin();
    array->page->unpin();
    return false;
  }
  before->page->unpin();  // the handle's; ours remains
  return true;
}

void release(Handle& handle) noexcept {
  Array::of(handle.set.storage)->page->unpin();
  handle.magic = 0;
  handle.page->unpin();
}

}  // namespace

const unsigned char removed[1] = {0};

int check_key(String key) noexcept {
  if (key.buf == nullptr) return EINVAL;
  return key.len > longest ? EMSGSIZE : 0;
}

int check_value(String value) noexcept {
  if (value.buf == nullptr && value.len != 0) return EINVAL;
  return value.len > longest ? EMSGSIZE : 0;
}

const Label* find_label(const Label* labels, std::size_t count, String key) noexcept {
  for (std::size_t i = 0; i < count; ++i) {
    if (labels[i].key.buf != nullptr && same_key(labels[i].key, key)) return &labels[i];
  }
  return nullptr;
}

Handle* handle_of(const void* set) noexcept {
  const auto address = reinterpret_cast<std::uint64_t>(set);
  if (address == 0 || address % 64 != 0) return nullptr;
  auto* handle = reinterpret_cast<Handle*>(address);
  return handle->magic == Handle::handle_magic ? handle : nullptr;
}

Handle* make_handle(labels::detail::Entries from, std::size_t slots) noexcept {
  const NewArray made = make_array(reinterpret_cast<const Label*>(from.data), from.size,
                                   {nullptr, 0}, slots < fewest_slots ? fewest_slots : slots);
  if (made.array == nullptr) {
    errno = made.error;
    return nullptr;
  }
  const PinnedMemory claimed = claim_pinned(sizeof(Handle));
  if (claimed.memory == nullptr) {
    made.array->page->unpin();
    errno = ENOMEM;
    return nullptr;
  }
  auto* handle = ::new (claimed.memory) Handle{};
  handle->set = {storage_of(made.array), made.array->slots, made.array->slots};
  handle->magic = Handle::handle_magic;
  handle->page = claimed.page;
  return handle;
}

void free_handle(Handle& handle) noexcept {
  if (handle.uses.fetch_or(Handle::freed, std::memory_order_acq_rel) == 0) release(handle);
}

void hold(Words words) noexcept {
  if (Handle* handle = handle_of(reinterpret_cast<const void*>(words[1])))
    handle->uses.fetch_add(1, std::memory_order_relaxed);
}

void let_go(Words words) noexcept {
  Handle* handle = handle_of(reinterpret_cast<const void*>(words[1]));
  if (handle == nullptr) return;
  std::uint32_t uses = handle->uses.load(std::memory_order_relaxed);
  do {
    // A program that assigns to custom_labels_current_set itself is not counted.
    if ((uses & ~Handle::freed) == 0) return;
  } while (!handle->uses.compare_exchange_weak(uses, uses - 1, std::memory_order_acq_rel));
  if (uses - 1 == Handle::freed) release(*handle);
}

Edited edit(Handle& handle, Edit change) noexcept {
  while (true) {
    Array* before = pin_storage(handle);
    raise_count(handle, before->slots);  // a handler may have come before whoever installed it did
    const NewArray made = make_array(before->labels(), before->slots, change,
                                     static_cast<std::size_t>(before->slots));
    if (made.array == nullptr) {
      before->page->unpin();
      return {made.error, nullptr, nullptr};
    }
    if (made.array->slots > before->slots) {
      // Room first, which changes nothing that an observer sees; then the labels.
      const std::size_t room = std::max<std::size_t>(
          made.array->slots, std::min<std::size_t>(2 * before->slots, labels::max_labels));
      made.array->page->unpin();
      const NewArray wider = make_array(before->labels(), before->slots, {nullptr, 0}, room);
      if (wider.array == nullptr) {
        before->page->unpin();
        return {wider.error, nullptr, nullptr};
      }
      if (!install(handle, before, wider.array)) continue;
      before->page->unpin();
      wider.array->page->unpin();
      continue;
    }
    if (install(handle, before, made.array)) return {0, before, made.array};
  }
}

bool put_back(Handle& handle, const Edited& edited) noexcept {
  if (edited.before->slots < handle.set.count) return false;
  edited.before->page->pin();  // for the handle
  if (swap_storage(handle, edited.after, edited.before)) {
    edited.after->page->unpin();  // the handle's
    return true;
  }
  edited.before->page->unpin();
  return false;
}

}  // namespace vitrine::publish
