#include "target/process_events.hpp"

#include <fmt/format.h>
#include <linux/perf_event.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <map>
#include <mutex>
#include <optional>
#include <span>
#include <utility>

#include "base/own_process.hpp"
#include "target/cpu_events.hpp"
#include "target/proc_file.hpp"

namespace vitrine::target {
namespace {

// Each wake-up interrupts the CPU that the event is on. Of a storm of short processes, which makes thousands
// of events a second, that would be the larger part. Records therefore go into rings without a wake-up, and
// wait() sleeps on bells: a second ring for each CPU, with a wake-up for each record, that is paused from the
// first wake-up until the next wait.
//
// No event is lost between two waits: a bell is opened before its ring, and the kernel writes to the one
// that was opened last first. What a paused bell did not ring for is in the ring before wait() looks there,
// and that is after it has resumed the bells. The two CPUs order none of it by a barrier: now and then, an
// event is seen only when the time of wait() is over.
//
// A second thread sleeps on the rings themselves, which report every quarter that is filled. So it does nothing
// where little happens, and where much does, it has the time that three quarters take.

constexpr std::size_t ring_pages = 64;  // a power of two: some 2000 records a CPU
/// The longest record is one of a mapped file: 4 KiB of its path.
constexpr std::size_t bell_pages = 2;
/// Taken out of the rings, and not asked for yet. A path takes up to 4 KiB.
constexpr std::size_t max_collected = 64 * 1024, max_collected_bytes = 16U << 20;

/// At the end of every record but samples, as asked for by sample_id_all.
struct SampleId {
  std::uint32_t pid, tid;
  std::uint64_t time;
};

struct TaskRecord {  // PERF_RECORD_FORK, PERF_RECORD_EXIT
  perf_event_header header;
  std::uint32_t pid, parent_pid;
  std::uint32_t tid, parent_tid;
  std::uint64_t time;
};

struct CommRecord {
  perf_event_header header;
  std::uint32_t pid, tid;
};

struct Mmap2Record {
  perf_event_header header;
  std::uint32_t pid, tid;
  std::uint64_t address, length, offset;
  std::uint32_t major, minor;
  std::uint64_t inode, generation;
  std::uint32_t protection, flags;  // then the path
};

struct LostRecord {
  perf_event_header header;
  std::uint64_t id, lost;
};

template <class Record>
Record as(std::span<const std::byte> bytes) {
  Record record{};
  std::memcpy(&record, bytes.data(), std::min(bytes.size(), sizeof record));
  return record;
}

/// As maps has it. Code that is in no file has no name there.
Mapping mapping_of(std::span<const std::byte> bytes) {
  const auto record = as<Mmap2Record>(bytes);
  Mapping mapping;
  mapping.start = record.address;
  mapping.end = record.address + record.length;
  mapping.readable = (record.protection & PROT_READ) != 0;
  mapping.writable = (record.protection & PROT_WRITE) != 0;
  mapping.executable = (record.protection & PROT_EXEC) != 0;
  mapping.shared = (record.flags & MAP_SHARED) != 0;
  mapping.offset = record.inode != 0 ? record.offset : 0;
  mapping.inode = record.inode;
  mapping.device = makedev(record.major, record.minor);
  if (bytes.size() > sizeof record + sizeof(SampleId)) {
    const auto path = bytes.subspan(sizeof record, bytes.size() - sizeof record - sizeof(SampleId));
    const auto* const text = reinterpret_cast<const char*>(path.data());
    mapping.name.assign(text, ::strnlen(text, path.size()));
  }
  if (mapping.name == "//anon") mapping.name.clear();
  return mapping;
}

/// One CPU's records.
class Ring {
 public:
  Ring(FileDescriptor file, void* memory, std::size_t page, std::size_t pages)
      : event_(std::move(file)), memory_(memory), page_(page), pages_(pages) {}
  Ring(Ring&& other) noexcept
      : event_(std::move(other.event_)),
        memory_(std::exchange(other.memory_, nullptr)),
        page_(other.page_),
        pages_(other.pages_) {}
  Ring& operator=(Ring&&) = delete;
  /// The kernel does not map it in a fork: at its place there is something else by then.
  ~Ring() {
    if (!record_.is_here()) return;
    if (memory_ != nullptr) ::munmap(memory_, (pages_ + 1) * page_);
  }

