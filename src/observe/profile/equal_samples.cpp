#include "observe/profile/equal_samples.hpp"

#include <algorithm>
#include <utility>

namespace vitrine::observe {
namespace {

using profile::none;

bool is_equal(const profile::Sample& one, const profile::Sample& other) {
  return one.measure == other.measure && one.process == other.process && one.stack == other.stack &&
         one.labels == other.labels && one.link == other.link && one.tid == other.tid &&
         one.cpu == other.cpu && one.thread_name == other.thread_name;
}

/// Whether `its` is what the row has, with this link.
bool is_what(const EqualRow& row, profile::Index link, const EqualSample& its) {
  if (row.sample == nullptr) return false;
  std::optional<profile::Sample> known = row.sample->sample;
  if (known) known->link = link;
  return known && its.sample ? is_equal(*known, *its.sample) : !known && !its.sample;
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

EqualSamples::Place& EqualSamples::place_of(std::uint32_t row) {
  if (places_.size() <= row) places_.resize(row + std::size_t{1});
  return places_[row];
}

void EqualSamples::take(const bpf::StackSample& sample, EqualSample its) {
  const bool is_added = (sample.head.event.flags & VITRINE_SAMPLE_ADDED) != 0;
  const bool has_model = find(sample.head.model).sample != nullptr;
  const profile::Index link = its.sample ? its.sample->link : none;
  if (is_added || has_model) {
    const EqualRow row = find(sample.head.row), model = find(sample.head.model);
    ++compared_;
    agreed_ +=
        (!is_added || is_what(row, row.link, its)) && (!has_model || is_what(model, link, its));
    if (is_added && row.sample != nullptr) ++row.sample->records;
  }
  const bool begins_row = !is_added && sample.head.row != 0;
  const bool is_model = !has_model && sample.head.model != 0;
  if (!begins_row && !is_model) return;
  its.first = without_labels(sample);
  if (sample.waker)
    its.first.waker = std::make_shared<bpf::StackSample>(without_labels(*sample.waker));
  samples_.push_back(std::move(its));
  const Place place{static_cast<std::uint32_t>(samples_.size()), link};
  if (begins_row) place_of(sample.head.row) = place;
  if (is_model) place_of(sample.head.model) = place;
}

void EqualSamples::begin(std::uint32_t row, std::uint32_t model, profile::Index link) {
  const Place of_model = place_of(model);
  place_of(row) = {of_model.sample, link};
}

EqualRow EqualSamples::find(std::uint32_t row) {
  if (row >= places_.size() || places_[row].sample == 0) return {};
  return {&samples_[places_[row].sample - 1], places_[row].link};
}

void EqualSamples::end() {
  for (const EqualSample& row : samples_)
    miscounted_ += std::max(row.records, row.added) - std::min(row.records, row.added);
  std::deque<EqualSample>().swap(samples_);  // an assignment would keep its memory
  std::vector<Place>().swap(places_);
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
