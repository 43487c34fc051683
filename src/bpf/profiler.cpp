#include "bpf/profiler.hpp"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <fmt/format.h>
#include <linux/perf_event.h>
#include <profiler.skel.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <mutex>
#include <optional>
#include <string_view>

#include "base/clock.hpp"
#include "base/limits.hpp"
#include "bpf/cpu_clocks.hpp"
#include "bpf/event.hpp"
#include "bpf/kernel_log.hpp"
#include "bpf/kernel_types.hpp"
#include "bpf/mapped_array.hpp"
#include "bpf/record_ring.hpp"
#include "bpf/span_logs.hpp"
#include "bpf/target_maps.hpp"
#include "bpf/thread_iterator.hpp"

namespace vitrine::bpf {
namespace {

using std::chrono::milliseconds;

Result<void> check(const ProfilerOptions& options) {
  if (options.stack_bytes > limits::stack_copy)
    return fail(ErrorCode::usage, fmt::format("at most {} bytes of a stack can be copied, not {}",
                                              limits::stack_copy, options.stack_bytes));
  return {};
}

/// Those used last are kept.
constexpr std::uint32_t refused_subjects = 16 * 1024, refused_processes = 8 * 1024;

/// How long renew_rows() may take to catch up with what has been sampled.
constexpr std::chrono::seconds longest_renewal{1};

/// Runs a program of SEC("syscall") once. Returns an errno.
int run(const bpf_program* program) {
  bpf_test_run_opts options{};
  options.sz = sizeof options;
  return -bpf_prog_test_run_opts(bpf_program__fd(program), &options);
}

/// Rows, and the mapping that has them.
struct MappedRows {
  explicit MappedRows(MappedArray<vitrine_row> array)
      : mapped(std::move(array)), table(mapped.values()) {}

  MappedArray<vitrine_row> mapped;
  RowTable table;
};

/// The logs of spans, and the mapping that has them.
struct MappedSpans {
  MappedSpans(MappedArray<vitrine_span_place> array, std::size_t places)
      : mapped(std::move(array)), logs(mapped.values(), places) {}

  MappedArray<vitrine_span_place> mapped;
  SpanLogs logs;
};

class LoadedProfiler final : public Profiler {
 public:
  explicit LoadedProfiler(const ProfilerOptions& options)
      : options_(options), kept_(options.kept_sets_bytes) {}

  ~LoadedProfiler() override {
    detach();
    waiting_.reset();
    ring_.reset();  // before what it reads
    rows_.reset();
    spans_.reset();
    vitrine_profiler::destroy(program_);
  }

  Result<void> load() {
    const auto config = TRY(event_config(ring_bytes(), kept_.epoch()));
    const KernelLog log;
    if (const int error = load_program())
      return tl::unexpected(log.error("load the profiler", error));
    TRY(require_variables(program_->bss, "the profiler"));
    program_->bss->config = config;
    program_->bss->profile_state.selection = options_.selects ? 1 : 0;
    targets_ = {fd(program_->maps.targets), fd(program_->maps.assumed)};
    if (options_.unwinds != VITRINE_UNWINDS_NOT)
      unwind_tables_ = TRY(UnwindTables::open(
          fd(program_->maps.unwind_tables), fd(program_->maps.unwind_pages),
          fd(program_->maps.unwind_spaces), program_->bss->profile_state.spaces));
    if (rows() != 0)
      rows_.emplace(TRY(MappedArray<vitrine_row>::open(
          fd(program_->maps.rows), std::size_t{2} * rows(), "the rows of a profile")));
    if (span_places() != 0)
      spans_.emplace(TRY(MappedArray<vitrine_span_place>::open(
                         fd(program_->maps.span_logs), std::size_t{scratches()} * span_places(),
                         "the spans of a profile")),
                     span_places());
    if (options_.off_cpu) {
      run(program_->progs.find_scheduler);
      const __u32 only = 0;
      const vitrine_unused_blocks unused{0, blocks(), 0};
      if (bpf_map_update_elem(fd(program_->maps.unused_blocks), &only, &unused, BPF_ANY) != 0)
        return tl::unexpected(log.error("allocate the buffer of waiting threads", errno));
      load_waiting();
    }
    ring_.emplace().collect(options_.taken_bytes);
    return ring_->open(fd(program_->maps.events), &program_->bss->reader_waits);
  }

