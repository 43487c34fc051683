#include "bpf/record_queue.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <new>
#include <utility>

namespace vitrine::bpf {
namespace {

constexpr std::size_t chunk_bytes = 1U << 20;

}  // namespace

void RecordQueue::Unmap::operator()(std::byte* at) const noexcept {
  ::munmap(at, size);
}

RecordQueue::Chunk RecordQueue::Chunk::of(std::size_t capacity) noexcept {
  void* const at =
      ::mmap(nullptr, capacity, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  Chunk chunk;
  if (at == MAP_FAILED) return chunk;
  chunk.memory = {static_cast<std::byte*>(at), Unmap{capacity}};
  chunk.capacity = capacity;
  return chunk;
}

/// False: memory is refused.
bool RecordQueue::make_room(std::size_t bytes) noexcept {
  if (open_.capacity - open_.used >= bytes) return true;
  publish();
  if (open_.used != 0) return false;
  Chunk chunk;
  {
    const std::lock_guard lock(mutex_);
    chunk = std::exchange(spare_, {});
  }
  if (chunk.capacity < bytes) chunk = Chunk::of(std::max(bytes, chunk_bytes));
  chunk.used = 0;
  open_ = std::move(chunk);
  packing_.begin_anew();
  return open_.capacity >= bytes;
}

bool RecordQueue::put(std::span<const std::byte> record, std::uint64_t source) noexcept {
  const bool fits = make_room(LastRecords::max_packed(record.size()));
  std::size_t bytes = 0;
  if (fits) {
    bytes = packing_.pack(record, source, open_.memory.get() + open_.used);
    open_.used += bytes;
  }
  const std::lock_guard lock(mutex_);
  ++records_;
  held_ += bytes;
  if (!fits) ++dropped_;
  return has_room();
}

void RecordQueue::publish() noexcept {
  if (open_.used == 0) return;
  const std::lock_guard lock(mutex_);
  publish_locked();
}

bool RecordQueue::offer() noexcept {
  if (open_.used == 0) return true;
  const std::lock_guard lock(mutex_);
  if (queue_.empty()) publish_locked();
  return open_.used == 0;
}

void RecordQueue::publish_locked() noexcept {
  try {
    queue_.emplace_back();
  } catch (const std::bad_alloc&) {  // it stays open: the next call tries again
    return;
  }
  queue_.back() = std::exchange(open_, {});
  filled_.notify_one();
}

bool RecordQueue::wait_for_room(Clock::time_point end) {
  std::unique_lock lock(mutex_);
  return emptied_.wait_until(lock, end, [this] { return has_room(); });
}

bool RecordQueue::wait(Clock::time_point end) {
  if (taken_ < handed_.used) return true;
  std::unique_lock lock(mutex_);
  held_ -= handed_.used;
  handed_.used = taken_ = 0;
  if (handed_.capacity != 0) spare_ = std::exchange(handed_, {});
  emptied_.notify_one();
  if (queue_.empty() && end <= Clock::now()) return false;  // without a call of the kernel
  if (!filled_.wait_until(lock, end, [this] { return !queue_.empty(); })) return false;
  handed_ = std::move(queue_.front());
  queue_.pop_front();
  unpacking_.begin_anew();
  return true;
}

std::span<const std::byte> RecordQueue::take() {
  std::span<const std::byte> left(handed_.memory.get() + taken_, handed_.used - taken_);
  if (left.empty()) return {};
  const auto record = unpacking_.unpack(left);
  taken_ = handed_.used - left.size();
  return record;
}

std::uint64_t RecordQueue::records() const {
  const std::lock_guard lock(mutex_);
  return records_;
}

std::uint64_t RecordQueue::dropped() const {
  const std::lock_guard lock(mutex_);
  return dropped_;
}

std::size_t RecordQueue::held() const {
  const std::lock_guard lock(mutex_);
  return held_;
}

}  // namespace vitrine::bpf
