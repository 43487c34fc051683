#include "publish/handle/handle.hpp"

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <new>

#include "publish/base/local_atomic.hpp"
#include "publish/handle/record.hpp"

namespace vitrine::publish {
namespace {
/// False: a handler changed the handle meanwhile.
inline bool swap_version(Handle& handle, const Version& from, const Version& to) noexcept {
  labels::detail::store_fence();
  sanitizer_release(&handle.now.first);
  // Where the count stays, one word is enough.
  if (from.count == to.count)
    return local_compare_exchange(handle.now.first, from.storage(), to.storage());
  return local_compare_exchange(handle.now, {from.storage(), from.count}, {to.storage(), to.count});
}

/// A version that the running thread works on. Its own are not used again while the operation is
/// under way, so nothing needs to be counted.
class Base {
 public:
  Base(const Handle& handle, const Work& work) noexcept : work_(work) {
    const std::uint64_t storage = handle.storage();
    if (storage != 0) version_ = Version::of(storage);
    if (__builtin_expect(storage != 0 && version_->owner != &work.cells(), 0)) {
      version_ = hold_version(handle, &work.cells());
      // The version held may by now be one of this thread's.
      held_ = version_ != nullptr;
    }
  }
  Base(const Base&) = delete;
  Base& operator=(const Base&) = delete;
  ~Base() {
    if (__builtin_expect(held_, 0)) version_->let_go(&work_.cells());
  }
  [[nodiscard]] Version* get() const noexcept { return version_; }