  Result<void> start() override {
    stopped_ns_ = 0;
    // Without it, regions are used until others are given.
    if (options_.unwinds != VITRINE_UNWINDS_NOT)
      if (bpf_link* link = bpf_program__attach(program_->progs.reused)) links_.push_back(link);
    if (auto begun = start_clocks(); !begun) {
      detach();
      return begun;
    }
    if (!options_.off_cpu) return {};
    if (auto watched = watch_switches(); !watched) {
      detach();
      return watched;
    }
    return {};
  }

  Result<std::vector<int>> renew_clocks() override {
    return clocks_.are_started() ? clocks_.renew() : std::vector<int>{};
  }

  void end_at(std::uint64_t end_ns) override { program_->bss->profile_state.end_ns = end_ns; }

  void stop() override {
    if (links_.empty() && !clocks_.are_started()) return;
    detach();
    stopped_ns_ = kernel_time_ns();
    if (const std::uint64_t end_ns = program_->bss->profile_state.end_ns)
      stopped_ns_ = std::min(stopped_ns_, end_ns);
    let_programs_end();  // what they kept, or sent, is there for poll()
  }

  [[nodiscard]] const std::optional<Error>& blind_to_waiting() const override {
    return blind_to_waiting_;
  }

  Result<void> cut(std::uint64_t until_ns) override {
    if (links_.empty() || !options_.off_cpu) return {};
    const KernelLog log;
    program_->bss->cut_ns = until_ns;
    if (const int error = run(program_->progs.cut))
      return tl::unexpected(log.error("read the threads that are off their CPUs", error));
    return {};
  }

  Result<void> want(pid_t kernel_tgid, const vitrine_target& target) override {
    TRY(targets_.want(kernel_tgid, target));
    place_given(kernel_tgid);
    return {};
  }
  void forget(pid_t kernel_tgid) override {
    targets_.forget(kernel_tgid);
    const auto number = static_cast<__u32>(kernel_tgid);
    if (place_of(number).tgid == number) put_given(place_of(number), {});
  }
  [[nodiscard]] UnwindTables* unwind_tables() override { return unwind_tables_.get(); }
  void assume(const vitrine_executable& file, const vitrine_target& target) override {
    targets_.assume(file, target);
  }

  std::optional<std::string> kernel_function(std::uint64_t address) override {
    const std::lock_guard lock(naming_);
    program_->bss->named_address = address;
    if (run(program_->progs.name_address) != 0) return std::nullopt;
    const char(&text)[VITRINE_KERNEL_NAME] = program_->bss->name_of_address;
    const std::string_view name(text, ::strnlen(text, sizeof text));
    if (name.starts_with("0x")) return std::string();
    return std::string(name.substr(0, name.find(' ')));  // without its module
  }

  void refuse(std::uint64_t subject) override {
    const std::uint32_t refused = 1;
    if (subject != 0) bpf_map_update_elem(fd(program_->maps.unwanted), &subject, &refused, BPF_ANY);
  }

  void refuse_process(const vitrine_stack_sample& sample) override {
    const vitrine_event_header& event = sample.event;
    const std::uint32_t selection = program_->bss->profile_state.selection;
    const vitrine_refused_process refused{event.process_start_ns, event.image, sample.exec_id,
                                          selection};
    if (selection != 0)
      bpf_map_update_elem(fd(program_->maps.refused_processes), &event.kernel_tgid, &refused,
                          BPF_ANY);
  }

  void select_anew() override {
    std::uint32_t& selection = program_->bss->profile_state.selection;
    if (selection != 0) __atomic_store_n(&selection, selection + 1, __ATOMIC_RELEASE);
  }

