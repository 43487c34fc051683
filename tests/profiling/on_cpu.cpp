#include "profiling/on_cpu.hpp"

#include <gtest/gtest.h>
#include <linux/perf_event.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <ctime>
#include <set>
#include <thread>
#include <vector>

namespace vitrine::test {
namespace {

constexpr std::size_t ring_bytes = 4 << 20;  // of a CPU; they are emptied every few milliseconds

struct Record {
  std::uint64_t time;
  unsigned cpu;
  enum class Kind { fork, switched, tick } kind;
  std::uint32_t tid;    ///< of the new thread, of what runs next; a tick has none
  std::uint32_t other;  ///< fork: the thread that made it
};

int open_event(perf_event_attr attr, int cpu) {
  attr.size = sizeof attr;
  attr.type = PERF_TYPE_SOFTWARE;
  attr.sample_type = PERF_SAMPLE_TIME;
  attr.sample_id_all = 1;
  attr.use_clockid = 1;
  attr.clockid = CLOCK_MONOTONIC;
  return static_cast<int>(syscall(SYS_perf_event_open, &attr, -1, cpu, -1, PERF_FLAG_FD_CLOEXEC));
}

/// The records of one CPU.
class Ring {
 public:
  static std::unique_ptr<Ring> open(unsigned cpu, unsigned frequency) {
    auto ring = std::make_unique<Ring>();
    ring->cpu_ = cpu;
    perf_event_attr switches{};
    switches.config = PERF_COUNT_SW_DUMMY;
    switches.task = 1;
    switches.context_switch = 1;
    perf_event_attr clock{};
    clock.config = PERF_COUNT_SW_CPU_CLOCK;
    clock.freq = 1;
    clock.sample_freq = frequency;
    ring->switches_ = open_event(switches, static_cast<int>(cpu));
    ring->clock_ = open_event(clock, static_cast<int>(cpu));
    if (ring->switches_ < 0 || ring->clock_ < 0) return nullptr;
    void* at = mmap(nullptr, page_bytes() + ring_bytes, PROT_READ | PROT_WRITE, MAP_SHARED,
                    ring->switches_, 0);
    if (at == MAP_FAILED) return nullptr;
    ring->page_ = static_cast<perf_event_mmap_page*>(at);
    if (ioctl(ring->clock_, PERF_EVENT_IOC_SET_OUTPUT, ring->switches_) != 0) return nullptr;
    return ring;
  }

  ~Ring() {
    if (page_ != nullptr) munmap(page_, page_bytes() + ring_bytes);
    for (const int event : {clock_, switches_})
      if (event >= 0) close(event);
  }

  void read_into(std::vector<Record>& records, std::uint64_t& lost) {
    if (page_ == nullptr) return;  // its CPU is offline
    const std::uint64_t head = std::atomic_ref(page_->data_head).load(std::memory_order_acquire);
    std::uint64_t at = page_->data_tail;
    while (at < head) {
      perf_event_header header;
      copy(at, &header, sizeof header);
      std::uint32_t words[4] = {};
      std::uint64_t time = 0;
      copy(at + sizeof header, words, std::min(sizeof words, header.size - sizeof header));
      copy(at + header.size - sizeof time, &time, sizeof time);  // each ends with it
      if (header.type == PERF_RECORD_LOST)
        lost += words[2];  // after a number of eight bytes
      else if (header.type == PERF_RECORD_FORK)
        records.push_back({time, cpu_, Record::Kind::fork, words[2], words[3]});
      else if (header.type == PERF_RECORD_SAMPLE)
        records.push_back({time, cpu_, Record::Kind::tick, 0, 0});
      else if (header.type == PERF_RECORD_SWITCH_CPU_WIDE &&
               (header.misc & PERF_RECORD_MISC_SWITCH_OUT) != 0)
        records.push_back({time, cpu_, Record::Kind::switched, words[1], 0});
      at += header.size;
    }
    std::atomic_ref(page_->data_tail).store(at, std::memory_order_release);
  }

 private:
  static std::size_t page_bytes() { return static_cast<std::size_t>(sysconf(_SC_PAGESIZE)); }

  void copy(std::uint64_t at, void* to, std::size_t bytes) const {
    const char* data = reinterpret_cast<const char*>(page_) + page_bytes();
    for (std::size_t i = 0; i < bytes; ++i) static_cast<char*>(to)[i] = data[(at + i) % ring_bytes];
  }

  unsigned cpu_ = 0;
  int switches_ = -1, clock_ = -1;
  perf_event_mmap_page* page_ = nullptr;
};

class Recording final : public OnCpu {
 public:
  Recording(pid_t pid, std::vector<std::unique_ptr<Ring>> rings)
      : pid_(static_cast<std::uint32_t>(pid)), rings_(std::move(rings)), reader_([this] {
          while (!done_) {
            std::this_thread::sleep_for(std::chrono::milliseconds(5));
            read();
          }
        }) {}

  ~Recording() override { stop(); }

  Times end() override {
    stop();
    read();
    Times times;
    times.lost = lost_;
    std::stable_sort(records_.begin(), records_.end(),
                     [](const Record& a, const Record& b) { return a.time < b.time; });
    std::set<std::uint32_t> threads{pid_};
    struct Cpu {
      bool inside = false;
      std::uint64_t since = 0;
    };
    std::vector<Cpu> cpus(rings_.size());
    for (const Record& record : records_) {
      Cpu& cpu = cpus[record.cpu];
      if (record.kind == Record::Kind::fork) {
        if (threads.count(record.other) != 0)
          threads.insert(record.tid);
        else
          threads.erase(record.tid);  // the number of one that has ended
      } else if (record.kind == Record::Kind::tick) {
        times.ticks += cpu.inside;
      } else {
        if (cpu.inside) {
          times.ns += static_cast<double>(record.time - cpu.since);
          ++times.switches;
        }
        cpu = {threads.count(record.tid) != 0, record.time};
      }
    }
    return times;
  }

 private:
  void stop() {
    done_ = true;
    if (reader_.joinable()) reader_.join();
  }
  void read() {
    for (const auto& ring : rings_) ring->read_into(records_, lost_);
  }

  std::uint32_t pid_;
  std::vector<std::unique_ptr<Ring>> rings_;
  std::vector<Record> records_;  // the reader's, until it has ended
  std::uint64_t lost_ = 0;       // likewise
  std::atomic<bool> done_{false};
  std::thread reader_;
};

}  // namespace

std::unique_ptr<OnCpu> OnCpu::begin(pid_t pid, unsigned frequency) {
  std::vector<std::unique_ptr<Ring>> rings;
  for (long cpu = 0; cpu < sysconf(_SC_NPROCESSORS_CONF); ++cpu) {
    auto ring = Ring::open(static_cast<unsigned>(cpu), frequency);
    if (ring == nullptr && errno == ENODEV) ring = std::make_unique<Ring>();
    if (ring == nullptr) {
      ADD_FAILURE() << "perf_event_open: " << std::strerror(errno);
      return nullptr;
    }
    rings.push_back(std::move(ring));
  }
  return std::make_unique<Recording>(pid, std::move(rings));
}

}  // namespace vitrine::test
