// Scope: what happens when one opens and ends. The way that nearly all take is kept free of calls.
#include <vitrine/labels.hpp>

#include "publish/append.hpp"
#include "publish/in_force.hpp"
#include "publish/memo.hpp"
#include "publish/thread.hpp"

namespace vitrine::labels {

using publish::Arena;
using publish::Block;
using publish::Thread;
using publish::Words;

void Scope::enter(detail::Thread& self, const detail::Words& outer, detail::Block* block) noexcept {
  outer_ = outer;
  outer_serial_ = block->parent_serial;
  block_ = block;
  detail::put_in_force(self, block->words);
}

void Scope::open(const Label* labels, std::size_t count, const Trace* trace) noexcept {
  Thread& self = publish::thread();
  block_ = nullptr;
  Arena* arena = publish::arena_of(self);
  if (arena == nullptr) {
    outer_serial_ = static_cast<std::uint64_t>(publish::exiting(self) ? Status::thread_exiting
                                                                      : Status::out_of_memory);
    return;
  }
  const Words outer = detail::in_force(self);
  const Block* parent = publish::block_of(outer);
  const publish::Change change{labels, count, trace};
  const publish::Built built =
      parent != nullptr || publish::entries_of(outer).size == 0
          ? publish::recall_or_build(*arena, outer, parent, change)
          : publish::build(*arena, outer, change);  // on top of another writer's set
  if (built.block != nullptr)
    enter(self, outer, built.block);
  else
    outer_serial_ = static_cast<std::uint64_t>(built.status);
}

void Scope::open_new(Key key, std::string_view value) noexcept {
  const Label label(key, value);
  Thread& self = publish::thread();
  if (!publish::has_arena(self) || !key.ok() || value.size() > publish::Question::longest)
    return open(&label, 1, nullptr);
  const Words outer = detail::in_force(self);
  const Block* parent = publish::block_of(outer);
  if (parent == nullptr && publish::entries_of(outer).size != 0) return open(&label, 1, nullptr);

  auto& arena = *static_cast<Arena*>(self.arena);
  Block* block = parent == nullptr ? publish::append(arena, nullptr, &label, 1)
                                   : publish::append(arena, parent, &label, 1);
  if (block == nullptr) return open(&label, 1, nullptr);
  const publish::Question question =
      publish::question_for_one(parent == nullptr ? 0 : parent->serial(), Access::data(key), value);
  publish::remember(question.entry(arena), question, block);
  enter(self, outer, block);
}

void Scope::open_one(Key key, std::string_view value) noexcept {
  Thread& self = publish::thread();
  if (publish::has_arena(self) && value.size() <= publish::Question::longest) {
    auto& arena = *static_cast<Arena*>(self.arena);
    // That nothing is in force, or is put back, is decided by a branch and not read from memory:
    // otherwise each scope would wait for the one before it.
    if (publish::nothing_in_force(self)) {
      const publish::Question question = publish::question_for_one(0, Access::data(key), value);
      if (Block* block = publish::recall(question.entry(arena), question))
        return enter(self, Words{0, 0}, block);
    } else if (const Block* parent = publish::block_of(publish::identity_in_force(self))) {
      const publish::Question question =
          publish::question_for_one(parent->serial(), Access::data(key), value);
      if (Block* block = publish::recall(question.entry(arena), question))
        return enter(self, detail::in_force(self), block);
    }
  }
  open_new(key, value);
}

void Scope::close_unusual() noexcept {
  Thread& self = publish::thread();
  publish::take_out_of_force(self, outer_, outer_serial_, *block_);
  publish::close_use(*block_->page, self.arena);
}

void Scope::close() noexcept {
  Thread& self = publish::thread();
  const Block* block = block_;
  const Block* outer = reinterpret_cast<const Block*>(
      publish::identity_of(outer_) - (VITRINE_PUBLISH_ABI == 0 ? sizeof(Block) : 0));
  if (publish::identity_in_force(self) != publish::identity_of(block->words) ||
      block->spliced.load(std::memory_order_relaxed) ||
      (outer_serial_ != 0 && outer->serial() != outer_serial_))
    return close_unusual();
  if (publish::is_nothing(outer_))
    detail::put_in_force(self, Words{0, 0});
  else
    detail::put_in_force(self, outer_);
  publish::close_use(*block->page, self.arena);
}

}  // namespace vitrine::labels