  void know(const vitrine_executable& program, const vitrine_go_file& file) override {
    if (bpf_map_update_elem(fd(program_->maps.go_files), &program, &file, BPF_ANY) == 0)
      program_->bss->profile_state.go_files = 1;
  }

  Result<std::size_t> poll(milliseconds timeout, const Sink& sink) override {
    hand_over_later(sink);
    auto taken = ring_->poll(stopped_ns_ != 0 ? milliseconds(0) : timeout,
                             [&](std::span<const std::byte> record) { hand_over(record, sink); });
    if (taken) *taken += take_spans(program_->bss->profile_state.generation, false, sink);
    if (!taken || *taken != 0 || stopped_ns_ == 0 || !options_.off_cpu) return taken;
    return hand_over_pending(sink);
  }

  [[nodiscard]] std::uint64_t taken_until_ns() const override { return ring_->taken_until_ns(); }

  void take_rows(const RowTable::Sink& sink) override {
    if (rows_) rows_->table.take(sink);
  }

  [[nodiscard]] bool rows_are_full() const override { return program_->bss->rows_full != 0; }

  Result<void> renew_rows(const Sink& sink, const RowTable::Sink& rows) override {
    return complete_generation(raise_generation(sink, rows), sink, rows);
  }

  Interval end_interval(const Sink& sink, const RowTable::Sink& rows) override {
    vitrine_profile_state& state = program_->bss->profile_state;
    const std::uint32_t ending = raise_generation(sink, rows);
    Interval interval{kernel_time_ns(), {}};
    if (state.end_ns != 0) interval.end_ns = std::min<std::uint64_t>(interval.end_ns, state.end_ns);
    __atomic_store_n(&state.boundary, vitrine_row_boundary(interval.end_ns, ending + 1),
                     __ATOMIC_RELEASE);
    interval.result = cut(interval.end_ns);
    __atomic_store_n(&state.boundary, 0, __ATOMIC_RELEASE);
    auto completed = complete_generation(ending, sink, rows);
    if (interval.result) interval.result = std::move(completed);
    return interval;
  }

  [[nodiscard]] ProfilerCounters counters() const override {
    ProfilerCounters out{
        counter(VITRINE_PROFILE_SAMPLES),      counter(VITRINE_PROFILE_LOST),
        counter(VITRINE_PROFILE_CUT),          counter(VITRINE_PROFILE_FAULTS),
        counter(VITRINE_PROFILE_SHORT_BLOCKS), counter(VITRINE_PROFILE_WAITING_FULL),
        counter(VITRINE_PROFILE_UNWANTED),     counter(VITRINE_PROFILE_NO_WAKER),
        counter(VITRINE_PROFILE_KNOWN_KERNEL), counter(VITRINE_PROFILE_WRONG_KERNEL),
        counter(VITRINE_PROFILE_LIKE_BEFORE),  counter(VITRINE_PROFILE_NOT_LIKE),
        counter(VITRINE_PROFILE_KNOWN_LABELS), counter(VITRINE_PROFILE_OTHER_LABELS)};
    for (const auto& of_cpus : program_->bss->fired)
      out.samples += __atomic_load_n(&of_cpus.samples, __ATOMIC_RELAXED);
    out.samples += unfinished_.samples;
    out.lost += unfinished_.lost + ring_->dropped();
    out.short_blocks += unfinished_.short_blocks;
    return out;
  }

 private:
  static int fd(const bpf_map* map) { return bpf_map__fd(map); }

  /// Returns the one that ends with that. Samples are of it that are of before state.boundary, and those under way.
  std::uint32_t raise_generation(const Sink& sink, const RowTable::Sink& rows) {
    std::uint32_t& generation = program_->bss->profile_state.generation;
    const std::uint32_t ending = generation;
    hand_over_later(sink);
    if (rows_) {  // the half of the one before, if there was one
      rows_->table.end(ending + 1, rows);
      if (ending != 0) unfinished_.lost += rows_->table.forget(ending + 1);
    }
    __atomic_store_n(&generation, ending + 1, __ATOMIC_RELEASE);
    program_->bss->rows_full = 0;
    return ending;
  }

