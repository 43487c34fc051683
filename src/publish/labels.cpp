// Captured sets, and what is in force: the C++ interface.
#include <new>
#include <vitrine/labels.hpp>

#include "publish/base/thread.hpp"
#include "publish/handle/pinned_entries.hpp"
#include "publish/in_force.hpp"
#include "publish/memo.hpp"
#include "publish/set/kept.hpp"
#include "publish/set/keys.hpp"
#include "publish/set_builder.hpp"

namespace vitrine::labels {
inline namespace VITRINE_DETAIL_ABI_NAMESPACE {
namespace {

using publish::Arena;
using publish::Block;
using publish::Thread;
using publish::Words;

Errc why_no_arena(const Thread& self) noexcept {
  return publish::exiting(self) ? Errc::thread_exiting : Errc::out_of_memory;
}

std::optional<std::string_view> find(detail::Entries entries, std::string_view key) noexcept {
  for (std::size_t i = 0; i < entries.size; ++i) {
    const detail::Entry& entry = entries.data[i];
    if (entry.key.data != nullptr && std::string_view(entry.key.data, entry.key.size) == key)
      return std::string_view(entry.value.data, entry.value.size);
  }
  return std::nullopt;
}

/// What is in force, after ending coroutines that an exception left.
Words here() noexcept {
  Thread& self = publish::thread();
  publish::end_if_abandoned(self);
  return detail::in_force(self);
}

/// A new set.
Set build_set(Words base, const publish::Change& change) noexcept {
  Thread& self = publish::thread();
  Arena* arena = publish::arena_of(self);
  if (arena == nullptr) return Access::adopt(nullptr, why_no_arena(self));
  const publish::Built built = publish::build(*arena, base, change, publish::Lives::kept);
  if (built.block != nullptr) {
    // It depends on no other set: the set that it was made from may be gone before it.
    built.block->links.below = 0;
    built.block->links.below_serial = 0;
  }
  return Access::adopt(built.block, built.status);
}

}  // namespace

Set Set::make(const Label* labels, std::size_t count, const Trace* trace) noexcept {
  return build_set(Words{0, 0}, {labels, count, trace});
}

Set Set::derive(const Label* labels, std::size_t count, const Trace* trace) const noexcept {
  return ok() ? build_set(words(), {labels, count, trace}) : *this;
}

detail::Entries Set::entries() const noexcept {
  if (block_ == nullptr) return {nullptr, 0};
  return {block_->entries(), block_->count()};
}

Set::Set(const Set& other) noexcept : block_(other.block_), status_(other.status_) {
  if (block_ != nullptr) publish::hold_kept(*block_);
}

void Set::release() noexcept {
  publish::let_go_of_kept(*block_);
}

std::size_t Set::size() const noexcept {
  return block_ == nullptr ? 0 : block_->count();
}

std::optional<std::string_view> Set::get(Key key) const noexcept {
  if (block_ == nullptr || !key.ok()) return std::nullopt;
  return find({block_->entries(), block_->count()}, key.name());
}

Words Set::words() const noexcept {
  return block_ == nullptr ? Words{0, 0} : block_->links.words;
}

Set capture() noexcept {
  Words words = here();
  Thread& self = publish::thread();
  if (Block* block = publish::block_of(words)) {
    Arena* arena = publish::arena_of(self);
    if (arena == nullptr) return Access::adopt(nullptr, why_no_arena(self));
    Block* kept = publish::keep(*arena, *block);
    return Access::adopt(kept, kept != nullptr ? Errc::ok : Errc::out_of_memory);
  }
  words = publish::settled_outer_words(self);
  if (publish::entries_of(words).size == 0) return {};
  return build_set(words, {nullptr, 0, nullptr});  // another writer's: a copy
}

std::optional<std::string_view> get(Key key) noexcept {
  if (!key.ok()) return std::nullopt;
  Thread& self = publish::thread();
  publish::end_if_abandoned(self);
  return find(publish::entries_shown(self), key.name());
}

std::optional<Trace> trace() noexcept {
  const abi::thread_context::Record* in_force = publish::record_of(here());
  if (in_force == nullptr) return std::nullopt;
  const abi::thread_context::Record& record = *in_force;
  Trace trace;
  std::uint8_t any = 0;
  for (std::size_t i = 0; i < 16; ++i) any |= trace.trace_id.bytes[i] = record.trace_id[i];
  for (std::size_t i = 0; i < 8; ++i) any |= trace.span_id.bytes[i] = record.span_id[i];
  trace.flags = record.trace_flags;
  if (any == 0) return std::nullopt;
  return trace;
}

detail::EntriesInForce::EntriesInForce() noexcept {
  static_assert(sizeof room_ >= sizeof(publish::PinnedEntries) &&
                alignof(EntriesInForce) >= alignof(publish::PinnedEntries));
  all_ = (new (room_) publish::PinnedEntries(here()))->get();
}

detail::EntriesInForce::~EntriesInForce() {
  std::launder(reinterpret_cast<publish::PinnedEntries*>(room_))->~PinnedEntries();
}

}  // namespace VITRINE_DETAIL_ABI_NAMESPACE
}  // namespace vitrine::labels
