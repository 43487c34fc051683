#include "symbol/background.hpp"

#include <fcntl.h>

#include <algorithm>
#include <new>
#include <system_error>
#include <tuple>
#include <utility>

#include "base/limits.hpp"
#include "base/pack.hpp"
#include "base/signals.hpp"
#include "elf/file.hpp"
#include "elf/notes.hpp"
#include "sandbox/confinement.hpp"
#include "sandbox/worker.hpp"
#include "symbol/function_symbols.hpp"

namespace vitrine::symbol {

template <pack::Of<FileNumbers> T>
auto fields(T& numbers) {
  auto& [build_id, content_hash] = numbers;
  return std::tie(build_id, content_hash);
}

namespace {

/// Nearly all files need less; those of Chromium some seconds.
constexpr std::chrono::milliseconds quick_time{1000};
constexpr std::chrono::milliseconds time_in_a_hurry{2000}, look_at_hurry{50};

/// Of the files that the worker for quick ones has open: each is asked for names again soon.
constexpr std::uint64_t quick_open = 512U << 20;
constexpr std::chrono::seconds quick_idle{10}, slow_idle{60};

// Of Duty::always_on. What few files need more than: they go to the slow worker, and are named by their
// symbol tables where that is too little, too.
constexpr std::uint64_t quick_data = 64U << 20, slow_data = 512U << 20;
/// Debug information of libc, which nearly all stacks are in, is 14 MiB.
constexpr std::uint64_t always_on_open = 18U << 20, always_on_kept = 32U << 20;
constexpr std::chrono::seconds always_on_idle{60};
constexpr int always_on_pause = 500;
/// Some twenty large files at first; later, what a program that is started needs.
constexpr Ration always_on_ration{std::chrono::milliseconds(500), std::chrono::milliseconds(250),
                                  std::chrono::minutes(1)};
/// Of the debug information of a file that has not been read: libc takes that long for each MiB of its code.
constexpr std::chrono::milliseconds likely_time_of_mebibyte{30};
/// A sparse file may seem to be larger.
constexpr std::int64_t max_likely_size = std::int64_t{1} << 40;

FileDescriptor copy_of(int descriptor) {
  return FileDescriptor(::fcntl(descriptor, F_DUPFD_CLOEXEC, 0));
}

/// In a worker.
Result<FileNumbers> parse_numbers(const sandbox::Nothing&, FileDescriptor descriptor) {
  const auto file = TRY(sandbox::FileMemory::from(std::move(descriptor)));
  const auto size = std::max<std::int64_t>(0, file->identity().size);
  FileNumbers numbers{{}, content_hash(*file, static_cast<std::uint64_t>(size))};
  if (const auto elf = elf::read_file(*file)) numbers.build_id = elf::hex_build_id(*file, *elf);
  return numbers;
}

FileNumbers read_numbers(sandbox::Parser& parser, int descriptor) {
  const sandbox::Parser::ShortTime short_time(parser, quick_time);
  return parser.ask<&parse_numbers>({}, descriptor).value_or(FileNumbers());
}

}  // namespace

BackgroundLimits background_limits(Duty duty) {
  BackgroundLimits limits;
  limits.quick.time = quick_time;
  // At most half of the memory, with what the workers of both threads keep.
  limits.quick.worker_data = sandbox::share_of_memory(8);
  limits.slow.worker_data = sandbox::share_of_memory(4);
  for (Limits* each : {&limits.quick, &limits.slow})
    each->kept_memory = std::min(each->kept_memory, sandbox::share_of_memory(16));
  // What is read again takes little time; of the slow files, many seconds.
  limits.quick.open_memory = std::min(quick_open, limits.quick.kept_memory / 2);
  limits.quick.idle = quick_idle;
  limits.slow.idle = slow_idle;
  if (duty == Duty::once) return limits;
  limits.slow_pause = always_on_pause;
  limits.ration = always_on_ration;
  limits.quick.starts_early = true;
  limits.quick.worker_data = std::min(limits.quick.worker_data, quick_data);
  limits.slow.worker_data = std::min(limits.slow.worker_data, slow_data);
  for (Limits* each : {&limits.quick, &limits.slow}) {
    each->kept_memory = each->trimmed_memory = std::min(each->kept_memory, always_on_kept);
    each->open_memory = always_on_open;
    each->idle = always_on_idle;
  }
  // Which is not asked again soon.
  limits.slow.open_memory = 0;
  limits.slow.idle = std::chrono::seconds(1);
  return limits;
}

RationLeft::RationLeft(const Ration& ration, Clock::time_point began)
    : ration_(ration), first_ends_(began + ration.first_time), left_(ration.at_first) {}

void RationLeft::save(std::chrono::nanoseconds cpu_time) {
  left_ = std::max(left_, std::min(left_ + cpu_time, ration_.most));
}

void RationLeft::spend(std::chrono::nanoseconds cpu_time) {
  left_ = std::max(left_ - cpu_time, -ration_.most);
}

bool RationLeft::suffices_for(std::chrono::nanoseconds likely, Clock::time_point now) {
  if (is_first_ && now >= first_ends_) {
    is_first_ = false;
    left_ = std::min(left_, std::chrono::nanoseconds(0));
  }
  return is_first_ ? left_ > std::chrono::nanoseconds(0) : left_ >= std::min(likely, ration_.most);
}

BackgroundSymboliser::BackgroundSymboliser(const BackgroundLimits& limits) : limits_(limits) {
  if (limits.ration) ration_.emplace(*limits.ration, Clock::now());
  limits_.quick.stop = limits_.slow.stop = &stop_;
  limits_.quick.keeps_names = limits_.slow.keeps_names = false;
}

void BackgroundSymboliser::begin() {
  const std::lock_guard lock(mutex_);
  start_threads();
}

void BackgroundSymboliser::allow(std::chrono::nanoseconds cpu_time) {
  const std::lock_guard lock(mutex_);
  if (!ration_) return;
  ration_->save(cpu_time);
  take_up();
}

/// Goes on with what has been put off longest, if there is time for it. name_one() then calls this again.
void BackgroundSymboliser::take_up() {
  const auto first = oldest(put_off_);
  if (first == put_off_.end() || !may_read_details(first->first)) return;
  auto next = put_off_.extract(first);
  add(quick_.waiting, next.key(), std::move(next.mapped()));
  asked_.notify_all();
}

bool BackgroundSymboliser::may_read_details(const FileKey& key) {
  if (!ration_) return true;
  const auto size = std::clamp<std::int64_t>(key.first.size, 0, max_likely_size);
  const auto of_size = likely_time_of_mebibyte * (static_cast<double>(size) / (1U << 20));
  const auto likely = files_[key].details_took.value_or(
      std::chrono::duration_cast<std::chrono::nanoseconds>(of_size));
  return ration_->suffices_for(likely, Clock::now());
}

BackgroundSymboliser::~BackgroundSymboliser() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  asked_.notify_all();
  for (Lane* lane : {&quick_, &slow_})
    if (lane->thread.joinable()) lane->thread.join();
}

