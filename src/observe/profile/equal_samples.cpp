#include "observe/profile/equal_samples.hpp"

#include <algorithm>
#include <utility>

namespace vitrine::observe {
namespace {

bool is_equal(const profile::Sample& one, const profile::Sample& other) {
  return one.measure == other.measure && one.process == other.process && one.stack == other.stack &&
         one.labels == other.labels && one.link == other.link && one.tid == other.tid &&
         one.cpu == other.cpu && one.thread_name == other.thread_name;
}

/// Its head and its stacks.
bpf::StackSample without_labels(const bpf::StackSample& sample) {
  bpf::StackSample out;
  out.head = sample.head;
  out.kernel_stack = sample.kernel_stack;
  out.registers.resize(sample.registers.empty() ? 0 : 1);  // whether it has user code
  out.frames = sample.frames;
  return out;
}

}  // namespace

void EqualSamples::begin(const bpf::StackSample& first, EqualSample row) {
  row.first = without_labels(first);
  if (first.waker)
    row.first.waker = std::make_shared<bpf::StackSample>(without_labels(*first.waker));
  if (places_.size() <= first.head.row) places_.resize(first.head.row + 1);
  std::uint32_t& place = places_[first.head.row];
  if (place != 0) {
    rows_[place - 1] = std::move(row);
    return;
  }
  rows_.push_back(std::move(row));
  place = static_cast<std::uint32_t>(rows_.size());
}

EqualSample* EqualSamples::find(std::uint32_t row) {
  if (row >= places_.size() || places_[row] == 0) return nullptr;
  return &rows_[places_[row] - 1];
}

void EqualSamples::compare(const bpf::StackSample& sample,
                           const std::optional<profile::Sample>& made) {
  ++compared_;
  EqualSample* row = find(sample.head.row);
  if (row == nullptr) return;
  ++row->records;
  agreed_ += made && row->sample ? is_equal(*made, *row->sample) : !made && !row->sample;
}

void EqualSamples::end() {
  for (const EqualSample& row : rows_)
    miscounted_ += std::max(row.records, row.added) - std::min(row.records, row.added);
  rows_ = {};
  places_ = {};
}

profile::Losses difference(const profile::Losses& now, const profile::Losses& before) {
  return {now.events - before.events, now.truncated_stacks - before.truncated_stacks,
          now.truncated_labels - before.truncated_labels, now.unread_labels - before.unread_labels,
          now.unnamed - before.unnamed};
}

void add_to(profile::Losses& all, const profile::Losses& each, std::uint64_t times) {
  all.events += each.events * times;
  all.truncated_stacks += each.truncated_stacks * times;
  all.truncated_labels += each.truncated_labels * times;
  all.unread_labels += each.unread_labels * times;
}

}  // namespace vitrine::observe
