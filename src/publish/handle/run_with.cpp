// custom_labels_run_with: the part of the C interface that calls back. Built with exceptions, so
// that one thrown by a callback leaves the labels as they were, too.
#include <customlabels.h>

#include <cerrno>
#include <new>
#include <optional>
#include <string_view>

#include "publish/base/thread.hpp"
#include "publish/handle/handle.hpp"
#include "publish/set/keys.hpp"

// Callbacks may throw through this file. The shared libraries must not need libstdc++ for it: a
// program in which exceptions are thrown has it already. Without it a frame has no personality, which
// unwinders pass by. (_Unwind_Resume: without_libstdcxx.cpp.)
#if !VITRINE_PUBLISH_STATIC
__asm__(".weak __gxx_personality_v0\n");
#endif

namespace vitrine::publish {
namespace {

/// Undoes an edit when the callback is over, however it is. The handle stays meanwhile, even if the
/// callback frees it.
class Undo {
 public:
  Undo(Handle& handle, Edit change)
      : handle_(handle), change_(change), edited_(edit_for_now(handle, change)) {
    if (edited_.error != 0)
      done_ = true;
    else
      handle_.cell.hold(cells_here(thread()));
  }
  Undo(const Undo&) = delete;
  Undo& operator=(const Undo&) = delete;
  ~Undo() { now(); }

  int error() const noexcept { return edited_.error; }
  /// 0, or why labels could not be put back.
  int now() noexcept {
    if (done_) return 0;
    done_ = true;
    const int error = undo(handle_, edited_, change_);
    handle_.cell.let_go(cells_here(thread()));
    return error;
  }

 private:
  Handle& handle_;
  Edit change_;
  Edited edited_;
  bool done_ = false;
};

int run_on_handle(Handle& handle, Edit change, void* (*callback)(void*), void* data, void** out) {
  Undo undo(handle, change);
  if (undo.error() != 0) return undo.error();
  void* result = callback(data);
  if (out != nullptr) *out = result;
  return undo.now();
}

/// Room in the thread's arena for as long as this lives.
class Scratch {
 public:
  explicit Scratch(std::size_t bytes) noexcept {
    arena_ = arena_of(thread());
    if (arena_ != nullptr) claim_ = claim(*arena_, bytes);
  }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  ~Scratch() {
    if (claim_.memory != nullptr) close_use(*claim_.page, thread().arena);
  }
  void* memory() const noexcept { return claim_.memory; }

 private:
  Arena* arena_;
  Claim claim_{nullptr, nullptr};
};

int errno_of(labels::Errc why) noexcept {
  switch (why) {
    case labels::Errc::ok:
      return 0;
    case labels::Errc::value_too_large:
    case labels::Errc::set_too_large:
      return EMSGSIZE;
    default:
      return ENOMEM;
  }
}

/// What is in force never changes: a scope on top of it has the labels.
int run_in_scope(Edit change, void* (*callback)(void*), void* data, void** out) {
  void* result = nullptr;
  {
    std::optional<labels::Scope> scope;
    {
      const std::size_t bytes = (change.count + 1) * sizeof(labels::Label);
      Scratch scratch(bytes);
      auto* own = static_cast<labels::Label*>(scratch.memory());
      if (own == nullptr) return bytes > large_block_max ? EMSGSIZE : ENOMEM;
      // The last of two with one key counts here, the first in a scope.
      for (std::size_t i = 0; i < change.count; ++i) {
        const Label& label = change.labels[change.count - 1 - i];
        const auto text = [](String string) {
          return std::string_view(reinterpret_cast<const char*>(string.buf), string.len);
        };
        const labels::Key key(text(label.key));
        if (!key.ok()) return label.key.len > labels::max_key_bytes ? EMSGSIZE : ENOMEM;
        ::new (static_cast<void*>(own + i)) labels::Label(key, text(label.value));
      }
      scope.emplace(own, change.count);
    }
    if (!scope->ok()) return errno_of(scope->status());
    result = callback(data);
  }
  if (out != nullptr) *out = result;
  return 0;
}

}  // namespace

// In the namespace, and with their visibility: see c_interface.cpp.
extern "C" {

CUSTOM_LABELS_EXPORT int custom_labels_run_with(custom_labels_labelset_t* set,
                                                custom_labels_label_t* labels, int n,
                                                void* (*callback)(void*), void* data, void** out) {
  if (n < 0 || (n > 0 && labels == nullptr) || callback == nullptr) return EINVAL;
  for (int i = 0; i < n; ++i) {
    if (const int error = check_key(labels[i].key)) return error;
    if (const int error = check_value(labels[i].value)) return error;
  }
  Thread& self = thread();
  if (is_unsettled(self)) settle(self);
  const Edit change{labels, static_cast<std::size_t>(n)};
  if (Handle* handle = handle_of(set)) return run_on_handle(*handle, change, callback, data, out);
  if (set == custom_labels_current()) return run_in_scope(change, callback, data, out);
  return set == nullptr ? EINVAL : EROFS;
}

CUSTOM_LABELS_EXPORT int custom_labels_careful_run_with(custom_labels_labelset_t* set,
                                                        custom_labels_label_t* labels, int n,
                                                        void* (*callback)(void*), void* data,
                                                        void** out) {
  return custom_labels_run_with(set, labels, n, callback, data, out);
}

}  // extern "C"
}  // namespace vitrine::publish
