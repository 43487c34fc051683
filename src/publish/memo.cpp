#include "publish/memo.hpp"

#include "publish/bytes.hpp"

namespace vitrine::publish {
namespace {

/// Comparing more labels than this would cost as much as making the set.
constexpr std::size_t max_recalled = 8;

bool has_labels_of(const Block& block, const Change& change) noexcept {
  if (block.links.own != change.count) return false;
  const Tag* tag = tags(block);
  const Entry* entry = block.entries();
  for (std::size_t i = 0; i < change.count; ++i) {
    const labels::Label& label = change.labels[i];
    if (tag[i].id != labels::Access::data(label.key)->tag.id ||
        entry[i].value.size != label.value.size() ||
        !equal_bytes(entry[i].value.data, label.value.data(), label.value.size()))
      return false;
  }
  return true;
}

}  // namespace

bool ask(Question& question, const Thread& thread, const Change& change) noexcept {
  if (change.trace != nullptr || change.count - 1 >= max_recalled) return false;
  constexpr std::uint64_t mixer = 0x9e3779b97f4a7c15;
  std::uint64_t head = 0, tail = 0;
  for (std::size_t i = 0; i < change.count; ++i) {
    const labels::Label& label = change.labels[i];
    if (!label.key.ok() || label.value.size() > labels::max_value_bytes) return false;
    const Ends ends = Ends::of(label.value.data(), label.value.size());
    // Two sums at once: multiplications that do not wait for each other.
    head = (head + ends.head + reinterpret_cast<std::uintptr_t>(labels::Access::data(label.key))) *
           mixer;
    tail = (tail + ends.tail + label.value.size()) * mixer;
  }
  const volatile std::uint64_t* outer = labels::detail::words_in_force(thread);
  question.outer[0] = outer[0];
  question.outer[1] = outer[1];
  question.what = Question::several(change.count);
  question.ends.head = head;
  question.ends.tail = tail;
  return true;
}

Recall::Answer recall(const Recall& entry, const Question& question,
                      const Change& change) noexcept {
  const Recall::Answer known = entry.answer(question);
  if (known.block == nullptr || has_labels_of(*known.block, change)) return known;
  local_increment(known.block->links.page->closed);
  return {nullptr, Words{0, 0}};
}

}  // namespace vitrine::publish
