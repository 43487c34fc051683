#include "bpf/record_queue.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <new>
#include <utility>

namespace vitrine::bpf {
namespace {

constexpr std::size_t chunk_bytes = 1U << 20;
/// Copied behind what is in the queue rather than queued as a chunk of its own.
constexpr std::size_t few_bytes = 64U << 10;
constexpr std::size_t alignment = 8;

constexpr std::size_t padded(std::size_t bytes) {
  return (bytes + alignment - 1) / alignment * alignment;
}

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

void RecordQueue::Chunk::append(std::span<const std::byte> bytes) {
  std::memcpy(memory.get() + used, bytes.data(), bytes.size());
  used += bytes.size();
}

/// False: memory is refused.
bool RecordQueue::make_room(std::size_t bytes) noexcept {
  if (open_.capacity - open_.used >= bytes) return true;
  publish();
  if (open_.used != 0) return false;
  if (open_.capacity >= bytes) return true;
  Chunk chunk;
  {
    const std::lock_guard lock(mutex_);
    chunk = std::exchange(spare_, {});
  }
  if (chunk.capacity < bytes) chunk = Chunk::of(std::max(bytes, chunk_bytes));
  chunk.used = 0;
  open_ = std::move(chunk);
  return open_.capacity >= bytes;
}

bool RecordQueue::put(std::span<const std::byte> record) noexcept {
  const std::uint64_t size = record.size();
  const std::size_t bytes = sizeof size + padded(record.size());
  const bool fits = make_room(bytes);
  if (fits) {
    std::byte* const at = open_.memory.get() + open_.used;
    std::memcpy(at, &size, sizeof size);
    std::memcpy(at + sizeof size, record.data(), record.size());
    open_.used += bytes;
  }
  const std::lock_guard lock(mutex_);
  ++records_;
  if (fits)
    held_ += bytes;
  else
    ++dropped_;
  return has_room();
}

void RecordQueue::publish() noexcept {
  if (open_.used == 0) return;
  const std::lock_guard lock(mutex_);
  if (!queue_.empty() && open_.used <= few_bytes &&
      queue_.back().capacity - queue_.back().used >= open_.used) {
    queue_.back().append({open_.memory.get(), open_.used});
    open_.used = 0;
    return;
  }
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
  if (!filled_.wait_until(lock, end, [this] { return !queue_.empty(); })) return false;
  handed_ = std::move(queue_.front());
  queue_.pop_front();
  return true;
}

std::span<const std::byte> RecordQueue::take() {
  if (taken_ >= handed_.used) return {};
  const std::byte* const at = handed_.memory.get() + taken_;
  std::uint64_t size = 0;
  std::memcpy(&size, at, sizeof size);
  taken_ += sizeof size + padded(static_cast<std::size_t>(size));
  return {at + sizeof size, static_cast<std::size_t>(size)};
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