  Result<void> complete_generation(std::uint32_t ending, const Sink& sink,
                                   const RowTable::Sink& rows) {
    if (stopped_ns_ == 0)
      let_programs_end();  // none adds to those any more, and their records are there
    const std::uint64_t ended_ns = kernel_time_ns();
    const auto end = std::chrono::steady_clock::now() + longest_renewal;
    do {
      TRY(ring_->poll(milliseconds(0), [&](std::span<const std::byte> record) {
        hand_over_until(ending, record, sink);
      }));
    } while (ring_->taken_until_ns() < ended_ns && std::chrono::steady_clock::now() < end);
    if (!rows_) return {};
    take_spans(ending, true, sink);
    rows_->table.end(ending, rows);
    if (stopped_ns_ != 0) unfinished_.lost += rows_->table.forget(ending);  // no more will come
    return {};
  }

  /// Of a generation. The kernel clears all of them at the start: where samples come at a known rate, there are no more
  /// than for some seconds of samples of which none are equal.
  [[nodiscard]] std::uint32_t rows() const {
    constexpr std::uint32_t fewest = 64, most = 1U << 20, usual = 4096, seconds = 4;
    if (options_.rows == 0 || options_.unwinds == VITRINE_UNWINDS_NOT) return 0;
    std::uint64_t wanted = options_.rows;
    if (!options_.off_cpu) {
      const auto cpus = static_cast<std::uint64_t>(std::max(1, libbpf_num_possible_cpus()));
      wanted =
          std::min(wanted, std::max<std::uint64_t>(usual, seconds * cpus * options_.frequency));
    }
    return std::bit_ceil(
        static_cast<std::uint32_t>(std::clamp<std::uint64_t>(wanted, fewest, most)));
  }

  /// One for each CPU, and one for cut(), which an interrupt must not have to wait for.
  static std::uint32_t scratches() {
    return static_cast<std::uint32_t>(std::max(1, libbpf_num_possible_cpus())) + 1;
  }

  [[nodiscard]] bool spans() const {
    return options_.spans && rows() != 0 && (options_.filter & VITRINE_FILTER_BY_SPAN) == 0;
  }
  /// Of one log: as many samples as come in a second and a quarter. What has no room is a record of the ring buffer.
  [[nodiscard]] std::uint32_t span_places() const {
    constexpr std::uint32_t fewest = 64, most = 4096;
    if (!spans() || options_.frequency == 0 || options_.unwinds == VITRINE_UNWINDS_AND_COPIES)
      return 0;
    return std::bit_ceil(std::clamp(options_.frequency * 5 / 4, fewest, most));
  }

  [[nodiscard]] bool wakers() const { return options_.off_cpu && options_.wakers; }
  /// What a filter does not hold for without its waker's labels, it may hold for with them.
  [[nodiscard]] std::uint32_t filter() const { return wakers() ? 0 : options_.filter; }

  [[nodiscard]] std::size_t ring_bytes() const { return RecordRing::size_of(options_.ring_bytes); }

  [[nodiscard]] std::uint32_t processes() const {
    // The kernel takes free entries of a map that drops the oldest out 128 at a time for each CPU (LOCAL_FREE_TARGET
    // in kernel/bpf/bpf_lru_list.c). If they are not twice as many, new ones drop out.
    const auto fewest = 256 * static_cast<std::uint32_t>(std::max(1, libbpf_num_possible_cpus()));
    return std::bit_ceil(std::max(options_.processes, fewest));
  }

  [[nodiscard]] std::uint32_t blocks() const {
    return static_cast<std::uint32_t>(
        std::clamp<std::size_t>(options_.pending_bytes, 1U << 20, 1U << 30) / VITRINE_BLOCK_BYTES);
  }

