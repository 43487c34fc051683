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

Scope::Entered Scope::failed(Status status) noexcept {
  return {Words{static_cast<std::uint64_t>(status), 0}, nullptr};
}

Scope::Entered Scope::open(const Label* labels, std::size_t count, const Trace* trace) noexcept {
  const publish::Change change{labels, count, trace};
  Thread& self = publish::thread();
  Arena* arena = publish::arena_of(self);
  if (arena == nullptr)
    return failed(publish::exiting(self) ? Status::thread_exiting : Status::out_of_memory);

  detail::Question question;
  const bool asked = publish::ask(question, self, change);
  if (asked) {
    const detail::Recall::Answer known =
        publish::recall(arena->memo[question.entry()], question, change);
    if (known.block != nullptr) return enter(self, known.outer, known.block);
  }

  const Words outer = publish::outer_words(self);
  const Block* parent = publish::block_of(outer);
  Block* block = nullptr;
  if (asked && (parent != nullptr || publish::entries_of(outer).size == 0))
    block = publish::append(*arena, parent, labels, count);
  if (block == nullptr) {
    const publish::Built built = publish::build(*arena, outer, change);
    if (built.block == nullptr) return failed(built.status);
    block = built.block;
  }
  if (asked) publish::remember(*arena, outer, question, block);
  return enter(self, outer, block);
}

Scope::Entered Scope::open_new(Key key, std::string_view value) noexcept {
  const Label label(key, value);
  Thread& self = publish::thread();
  if (!detail::has_arena(self) || !key.ok() || value.size() > detail::Ends::all)
    return open(&label, 1, nullptr);
  const Words outer = publish::outer_words(self);
  const Block* parent = publish::block_of(outer);
  if (parent == nullptr && publish::entries_of(outer).size != 0) return open(&label, 1, nullptr);

  auto& arena = *static_cast<Arena*>(self.arena);
  Block* block = parent == nullptr ? publish::append(arena, nullptr, &label, 1)
                                   : publish::append(arena, parent, &label, 1);
  if (block == nullptr) return open(&label, 1, nullptr);
  publish::remember(arena, outer,
                    {{outer[0], outer[1]},
                     detail::Question::one(Access::data(key), value.size()),
                     detail::Ends::of(value.data(), value.size())},
                    block);
  return enter(self, outer, block);
}

void Scope::close_unusual(Entered in) noexcept {
  Thread& self = publish::thread();
  const detail::Links& links = in.block->links;
  Words outer = in.outer;
  if (links.is_spliced())
    outer = links.parent() == nullptr ? Words{0, 0} : links.parent()->links.words;
  publish::take_out_of_force(self, outer, links.below_serial, *in.block);
  publish::close_use(in.block->page(), self.arena);
}

}  // namespace vitrine::labels
