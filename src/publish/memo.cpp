#include "publish/memo.hpp"

#include "publish/append.hpp"

namespace vitrine::publish {
namespace {

/// Comparing more labels than this would cost as much as making the set.
constexpr std::size_t max_recalled = 8;

bool can_be_asked_for(const Change& change) noexcept {
  if (change.trace != nullptr || change.count - 1 >= max_recalled) return false;
  for (std::size_t i = 0; i < change.count; ++i) {
    if (!change.labels[i].key.ok() || change.labels[i].value.size() > labels::max_value_bytes)
      return false;
  }
  return true;
}

/// Several labels, or a long one: by a hash, and then a look at the set.
Question question_for(std::uint64_t parent_serial, const Change& change) noexcept {
  std::uint64_t hash = parent_serial;
  for (std::size_t i = 0; i < change.count; ++i) {
    const labels::Label& label = change.labels[i];
    const Ends ends = ends_of(label.value.data(), label.value.size());
    hash = (hash ^ reinterpret_cast<std::uintptr_t>(labels::Access::data(label.key)) ^ ends.head ^
            ends.tail * Question::mixer ^ label.value.size()) *
           Question::mixer;
  }
  return {parent_serial, &max_recalled, Recall::many, {hash, change.count}};
}

bool has_labels_of(const Block& block, const Change& change) noexcept {
  if (block.own != change.count) return false;
  const Tag* tag = tags(block);
  for (std::size_t i = 0; i < change.count; ++i) {
    const labels::Label& label = change.labels[i];
    const labels::detail::Name& value = block.entries()[i].value;
    if (tag[i].id != labels::Access::data(label.key)->tag.id || value.size != label.value.size() ||
        !equal_bytes(value.data, label.value.data(), value.size))
      return false;
  }
  return true;
}

}  // namespace

void remember(Recall& entry, const Question& question, Block* block) noexcept {
  const std::uint32_t version = entry.version;
  if (version % 2 != 0) return;  // this is a handler, and interrupted `remember`
  if (block->page->unit_shift != small_unit_shift) return;
  entry.version = version + 1;
  local_fence();
  entry.size = question.size;
  entry.parent_serial = question.parent_serial;
  entry.key = question.key;
  entry.head = question.ends.head;
  entry.tail = question.ends.tail;
  entry.block = block;
  entry.page_serial = block->page->first_serial;
  local_fence();
  entry.version = version + 2;
}

Built recall_or_build(Arena& arena, Words base, const Block* parent,
                      const Change& change) noexcept {
  if (!can_be_asked_for(change)) return build(arena, base, change);
  const Question question = question_for(parent == nullptr ? 0 : parent->serial(), change);
  Recall& entry = question.entry(arena);
  if (Block* block = recall(entry, question)) {
    if (has_labels_of(*block, change)) return {block, labels::Status::ok};
    local_increment(block->page->closed);
  }
  Built built{append(arena, parent, change.labels, change.count), labels::Status::ok};
  if (built.block == nullptr) built = build(arena, base, change);
  if (built.block != nullptr) remember(entry, question, built.block);
  return built;
}

}  // namespace vitrine::publish