  /// Returns an errno.
  int load_program() {
    const KernelTypes types;
    program_ = types.open<vitrine_profiler>();
    if (program_ == nullptr) return errno;
    auto& maps = program_->maps;
    program_->rodata->scratch_count = scratches();
    program_->rodata->profile_config = settings();
    bpf_map__set_max_entries(maps.scratches, scratches());
    bpf_map__set_max_entries(maps.events, static_cast<__u32>(ring_bytes()));
    if (rows() != 0) bpf_map__set_max_entries(maps.rows, 2 * rows());
    if (span_places() != 0) bpf_map__set_max_entries(maps.span_logs, scratches() * span_places());
    for (bpf_map* const of_processes :
         {maps.targets, maps.assumed, maps.announced, maps.reused_at, maps.unwind_spaces})
      bpf_map__set_max_entries(of_processes,
                               std::min(bpf_map__max_entries(of_processes), processes()));
    if (filter() != 0) bpf_map__set_max_entries(maps.unwanted, refused_subjects);
    if (options_.selects) bpf_map__set_max_entries(maps.refused_processes, refused_processes);
    bpf_program__set_autoload(program_->progs.reused, options_.unwinds != VITRINE_UNWINDS_NOT);
    bpf_program__set_autoload(program_->progs.tick, options_.frequency != 0);
    bpf_program__set_autoload(program_->progs.switched, options_.off_cpu);
    bpf_program__set_autoload(program_->progs.find_scheduler, options_.off_cpu);
    bpf_program__set_autoload(program_->progs.cut, options_.off_cpu);
    bpf_program__set_autoload(program_->progs.woken, wakers());
    if (wakers()) bpf_map__set_max_entries(maps.wakings, std::max(options_.pending_threads, 1U));
    if (options_.off_cpu) {
      bpf_map__set_max_entries(maps.blocks, blocks());
      bpf_map__set_max_entries(maps.free_blocks, blocks());
      bpf_map__set_max_entries(maps.pending, std::max(options_.pending_threads, 1U));
    }
    return types.load(program_);
  }

  [[nodiscard]] vitrine_profile_config settings() const {
    vitrine_profile_config config{};
    config.min_block_ns = static_cast<__u64>(std::max<std::int64_t>(options_.min_block.count(), 0));
    config.stack_bytes = static_cast<__u32>(options_.stack_bytes);
    config.kernel_stacks = options_.kernel_stacks;
    config.every_process = options_.every_process;
    config.follow = options_.follow;
    config.preempted = options_.preempted;
    config.unwinds = options_.unwinds;
    config.rows = rows();
    config.filter = filter();
    config.spans = spans();
    config.span_places = span_places();
    config.wakers = wakers();
    config.off_cpu = options_.off_cpu;
    config.selects = options_.selects;
    const auto row_ns =
        static_cast<std::uint64_t>(std::max<std::int64_t>(options_.row_time.count(), 1));
    config.row_bits = static_cast<__u32>(std::bit_width(row_ns) - 1);
    return config;
  }

  Result<void> start_clocks() {
    if (options_.frequency == 0) return {};
    perf_event_attr clock = cpu_clock();
    clock.freq = 1;
    clock.sample_freq = options_.frequency;
    return clocks_.start(program_->progs.tick, clock);
  }

  void load_waiting() {
    if (auto opened = WaitingThreads::open(program_->obj, settings()))
      waiting_ = std::move(*opened);
    else
      blind_to_waiting_ = std::move(opened.error());
  }

  Result<void> watch_switches() {
    const KernelLog log;
    // First, so that it sees the end of every wait that the other sees.
    if (wakers()) {
      bpf_link* link = bpf_program__attach(program_->progs.woken);
      if (link == nullptr) return tl::unexpected(log.error("trace what wakes threads", errno));
      links_.push_back(link);
    }
    const std::uint64_t began_ns = kernel_time_ns();
    bpf_link* link = bpf_program__attach(program_->progs.switched);
    if (link == nullptr)
      return tl::unexpected(log.error("trace threads that leave their CPUs", errno));
    links_.push_back(link);
    if (!waiting_) return {};
    // A thread that is off a CPU from here on is pending, or has been off since before.
    let_programs_end();
    return waiting_->sample(program_->bss->config, program_->bss->profile_state, began_ns);
  }