  [[nodiscard]] const FileDescriptor& file() const { return event_.file(); }
  [[nodiscard]] bool is_in_force() const { return event_.is_in_force(); }

  /// What comes is not written, without a wake-up, until resume().
  void pause() const { ::ioctl(file().get(), PERF_EVENT_IOC_PAUSE_OUTPUT, 1); }
  /// Forgets what is there.
  void resume() {
    auto* control = static_cast<perf_event_mmap_page*>(memory_);
    const std::uint64_t head = std::atomic_ref(control->data_head).load(std::memory_order_acquire);
    std::atomic_ref(control->data_tail).store(head, std::memory_order_release);
    ::ioctl(file().get(), PERF_EVENT_IOC_PAUSE_OUTPUT, 0);
  }

  template <class Sink>
  void take(Sink sink) {
    auto* control = static_cast<perf_event_mmap_page*>(memory_);
    const std::uint64_t size = pages_ * page_;
    const std::uint64_t head = std::atomic_ref(control->data_head).load(std::memory_order_acquire);
    std::uint64_t tail = control->data_tail;
    while (tail + sizeof(perf_event_header) <= head) {
      const auto header = as<perf_event_header>(copy(tail, sizeof(perf_event_header)));
      if (header.size < sizeof header || header.size > head - tail) break;
      sink(copy(tail, header.size));
      tail += header.size;
    }
    if (tail > head || head - tail > size) tail = head;  // not as documented: begin anew
    std::atomic_ref(control->data_tail).store(tail, std::memory_order_release);
  }

 private:
  /// Records may run over the end of the ring.
  std::span<const std::byte> copy(std::uint64_t at, std::size_t length) {
    const auto* data = static_cast<const std::byte*>(memory_) + page_;
    const std::uint64_t size = pages_ * page_;
    const std::uint64_t begin = at % size;
    const std::size_t first = std::min<std::uint64_t>(length, size - begin);
    record_->resize(length);
    std::memcpy(record_->data(), data + begin, first);
    std::memcpy(record_->data() + first, data, length - first);
    return *record_;
  }

