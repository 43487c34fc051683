#include "target/process_memory.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <string>
#include <utility>

#include "target/memory_reader.hpp"
#include "target/threads.hpp"

namespace vitrine::target {
namespace {

using namespace std::chrono_literals;

// A batch stops at its first bad address and is sent again without it. That many times are cheap;
// past them a hostile target could make each read copy a thousand iovecs, so we go one by one.
constexpr std::size_t failures_in_batches = 64;

// A page from a disk takes milliseconds, of a machine that pages a lot more.
constexpr auto longest_wait = 500ms;
// What there is without budget: for a target that has withheld nothing yet and may only have been
// slow; and for one that has. Memory that is there takes microseconds.
constexpr auto min_wait = 100ms, shortest_wait = 2ms;
constexpr auto longest_while_stopped = 50ms;

}  // namespace

ProcessMemory::ShortBudget::ShortBudget(ProcessMemory& memory) : memory_(memory) {
  memory_.short_budget_.emplace(longest_while_stopped);
}

void ProcessMemory::read(std::span<ReadRequest> requests) {
  for (ReadRequest& request : requests) request.got = 0;
  gave_up_ = false;
  std::size_t failures = 0;
  while (!requests.empty()) {
    const std::size_t size = failures < failures_in_batches ? SharedBuffer::max_parts : 1;
    const Served served = read_batch(requests.first(std::min(size, requests.size())));
    if (served.failed) ++failures;
    requests = requests.subspan(served.requests);
  }
}

/// Makes parts of what the first requests still lack. Returns of how many.
std::size_t ProcessMemory::put_together(std::span<const ReadRequest> requests) {
  parts_.clear();
  std::size_t room = SharedBuffer::max_bytes;
  for (const ReadRequest& request : requests) {
    std::size_t size = request.into.size() - request.got;
    if (size > room && !parts_.empty()) break;
    size = std::min(size, room);
    room -= size;
    // An address of the other process: only the kernel follows it.
    parts_.push_back({reinterpret_cast<void*>(untag(request.address) + request.got), size});
  }
  return parts_.size();
}

/// Gives the requests what there is of their parts, up to and including the first that is not whole.
ProcessMemory::Served ProcessMemory::take(std::span<ReadRequest> requests,
                                          std::span<const std::byte> bytes) const {
  for (std::size_t i = 0; i < requests.size(); ++i) {
    ReadRequest& request = requests[i];
    const std::size_t size = std::min(bytes.size(), parts_[i].iov_len);
    std::ranges::copy(bytes.first(size),
                      request.into.begin() + static_cast<std::ptrdiff_t>(request.got));
    request.got += size;
    bytes = bytes.subspan(size);
    if (size < parts_[i].iov_len) return {i + 1, true};
    if (!request.complete()) return {i, false};  // it is larger than a buffer: the rest comes next
  }
  return {requests.size(), false};
}

/// Serves requests from the first on.
ProcessMemory::Served ProcessMemory::read_batch(std::span<ReadRequest> requests) {
  const Served given_up{requests.size(), true};
  MemoryReader& reader = MemoryReader::of_this_thread();
  requests = requests.first(put_together(requests));
  for (;;) {
    if (budget_.exhausted() || (short_budget_ && short_budget_->exhausted())) {
      give_up(requests.front().address);
      return given_up;
    }
    const auto begin = TimeoutBudget::Clock::now();
    auto time = std::min(
        {budget_.left(begin), reader.budget().left(begin), TimeoutBudget::Duration(longest_wait)});
    if (short_budget_) time = std::min(time, short_budget_->left(begin));
    const auto response =
        reader.ask({tid_, file_.get(), one_by_one_, parts_},
                   std::max<TimeoutBudget::Duration>(time, one_by_one_ ? shortest_wait : min_wait));
    const auto waited = TimeoutBudget::Clock::now() - begin;
    if (waited > shortest_wait) {
      // What came at last may have come late for want of a processor: then the time limits stay.
      for (TimeoutBudget* budget :
           {&budget_, &reader.budget(), short_budget_ ? &*short_budget_ : nullptr})
        if (budget != nullptr)
          budget->spend(response.stalled
                            ? waited
                            : std::clamp(budget->left(), TimeoutBudget::Duration(0), waited));
    }
    if (response.stalled && !std::exchange(one_by_one_, true) && !file_)
      continue;  // to know what it is that does not come
    const bool refused = response.error == EAGAIN ||
                         (!file_ && (response.error == ESRCH || response.error == EPERM ||
                                     response.error == ENOSYS));
    if (response.bytes.empty() && refused) {
      if (recover(response.error)) continue;
      return given_up;
    }
    if (!is_same_process()) {
      if (recover(ESRCH)) continue;
      return given_up;
    }
    const Served served = take(requests, response.bytes);
    if (response.stalled && served.failed) {
      const ReadRequest& last = requests[served.requests - 1];
      give_up(last.address + last.got);
    }
    return served;
  }
}

void ProcessMemory::give_up(Address address) {
  gave_up_ = true;
  if (!withheld_) withheld_ = untag(address);
}

/// After a refusal: true when there is another way to try.
bool ProcessMemory::recover(int error) {
  refusal_ = error;
  if (error == EAGAIN) return false;
  if (error == ESRCH) {
    if (!follow_live_thread()) return false;
  } else {
    // To open it takes the same lock as to open auxv, which the reader can be left behind with.
    const MemoryReader::FileEnd end(MemoryReader::of_this_thread());
    if (ask_proc(
            {proc_dir_, fmt::format("task/{}/auxv", tid_).c_str(), SharedBuffer::Proc::text, 0})
            .stalled)
      return false;
    auto file = open_at(proc_dir_, "task/" + std::to_string(tid_) + "/mem", O_RDONLY);
    if (!file) return false;
    file_ = std::move(*file);
  }
  refusal_ = 0;
  return true;
}

/// Whether `tid_` is not the number of another process's thread by now.
bool ProcessMemory::is_same_process() const {
  return !thread_ || file_ || ::faccessat(thread_.get(), "stat", F_OK, 0) == 0;
}

/// False: there is no other thread than that which was tried.
bool ProcessMemory::follow_live_thread() {
  const bool tried = is_same_process();
  for (int attempt = 0; attempt < threads_followed; ++attempt) {
    const auto live = live_thread(proc_dir_);
    if (!live || (tried && *live == tid_)) return false;
    auto thread = open_at(proc_dir_, fmt::format("task/{}", *live), O_PATH | O_DIRECTORY);
    if (!thread) continue;  // it has ended since
    tid_ = *live;
    thread_ = tid_ == pid_ ? FileDescriptor() : std::move(*thread);
    return true;
  }
  return false;
}

Error ProcessMemory::explain(Error error) const {
  if (const auto why = withheld(); !why.empty() && error.message.find(why) == std::string::npos)
    error.message += ": " + why;
  return error;
}

std::string ProcessMemory::withheld() const {
  if (!withheld_) return {};
  return fmt::format(
      "memory of process {} is blocked by a userfaultfd or a user-space file system (the first at "
      "{:#x})",
      pid_, *withheld_);
}

void WatchedMemory::add(Address address, std::span<const std::byte> bytes) {
  places_.emplace_back(address, bytes.size());
  bytes_.insert(bytes_.end(), bytes.begin(), bytes.end());
}

void WatchedMemory::add_all(const WatchedMemory& other) {
  places_.insert(places_.end(), other.places_.begin(), other.places_.end());
  bytes_.insert(bytes_.end(), other.bytes_.begin(), other.bytes_.end());
}

bool WatchedMemory::changed(Memory& memory) const {
  std::vector<std::byte> now(bytes_.size());
  std::vector<ReadRequest> requests;
  requests.reserve(places_.size());
  std::span<std::byte> rest(now);
  for (const auto& [address, size] : places_) {
    requests.push_back({address, rest.first(size), 0});
    rest = rest.subspan(size);
  }
  memory.read(requests);
  return now != bytes_ || !std::all_of(requests.begin(), requests.end(),
                                       [](const ReadRequest& read) { return read.complete(); });
}

void WatchedMemory::clear() {
  places_.clear();
  bytes_.clear();
}

}  // namespace vitrine::target