  /// What programs find of it without a look into the table. Word by word: they notice what does not fit.
  void place_given(pid_t kernel_tgid) {
    vitrine_target target{};
    if (bpf_map_lookup_elem(fd(program_->maps.targets), &kernel_tgid, &target) != 0) return;
    const auto number = static_cast<__u32>(kernel_tgid);
    vitrine_given_process given{0, target.given_ns, target.image, number, target.is_bystander};
    given.check = vitrine_check_of_given(&given);
    put_given(place_of(number), given);
  }

  vitrine_given_process& place_of(__u32 number) {
    return program_->bss->profile_state.given[number % VITRINE_PLACES];
  }

  static void put_given(vitrine_given_process& place, const vitrine_given_process& given) {
    __atomic_store_n(&place.check, given.check, __ATOMIC_RELAXED);
    __atomic_store_n(&place.given_ns, given.given_ns, __ATOMIC_RELAXED);
    __atomic_store_n(&place.image, given.image, __ATOMIC_RELAXED);
    __atomic_store_n(&place.tgid, given.tgid, __ATOMIC_RELAXED);
    __atomic_store_n(&place.is_bystander, given.is_bystander, __ATOMIC_RELAXED);
  }

  void detach() {
    clocks_.stop();
    for (bpf_link* link : links_) bpf_link__destroy(link);
    links_.clear();
  }

  void complete() {
    kept_.complete(sample_.head.event, sample_.sets);
    if (const auto& waker = sample_.waker) kept_.complete(waker->head.event, waker->sets);
  }

  /// Of what came in late, rows may be others' by now.
  [[nodiscard]] bool has_rows_of(std::uint32_t generation) const {
    return RowTable::are_kept(generation, program_->bss->profile_state.generation);
  }

  void hand_over(vitrine_span_sample span, const Sink& sink) {
    if (!rows_ || !rows_->table.has(span.model)) return;  // vitrine's program writes none such
    if (!has_rows_of(span.generation)) {
      ++unfinished_.lost;  // what it is like is not known any more
      return;
    }
    if (!rows_->table.add(span.row, true)) span.row = 0;
    if (sink.span) sink.span(span);
  }

  /// Those of the logs, up to a generation, whose models have come in. Returns how many there were. `is_last`: what
  /// has no model by now has none.
  std::size_t take_spans(std::uint32_t generation, bool is_last, const Sink& sink) {
    if (!spans_) return 0;
    return spans_->logs.take([&](const vitrine_span_sample& span) {
      if (RowTable::is_later(span.generation, generation)) return false;
      const bool is_known = !has_rows_of(span.generation) || rows_->table.has_model(span.model);
      if (!is_known && !is_last) return false;
      if (is_known)
        hand_over(span, sink);
      else
        ++unfinished_.lost;
      return true;
    });
  }

  void hand_over(std::span<const std::byte> record, const Sink& sink) {
    if (const auto span = parse_span_sample(record)) return hand_over(*span, sink);
    if (!parse_stack_sample(record, sample_)) return;  // vitrine's program writes none such
    complete();
    program_->bss->config.epoch = kept_.epoch();
    if (!has_rows_of(sample_.head.generation)) sample_.head.row = sample_.head.model = 0;
    const bool begins_row = (sample_.head.event.flags & VITRINE_SAMPLE_ADDED) == 0;
    if (begins_row && rows_ && !rows_->table.add(sample_.head.row)) sample_.head.row = 0;
    if (rows_) rows_->table.add_model(sample_.head.model);
    sink.sample(sample_);
  }

  void hand_over_later(const Sink& sink) {
    for (const std::vector<std::byte>& record : std::exchange(later_, {})) hand_over(record, sink);
    later_bytes_ = 0;
  }

  /// Those of later generations have to wait. What they bring is known already, as records of the ending
  /// one may refer to it.
  void hand_over_until(std::uint32_t generation, std::span<const std::byte> record,
                       const Sink& sink) {
    const auto span = parse_span_sample(record);
    if (!span && !parse_stack_sample(record, sample_)) return;
    if ((span ? span->generation : sample_.head.generation) == generation)
      return hand_over(record, sink);
    if (!span) complete();
    if (later_bytes_ + record.size() > std::max(ring_bytes(), options_.taken_bytes)) {
      ++unfinished_.lost;
      return;
    }
    later_bytes_ += record.size();
    later_.emplace_back(record.begin(), record.end());
  }