  CpuEvent event_;
  void* memory_;
  std::size_t page_, pages_;
  EndsHere<std::vector<std::byte>> record_;  // as a thread may take records at any time
};

/// `wakeup_bytes`: those that are ready are reported after so many.
perf_event_attr process_records(std::size_t wakeup_bytes) {
  perf_event_attr attr{};
  attr.size = sizeof attr;
  attr.type = PERF_TYPE_SOFTWARE;
  attr.config = PERF_COUNT_SW_DUMMY;
  attr.sample_type = PERF_SAMPLE_TID | PERF_SAMPLE_TIME;
  attr.read_format = CpuEvent::read_format;
  attr.sample_id_all = 1;
  attr.mmap = 1;
  attr.mmap2 = 1;
  attr.comm = 1;
  attr.comm_exec = 1;
  attr.task = 1;
  attr.exclude_kernel = 1;
  attr.exclude_hv = 1;
  attr.use_clockid = 1;
  attr.clockid = CLOCK_MONOTONIC;
  attr.watermark = 1;
  attr.wakeup_watermark = static_cast<std::uint32_t>(wakeup_bytes);
  return attr;
}

class PerfProcessEvents final : public ProcessEvents {
 public:
  Result<void> begin() {
    for (FileDescriptor* const each : {&epoll_, &filled_}) {
      *each = FileDescriptor(::epoll_create1(EPOLL_CLOEXEC));
      if (!*each) return failed("epoll_create1", errno);
    }
    ended_ = FileDescriptor(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    if (!ended_) return failed("eventfd", errno);
    if (!add(filled_, ended_, EPOLLIN)) return failed("epoll_ctl", errno);
    return renew();
  }

  bool wait(std::chrono::milliseconds time) override {
    if (collect() == 0) {
      resume_bells();
      if (collect() == 0 && !has_rung(time)) return false;
    }
    pause_bells();
    return true;
  }

  [[nodiscard]] std::uint64_t lost() const override {
    const std::lock_guard lock(mutex_);
    return lost_;
  }

  std::vector<ProcessEvent> take() override {
    std::vector<ProcessEvent> events;
    if (std::chrono::steady_clock::now() - *renewed_at_ >= cpu_look_interval)
      static_cast<void>(renew());  // else it is tried again
    {
      const std::lock_guard lock(mutex_);
      drain();
      events.swap(*collected_);
      collected_bytes_ = 0;
    }
    std::stable_sort(events.begin(), events.end(),
                     [](const auto& a, const auto& b) { return a.time_ns < b.time_ns; });
    return events;
  }

  void wait_for_many() override {
    epoll_event event{};
    ::epoll_wait(filled_.get(), &event, 1, -1);
  }

  void end_waits() override {
    const std::uint64_t one = 1;
    static_cast<void>(!::write(ended_.get(), &one, sizeof one));
  }

  std::size_t collect() override {
    const std::lock_guard lock(mutex_);
    drain();
    return collected_->size();
  }

 private:
  static bool add(const FileDescriptor& epoll, const FileDescriptor& file, std::uint32_t events) {
    epoll_event event{};
    event.events = events;
    return ::epoll_ctl(epoll.get(), EPOLL_CTL_ADD, file.get(), &event) == 0;
  }

  static tl::unexpected<Error> failed(const char* what, int error) {
    if (error == EACCES || error == EPERM)
      return fail(ErrorCode::not_permitted,
                  "not permitted to observe forks, executed programs and mapped files of processes",
                  "run as root, or with CAP_PERFMON");
    return fail(ErrorCode::failed, fmt::format("{}: {}", what, std::strerror(error)));
  }

  /// Nothing: there is no such CPU at this time.
  static Result<std::optional<Ring>> open_ring(int cpu, std::size_t page, std::size_t pages,
                                               std::size_t wakeup_bytes) {
    perf_event_attr attr = process_records(wakeup_bytes);
    FileDescriptor file(
        static_cast<int>(::syscall(SYS_perf_event_open, &attr, -1, cpu, -1, PERF_FLAG_FD_CLOEXEC)));
    if (!file && errno == ENODEV) return std::nullopt;
    if (!file) return failed("perf_event_open", errno);
    void* memory =
        ::mmap(nullptr, (pages + 1) * page, PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0);
    if (memory == MAP_FAILED) return failed("map the kernel's records of processes", errno);
    return Ring(std::move(file), memory, page, pages);
  }

  /// Of CPUs that have come online since. What has happened there before is lost, but for the first time.
  Result<void> renew() {
    const bool is_first = !renewed_at_;
    renewed_at_ = std::chrono::steady_clock::now();
    const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
    for (const int cpu : online_cpus()) {
      const std::lock_guard lock(mutex_);
      const auto known = rings_.find(cpu);
      if (known != rings_.end() && known->second.is_in_force()) continue;
      auto bell = TRY(open_ring(cpu, page, bell_pages, 1));
      if (!bell) continue;  // offline
      if (!bells_on_) bell->pause();
      auto ring = TRY(open_ring(cpu, page, ring_pages, ring_pages * page / 4));
      if (!ring) continue;
      // Edge-triggered: of a CPU that has gone there would be no end.
      if (!add(epoll_, bell->file(), EPOLLIN) || !add(filled_, ring->file(), EPOLLIN | EPOLLET))
        return failed("epoll_ctl", errno);
      if (known != rings_.end()) {
        drain();
        rings_.erase(known);
        bells_.erase(cpu);
      }
      rings_.emplace(cpu, std::move(*ring));
      bells_.emplace(cpu, std::move(*bell));
      if (!is_first) ++lost_;
    }
    return {};
  }

  void resume_bells() {
    if (std::exchange(bells_on_, true)) return;
    for (auto& [cpu, bell] : bells_) bell.resume();
  }

  void pause_bells() {
    if (!std::exchange(bells_on_, false)) return;
    for (const auto& [cpu, bell] : bells_) bell.pause();
    has_rung(std::chrono::milliseconds(0));  // else the next wait would end by it
  }

  bool has_rung(std::chrono::milliseconds within) {
    std::array<epoll_event, 64> rung{};
    const int most = static_cast<int>(within.count());
    return ::epoll_wait(epoll_.get(), rung.data(), rung.size(), most) > 0;
  }

  void drain() {
    for (auto& [cpu, ring] : rings_)
      ring.take([this](std::span<const std::byte> record) { add(record); });
  }

  void add(std::span<const std::byte> record) {
    const auto header = as<perf_event_header>(record);
    ProcessEvent event;
    if (record.size() >= sizeof header + sizeof(SampleId))
      event.time_ns = as<SampleId>(record.last(sizeof(SampleId))).time;
    switch (header.type) {
      case PERF_RECORD_FORK:
      case PERF_RECORD_EXIT: {
        const auto task = as<TaskRecord>(record);
        event.pid = static_cast<pid_t>(task.pid);
        event.parent = static_cast<pid_t>(task.parent_pid);
        event.kind = header.type == PERF_RECORD_FORK ? ProcessEvent::Kind::forked
                                                     : ProcessEvent::Kind::exited;
        // A thread that comes is no process. One that ends may be the last: only /proc knows, and
        // callers that need it ask.
        if (header.type == PERF_RECORD_FORK && task.pid == task.parent_pid) return;
        if (header.type == PERF_RECORD_EXIT && task.pid != task.tid) return;
        break;
      }
      case PERF_RECORD_COMM: {
        if ((header.misc & PERF_RECORD_MISC_COMM_EXEC) == 0) return;
        event.pid = static_cast<pid_t>(as<CommRecord>(record).pid);
        event.kind = ProcessEvent::Kind::executed;
        break;
      }
      case PERF_RECORD_MMAP2: {
        event.pid = static_cast<pid_t>(as<Mmap2Record>(record).pid);
        event.kind = ProcessEvent::Kind::mapped;
        event.mapping = mapping_of(record);
        break;
      }
      case PERF_RECORD_LOST:
        lost_ += as<LostRecord>(record).lost;
        return;
      default:
        return;
    }
    if (event.pid <= 0) return;  // of another pid namespace
    if (collected_->size() >= max_collected || collected_bytes_ >= max_collected_bytes) {
      ++lost_;
      return;
    }
    collected_bytes_ += sizeof event + event.mapping.name.size();
    collected_->push_back(std::move(event));
  }

  FileDescriptor filled_;  ///< epoll of the rings, and of:
  FileDescriptor ended_;

  // Of the thread that waits:
  FileDescriptor epoll_;       ///< of the bells
  std::map<int, Ring> bells_;  ///< by CPU
  bool bells_on_ = false;
  std::optional<std::chrono::steady_clock::time_point> renewed_at_;

  mutable std::mutex mutex_;
  // Under the mutex:
  std::map<int, Ring> rings_;  ///< by CPU
  EndsHere<std::vector<ProcessEvent>> collected_;
  std::size_t collected_bytes_ = 0;
  std::uint64_t lost_ = 0;
};

}  // namespace

Result<std::unique_ptr<ProcessEvents>> ProcessEvents::open() {
  auto events = std::make_unique<PerfProcessEvents>();
  TRY(events->begin());
  return events;
}

}  // namespace vitrine::target
