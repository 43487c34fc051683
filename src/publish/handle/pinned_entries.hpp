// PinnedEntries: the labels of any set, whole for as long as this lives, even if it is changed.
#pragma once

#include "publish/base/block.hpp"
#include "publish/base/thread.hpp"
#if VITRINE_PUBLISH_ABI == 1
#include "publish/handle/handle.hpp"
#endif

namespace vitrine::publish {

/// The labels that `words` put in force. Sets of scopes never change, and cost nothing here: the
/// thread that has them in force keeps them. For a handle the version in use is held. Another writer's set is
/// taken as it is.
class PinnedEntries {
 public:
  explicit PinnedEntries(const Words& words) noexcept : PinnedEntries(words, block_of(words)) {}
  PinnedEntries(const Words& words, const Block* block) noexcept {
    if (block != nullptr) {
      entries_ = {block->entries(), block->count()};
      return;
    }
#if VITRINE_PUBLISH_ABI == 1
    if (const Handle* handle = handle_of(words[1])) {
      version_ = hold_version(*handle, cells_here(thread()));
      if (version_ != nullptr)
        entries_ = {reinterpret_cast<const Entry*>(version_->labels()), version_->count};
      return;
    }
#endif
    entries_ = entries_of(words);
  }
  PinnedEntries(const PinnedEntries&) = delete;
  PinnedEntries& operator=(const PinnedEntries&) = delete;
#if VITRINE_PUBLISH_ABI == 1
  ~PinnedEntries() {
    if (version_ != nullptr) version_->let_go(cells_here(thread()));
  }
#endif

  [[nodiscard]] const labels::detail::Entries& get() const noexcept {
    return entries_;
  }

 private:
  labels::detail::Entries entries_{nullptr, 0};
#if VITRINE_PUBLISH_ABI == 1
  Version* version_ = nullptr;
#endif
};

/// The labels in force, to hand out pointers to: whole until what is in force changes, and a
/// handle's at least until the thread asks again.
inline labels::detail::Entries entries_shown(Thread& self) noexcept {
  const Words words = labels::detail::in_force(self);
#if VITRINE_PUBLISH_ABI == 1
  if (block_of(words) == nullptr) {
    if (const Handle* handle = handle_of(words[1])) {
      const Version* version = show_version(*handle, self);
      if (version == nullptr) return {nullptr, 0};
      return {reinterpret_cast<const Entry*>(version->labels()), version->count};
    }
  }
#else
  (void)self;
#endif
  return entries_of(words);
}

}  // namespace vitrine::publish