  /// Of threads that have not come back: as they left, with the time until the end.
  Result<std::size_t> hand_over_pending(const Sink& sink) {
    std::size_t handed_over = 0;
    __u32 tid = 0;
    vitrine_pending entry{};
    while (bpf_map_get_next_key(fd(program_->maps.pending), nullptr, &tid) == 0) {
      const bool there = bpf_map_lookup_elem(fd(program_->maps.pending), &tid, &entry) == 0;
      if (bpf_map_delete_elem(fd(program_->maps.pending), &tid) != 0 || !there) break;
      if (entry.since_ns == 0) continue;  // it had come back
      handed_over += hand_over(entry, sink) ? 1 : 0;
    }
    return handed_over;
  }

  bool hand_over(const vitrine_pending& entry, const Sink& sink) {
    const std::uint64_t off_ns = stopped_ns_ > entry.since_ns ? stopped_ns_ - entry.since_ns : 0;
    if (off_ns < program_->rodata->profile_config.min_block_ns) {
      ++unfinished_.short_blocks;
      return false;
    }
    ++unfinished_.samples;
    if (!read_blocks(entry)) {
      ++unfinished_.lost;
      return false;
    }
    vitrine_stack_sample head{};
    std::memcpy(&head, pending_.data(), sizeof head);
    head.off_ns = off_ns;
    head.event.flags |= VITRINE_SAMPLE_UNFINISHED;
    head.event.epoch = kept_.epoch();  // it has all of its label sets with it
    std::memcpy(pending_.data(), &head, sizeof head);
    hand_over(std::span(pending_).first(entry.bytes), sink);
    return true;
  }

  bool read_blocks(const vitrine_pending& entry) {
    if (entry.bytes < sizeof(vitrine_stack_sample) || entry.blocks > VITRINE_BLOCKS ||
        entry.bytes > entry.blocks * VITRINE_BLOCK_BYTES)
      return false;
    pending_.resize(std::size_t{entry.blocks} * VITRINE_BLOCK_BYTES);
    for (std::size_t i = 0; i < entry.blocks; ++i)
      if (bpf_map_lookup_elem(fd(program_->maps.blocks), &entry.block[i],
                              pending_.data() + i * VITRINE_BLOCK_BYTES) != 0)
        return false;
    return true;
  }

  [[nodiscard]] std::uint64_t counter(__u32 which) const {
    return sum_of_cpus(fd(program_->maps.counters), which);
  }

  ProfilerOptions options_;
  KeptSets kept_;
  vitrine_profiler* program_ = nullptr;
  std::unique_ptr<WaitingThreads> waiting_;  // null: not asked for, or
  std::optional<Error> blind_to_waiting_;
  TargetMaps targets_;
  std::unique_ptr<UnwindTables> unwind_tables_;  // null: stacks are copied
  std::optional<RecordRing> ring_;
  std::optional<MappedRows> rows_;             // nothing: samples are not added up
  std::optional<MappedSpans> spans_;           // nothing: there are no logs of them
  std::vector<std::vector<std::byte>> later_;  // records for the next poll()
  std::size_t later_bytes_ = 0;
  std::mutex naming_;  // variables of the program, with the address and its name
  CpuClocks clocks_;
  std::vector<bpf_link*> links_;
  std::uint64_t stopped_ns_ = 0;  // 0: not yet
  ProfilerCounters unfinished_;   // of what was pending then, and of what had no room here
  std::vector<std::byte> pending_;
  StackSample sample_;
};

}  // namespace

Result<std::unique_ptr<Profiler>> Profiler::open(const ProfilerOptions& options) {
  TRY(require_kernel());
  TRY(check(options));
  auto profiler = std::make_unique<LoadedProfiler>(options);
  TRY(profiler->load());
  return profiler;
}

}  // namespace vitrine::bpf