 private:
  const Work& work_;
  Version* version_ = nullptr;
  bool held_ = false;
};

/// Makes versions until one takes the place of what it was made from, and calls
/// `done(before, after)`.
template <class Done>
inline int change_handle(Handle& handle, const Work& work, Edit change, String* old_value,
                         Done&& done) noexcept {
  while (true) {
    const Base base(handle, work);
    Version* before = base.get();
    if (before == nullptr) return EINVAL;  // it was freed
    if (__builtin_expect(old_value != nullptr, 0)) {
      *old_value = {0, nullptr};
      if (const Label* old = find_label(before->labels(), before->count, change.labels[0].key)) {
        *old_value = copy_for_caller(old->value);
        if (old_value->buf == nullptr) return ENOMEM;
      }
    }
    const Made made = make_successor(work, *before, change);
    if (__builtin_expect(made.version != nullptr, 1) &&
        __builtin_expect(swap_version(handle, *before, *made.version), 1)) {
      done(before, made.version);
      return 0;
    }
    if (made.version != nullptr) give_back(made.version, &work);
    if (old_value != nullptr) std::free(const_cast<unsigned char*>(old_value->buf));
    if (made.version == nullptr) {
      if (old_value != nullptr) *old_value = {0, nullptr};
      return made.error;
    }
  }
}

Handle* new_handle(const Work& work, Version* version, std::size_t capacity) noexcept {
  Cell* cell = take(work, records_wanted() ? record_handle_class : handle_class);
  if (cell == nullptr) {
    give_back(version, &work);
    errno = ENOMEM;
    return nullptr;
  }
  auto* handle = reinterpret_cast<Handle*>(reinterpret_cast<char*>(cell) - offsetof(Handle, cell));
  cell->freed = false;
  handle->capacity = capacity;
  labels::detail::store_fence();
  sanitizer_release(&handle->now.first);
  __atomic_store_n(&handle->now.second, version->count, __ATOMIC_RELAXED);
  __atomic_store_n(&handle->now.first, version->storage(), __ATOMIC_RELEASE);
  __atomic_store_n(&handle->magic, Handle::handle_magic, __ATOMIC_RELEASE);
  refresh_record(*handle, &work.cells());
  return handle;
}

}  // namespace

Version* hold_version(const Handle& handle, const Cells* here) noexcept {
  while (true) {
    const std::uint64_t storage = handle.storage();
    if (storage == 0) return nullptr;
    Version* version = Version::of(storage);
    version->hold(here);
    if (handle.storage() == storage) return version;
    version->let_go(here);
  }
}

Handle* make_handle(labels::detail::Entries from, std::size_t capacity) noexcept {
  Cells* cells = cells_of(thread_once());
  if (cells == nullptr) {
    errno = ENOMEM;
    return nullptr;
  }
  const Work work(*cells);
  const Made made =
      make_version(work, reinterpret_cast<const Label*>(from.data), from.size, {nullptr, 0});
  if (made.version == nullptr) {
    errno = made.error;
    return nullptr;
  }
  return new_handle(work, made.version, capacity);
}

Handle* copy_handle(const Handle& from, std::size_t capacity) noexcept {
  Cells* cells = cells_of(thread_once());
  if (cells == nullptr) {
    errno = ENOMEM;
    return nullptr;
  }
  const Work work(*cells);
  const Base base(from, work);
  const Version* version = base.get();
  if (version == nullptr) return make_handle({nullptr, 0}, capacity);
  auto* copy = static_cast<Version*>(take(work, version->size_class));
  if (copy == nullptr) {
    errno = ENOMEM;
    return nullptr;
  }
  copy_whole(*version, *copy, strings_of(*copy, version->count));
  copy->layout = version->owner == cells ? version->layout : new_layout(work);
  copy->count = version->count;
  copy->used = version->used;
  copy->live = version->live;
  return new_handle(work, copy, capacity);
}

void free_handle(Handle& handle) noexcept {
  if (__atomic_exchange_n(&handle.cell.freed, true, __ATOMIC_RELAXED)) return;
  Cells* cells = cells_here(thread_once());
  if (cells == nullptr) return give_back(&handle.cell, nullptr);
  const Work work(*cells);
  give_back(&handle.cell, &work);
}

/// Ends a handle without holders. A thread to whose slot the program assigned it may still look
/// here: it finds no labels.
Cell* detach(Cell& cell) noexcept {
  auto* handle = reinterpret_cast<Handle*>(reinterpret_cast<char*>(&cell) - offsetof(Handle, cell));
  __atomic_store_n(&handle->magic, Handle::ended_magic, __ATOMIC_RELAXED);
  end_record(*handle);
  while (true) {
    const std::uint64_t storage = handle->storage();
    const std::uint64_t count = __atomic_load_n(&handle->now.second, __ATOMIC_RELAXED);
    if (storage == 0) return nullptr;
    if (local_compare_exchange(handle->now, {storage, count}, {0, 0})) return Version::of(storage);
  }
}

int edit(Handle& handle, Edit change, String* old_value) noexcept {
  Cells* cells = cells_of(thread_once());
  if (cells == nullptr) return ENOMEM;
  const Work work(*cells);
  const int error = change_handle(handle, work, change, old_value,
                                  [&](Version* before, Version*) { give_back(before, &work); });
  if (error == 0) refresh_record(handle, cells);
  return error;
}

int set_label(Handle& handle, String key, String value, String* old_value) noexcept {
  const Label label{key, value};
  return edit(handle, {&label, 1}, old_value);
}

Edited edit_for_now(Handle& handle, Edit change) noexcept {
  Cells* cells = cells_of(thread_once());
  if (cells == nullptr) return {ENOMEM, nullptr, nullptr};
  const Work work(*cells);
  Edited edited{0, nullptr, nullptr};
  edited.error = change_handle(handle, work, change, nullptr, [&](Version* before, Version* after) {
    after->hold(cells);
    edited.before = before;
    edited.after = after;
  });
  if (edited.error == 0) refresh_record(handle, cells);
  return edited;
}

int undo(Handle& handle, const Edited& edited, Edit change) noexcept {
  Cells* cells = cells_here(thread_once());
  // The callback may have ended on a thread without labels.
  if (cells == nullptr) cells = cells_of(thread_once());
  int error = 0;
  if (swap_version(handle, *edited.after, *edited.before)) {
    refresh_record(handle, cells);
    if (cells != nullptr) {
      const Work work(*cells);
      edited.after->let_go(cells);
      give_back(edited.after, &work);
    } else {
      edited.after->let_go(nullptr);
      give_back(edited.after, nullptr);
    }
    return 0;
  }
  // The callback, or a handler, changed the set: only our labels go back.
  for (std::size_t i = 0; i < change.count && error == 0; ++i) {
    Label label{change.labels[i].key, {0, removed}};
    if (const Label* old = find_label(edited.before->labels(), edited.before->count, label.key))
      label.value = old->value;
    error = edit(handle, {&label, 1}, nullptr);
  }
  edited.after->let_go(cells);
  if (cells == nullptr) {
    give_back(edited.before, nullptr);
  } else {
    const Work work(*cells);
    give_back(edited.before, &work);
  }
  return error;
}

}  // namespace vitrine::publish
