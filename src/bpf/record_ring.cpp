#include "bpf/record_ring.hpp"

#include <bpf/libbpf.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>

#include "bpf/kernel_log.hpp"

namespace vitrine::bpf {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds shortest_wait{1}, longest_wait{10};

}  // namespace

std::size_t RecordRing::size_of(std::size_t wanted_bytes) {
  return std::bit_ceil(std::clamp<std::size_t>(wanted_bytes, 64 * 1024, 1U << 30));
}

RecordRing::~RecordRing() {
  if (wake_ >= 0) ::close(wake_);
  ring_buffer__free(ring_);
}

Result<void> RecordRing::open(int map, volatile unsigned* reader_waits) {
  const KernelLog log;
  reader_waits_ = reader_waits;
  ring_ = ring_buffer__new(map, hand_over, this, nullptr);
  if (ring_ == nullptr) return tl::unexpected(log.error("map the buffer of records", errno));
  // Edge-triggered: only a wake-up ends a wait, not that there is something to read.
  wake_ = ::epoll_create1(EPOLL_CLOEXEC);
  epoll_event event{};
  event.events = EPOLLIN | EPOLLET;
  if (wake_ < 0 || ::epoll_ctl(wake_, EPOLL_CTL_ADD, map, &event) != 0)
    return tl::unexpected(log.error("wait for the buffer of records", errno));
  return {};
}

Result<std::size_t> RecordRing::poll(milliseconds timeout, const Sink& sink) {
  const KernelLog log;
  const auto end = Clock::now() + timeout;
  handed_over_ = 0;
  last_moment_ = end + longest_wait;
  sink_ = &sink;
  for (;;) {
    const auto left = std::chrono::ceil<milliseconds>(end - Clock::now());
    if (left > milliseconds{0}) {
      *reader_waits_ = 1;
      epoll_event event{};
      ::epoll_wait(wake_, &event, 1, static_cast<int>(std::min(left, wait_).count()));
    }
    const int got = ring_buffer__consume(ring_);
    if (got < 0 && got != -ECANCELED) return tl::unexpected(log.error("read records", got));
    wait_ = handed_over_ != 0 ? shortest_wait : std::min(wait_ * 2, longest_wait);
    if (handed_over_ != 0 || Clock::now() >= end) return handed_over_;
  }
}

int RecordRing::hand_over(void* context, void* data, std::size_t size) {
  constexpr std::size_t between_looks = 64;
  auto& ring = *static_cast<RecordRing*>(context);
  const bool late = ++ring.handed_over_ % between_looks == 0 && Clock::now() > ring.last_moment_;
  (*ring.sink_)({static_cast<const std::byte*>(data), size});
  return late ? -ECANCELED : 0;  // libbpf stops after this record, which counts as taken
}

}  // namespace vitrine::bpf