void BackgroundSymboliser::ask(const File& file, std::span<const Address> addresses) {
  const std::unique_lock lock(mutex_);
  const FileKey key = key_of(file);
  KnownFile& known = files_[key];
  known.used = ++requests_;
  Request request;
  request.number = requests_;
  for (const Address address : addresses)
    if (!known.frames.contains(address)) request.addresses.insert(address);
  if (request.addresses.empty() && known.numbered) return;
  request.path = file.path;
  request.descriptor = copy_of(file.descriptor);
  if (!request.descriptor) {
    known.problem = "too many files are open";
    return;
  }
  for (const int root : file.root_dirs) request.roots.push_back(copy_of(root));
  if (!start_threads()) {
    known.problem = "no thread can be started that reads its symbols";
    return;
  }
  add(quick_.waiting, key, std::move(request));
  asked_.notify_all();
}

bool BackgroundSymboliser::start_threads() {
  if (slow_.thread.joinable()) return true;
  // Signals are for the threads of the caller.
  const SignalsBlocked blocked;
  try {
    if (!quick_.thread.joinable())
      quick_.thread = std::thread([this] { work(quick_, limits_.quick); });
    slow_.thread = std::thread([this] { work(slow_, limits_.slow); });
  } catch (const std::system_error&) {  // the next file may have more luck
  }
  return slow_.thread.joinable();
}

void BackgroundSymboliser::add(std::map<FileKey, Request>& waiting, const FileKey& key,
                               Request request) {
  const auto [known, is_new] = waiting.try_emplace(key);
  if (is_new) {
    known->second = std::move(request);
  } else {
    known->second.addresses.merge(request.addresses);
    known->second.rationed.merge(request.rationed);
  }
}

std::map<FileKey, BackgroundSymboliser::Request>::iterator BackgroundSymboliser::oldest(
    std::map<FileKey, Request>& waiting) {
  return std::ranges::min_element(waiting, {}, [](const auto& one) { return one.second.number; });
}

std::map<FileKey, BackgroundSymboliser::Request>::iterator BackgroundSymboliser::Lane::due() {
  const auto now = Clock::now();
  auto found = waiting.end();
  for (auto at = waiting.begin(); at != waiting.end(); ++at)
    if (at->second.not_before <= now &&
        (found == waiting.end() || at->second.number < found->second.number))
      found = at;
  return found;
}

void BackgroundSymboliser::wait(const TimeBudget& budget) {
  std::unique_lock lock(mutex_);
  const auto idle = [](Lane& lane) { return !lane.busy && lane.due() == lane.waiting.end(); };
  const auto is_done = [&] { return idle(quick_) && idle(slow_); };
  auto until = budget.until;
  bool is_hurried = budget.hurry == nullptr;
  while (Clock::now() < until) {
    if (!is_hurried && budget.hurry->load()) {
      is_hurried = true;
      until = std::min(until, Clock::now() + time_in_a_hurry);
    }
    const auto next = is_hurried ? until : std::min(until, Clock::now() + look_at_hurry);
    if (resolved_.wait_until(lock, next, is_done)) return;
  }
}

/// The numbers of files cost little, and a profile should have them all: they come before names.
bool BackgroundSymboliser::number_one(Lane& lane, Symboliser& symboliser,
                                      std::unique_lock<std::mutex>& lock) {
  const auto next = std::find_if(lane.waiting.begin(), lane.waiting.end(),
                                 [&](const auto& one) { return !files_[one.first].numbered; });
  if (next == lane.waiting.end()) return false;
  const FileKey key = next->first;
  const FileDescriptor file = copy_of(next->second.descriptor.get());
  lock.unlock();
  FileNumbers numbers = read_numbers(symboliser.parser(), file.get());
  lock.lock();
  KnownFile& known = files_[key];
  known.numbers = std::move(numbers);
  known.numbered = true;
  if (const auto waiting = lane.waiting.find(key); waiting != lane.waiting.end() &&
                                                   waiting->second.addresses.empty() &&
                                                   waiting->second.rationed.empty())
    lane.waiting.erase(waiting);
  return true;
}

void BackgroundSymboliser::work(Lane& lane, const Limits& limits) {
  Symboliser symboliser(limits);
  if (limits.starts_early) static_cast<void>(symboliser.parser().hold());
  std::unique_lock lock(mutex_);
  for (;;) {
    while (!stop_ && lane.due() == lane.waiting.end()) {
      if (lane.waiting.empty()) {
        asked_.wait(lock);
        continue;
      }
      const auto first = std::ranges::min_element(
          lane.waiting, {}, [](const auto& one) { return one.second.not_before; });
      asked_.wait_until(lock, first->second.not_before);
    }
    if (stop_) return;
    lane.busy = true;
    try {
      if (!number_one(lane, symboliser, lock)) name_one(lane, symboliser, lock);
    } catch (const std::bad_alloc&) {  // what was asked for stays without names
      if (!lock.owns_lock()) lock.lock();
      lane.waiting.clear();
    }
    lane.busy = false;
    resolved_.notify_all();
  }
}

void BackgroundSymboliser::name_one(Lane& lane, Symboliser& symboliser,
                                    std::unique_lock<std::mutex>& lock) {
  auto next = lane.waiting.extract(lane.due());
  const FileKey& key = next.key();
  Request& request = next.mapped();
  const bool is_quick = &lane == &quick_;
  if (is_quick) {  // what was asked for again while it was looked up
    const KnownFile& known = files_[key];
    std::erase_if(request.addresses, [&](Address one) { return known.frames.contains(one); });
  }
  // Those that have been put off come first.
  const bool has_turn = !is_quick || !request.rationed.empty() || put_off_.empty();
  const Depth depth =
      !is_quick || (has_turn && may_read_details(key)) ? Depth::all : Depth::symbols;
  std::set<Address>& wanted = request.addresses;
  if (depth == Depth::all) wanted.merge(request.rationed);
  if (wanted.empty()) return put_off(key, std::move(request));
  lock.unlock();
  File file{request.path, request.descriptor.get(), {}, key.first};
  for (const FileDescriptor& root : request.roots)
    if (root) file.root_dirs.push_back(root.get());
  const std::vector<Address> addresses(wanted.begin(), wanted.end());
  const auto worker = symboliser.parser().worker_number();
  const auto used = symboliser.parser().cpu_time();
  const auto began = Clock::now();
  const Resolved resolved = symboliser.resolve(file, addresses, depth);
  const auto ended = Clock::now();
  const bool is_same_worker = symboliser.parser().worker_number() == worker;
  const auto took = is_same_worker ? symboliser.parser().cpu_time() - used : ended - began;
  lock.lock();
  if (stop_) return;
  KnownFile& known = files_[key];
  if (is_quick && ration_ && depth == Depth::all && !resolved.reduced) {
    ration_->spend(took);
    // Of a file that is still open, a look takes little: it may be closed by the next.
    known.details_took = std::max(known.details_took.value_or(took), took);
  }
  if (is_quick && depth == Depth::all) take_up();
  if (!is_quick) known.slow_after = ended + limits_.slow_pause * (ended - began);
  take(key, addresses, resolved);
  if (!is_quick || !known.slow_done) known.problem = resolved.problem;
  if (!is_quick) {
    known.slow_done = true;
    known.given_up = resolved.reduced;
  } else if (resolved.reduced) {
    request.not_before = known.slow_after;
    if (!known.given_up) add(slow_.waiting, key, std::move(request));
    asked_.notify_all();
  } else if (depth == Depth::symbols) {
    request.rationed.merge(request.addresses);
    put_off(key, std::move(request));
  }
  make_room();
}

void BackgroundSymboliser::take(const FileKey& key, std::span<const Address> addresses,
                                const Resolved& resolved) {
  KnownFile& known = files_[key];
  for (std::size_t i = 0; i < addresses.size(); ++i) {
    const auto [place, is_new] = known.frames.insert_or_assign(addresses[i], resolved.frames[i]);
    frames_ += is_new ? 1 : 0;
  }
}

/// What has waited longest is dropped where there is no room, to be asked for when it is sampled again.
void BackgroundSymboliser::put_off(const FileKey& key, Request request) {
  if (request.rationed.empty()) return;
  add(put_off_, key, std::move(request));
  if (put_off_.size() <= max_put_off) return;
  const auto dropped = oldest(put_off_);
  auto& frames = files_[dropped->first].frames;
  for (const Address address : dropped->second.rationed) frames_ -= frames.erase(address);
  put_off_.erase(dropped);
}

/// Forgets the files that were asked about longest ago.
void BackgroundSymboliser::make_room() {
  while (files_.size() > 1 &&
         (files_.size() > limits::symbol_files || frames_ > limits::symbol_frames)) {
    const auto oldest = std::min_element(
        files_.begin(), files_.end(),
        [](const auto& a, const auto& b) { return a.second.used < b.second.used; });
    frames_ -= oldest->second.frames.size();
    put_off_.erase(oldest->first);
    files_.erase(oldest);
  }
}

BackgroundSymboliser::Known BackgroundSymboliser::names(const FileKey& file,
                                                        std::span<const Address> addresses) {
  const std::lock_guard lock(mutex_);
  Known found;
  found.resolved.frames.resize(addresses.size());
  found.unresolved = addresses.size();
  const auto known = files_.find(file);
  if (known == files_.end()) return found;
  for (std::size_t i = 0; i < addresses.size(); ++i) {
    const auto frames = known->second.frames.find(addresses[i]);
    if (frames == known->second.frames.end()) continue;
    found.resolved.frames[i] = frames->second;
    --found.unresolved;
  }
  found.resolved.problem = known->second.problem;
  return found;
}

FileNumbers BackgroundSymboliser::numbers(const FileKey& file) {
  const std::lock_guard lock(mutex_);
  const auto known = files_.find(file);
  return known == files_.end() ? FileNumbers{} : known->second.numbers;
}

}  // namespace vitrine::symbol
