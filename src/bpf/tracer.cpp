#include "bpf/tracer.hpp"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <fmt/format.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <map>

#include "bpf/event.hpp"
#include "bpf/is_enabled.hpp"
#include "bpf/kernel_log.hpp"
#include "bpf/kernel_types.hpp"
#include "bpf/record_ring.hpp"
#include "bpf/target_maps.hpp"
#include "bpf/thread_iterator.hpp"
#include "bpf/uprobes.hpp"
#include "target/threads.hpp"

// After the structures it names.
#include <tracer.skel.h>

namespace vitrine::bpf {
namespace {

using std::chrono::milliseconds;

constexpr std::uint32_t scratches_per_cpu = 4;  // SCRATCHES_PER_CPU of trace_state.bpf.h

Result<void> check(const TracerOptions& options) {
  if (options.selected.size() > VITRINE_SELECTED_LABELS)
    return fail(ErrorCode::usage,
                fmt::format("at most {} label keys can be looked up in the kernel, not {}",
                            VITRINE_SELECTED_LABELS, options.selected.size()));
  for (const SelectedLabel& label : options.selected)
    if (label.key.size() > VITRINE_KEY_BYTES)
      return fail(ErrorCode::usage,
                  fmt::format("the label key \"{}…\" has {} bytes; the kernel looks for at most {}",
                              label.key.substr(0, 20), label.key.size(), VITRINE_KEY_BYTES));
  return {};
}

void fill(vitrine_trace_config& config, const TracerOptions& options) {
  config.slower_ns =
      static_cast<__u64>(options.slower.value_or(std::chrono::nanoseconds(0)).count());
  config.from_ns = options.from_ns;
  config.only_known = options.only_known;
  config.selected_labels = static_cast<__u32>(options.selected.size());
  for (std::size_t i = 0; i < options.selected.size(); ++i) {
    const SelectedLabel& label = options.selected[i];
    vitrine_selected_label& wire = config.selected[i];
    wire.kind = label.kind;
    wire.length = static_cast<__u16>(label.key.size());
    std::memcpy(wire.key, label.key.data(), label.key.size());
  }
}

class LoadedTracer final : public Tracer {
 public:
  explicit LoadedTracer(TracerOptions options)
      : options_(std::move(options)), kept_(options_.kept_sets_bytes) {}

  ~LoadedTracer() override {
    ring_.reset();  // before what it reads
    for (const Table& table : tables_)
      for (const int map : {table.programs, table.ungrouped})
        if (map >= 0) ::close(map);
    vitrine_tracer::destroy(program_);
  }

  Result<void> load() {
    TRY(choose_attaching());
    const auto config = TRY(event_config(RecordRing::size_of(options_.ring_bytes), kept_.epoch()));
    hash_key_ = config.hash_key;

    const auto own_tgid =
        options_.others_only ? static_cast<__u32>(TRY(kernel_tgid_of(::getpid()))) : 0;

    const KernelLog log;
    if (const int error = load_program(own_tgid))
      return tl::unexpected(log.error("load the tracer", error));

    TRY(require_variables(program_->bss, "the tracer"));
    fill(program_->bss->trace_config, options_);
    program_->bss->config = config;
    targets_ = {fd(program_->maps.targets), fd(program_->maps.assumed),
                &program_->bss->trace_config.changes};
    ring_.emplace().collect(options_.backlog_bytes);
    return ring_->open(fd(program_->maps.events), &program_->bss->reader_waits);
  }

  [[nodiscard]] Attaching attaching() const override { return options_.attaching; }
  [[nodiscard]] const vitrine_hash_key& hash_key() const override { return hash_key_; }

  Result<void> set_program(std::uint32_t index, const vitrine_site_program& program) override {
    vitrine_site_program wire = program;
    TRY(check_program(index, wire));
    wire.needed_labels = wire.group_labels;
    for (std::size_t i = 0; i < VITRINE_SELECTED_LABELS; ++i)
      if ((wire.group_labels >> i & 1U) != 0)
        program_->bss->trace_config.selected[i].is_grouped = 1;
    for (std::uint32_t i = 0; i < wire.where.count; ++i)
      if (wire.where.tests[i].subject == VITRINE_ON_LABEL)
        wire.needed_labels =
            static_cast<__u8>(wire.needed_labels | 1U << wire.where.tests[i].index);
    wire.where.first_rejects = std::none_of(
        wire.where.tests, wire.where.tests + wire.where.count, [](const vitrine_test& test) {
          return test.subject == VITRINE_OR || test.subject == VITRINE_NOT;
        });
    const Table table = TRY(table_of(index));
    const KernelLog log;
    const std::uint32_t place = index % VITRINE_TABLE_PROGRAMS;
    if (bpf_map_update_elem(table.programs, &place, &wire, BPF_ANY) != 0)
      return tl::unexpected(log.error("configure the tracer for a probe", errno));
    if (wire.role != VITRINE_EMIT && wire.role < VITRINE_SLOW_START &&
        wire.role != VITRINE_LATENCY_START)
      shapes_[index] = shape_of(index, wire);
    return {};
  }

  Result<Attachment> attach(std::span<const FileSites> files, std::optional<pid_t> pid) override {
    bool any = false;
    for (const FileSites& file : files)
      for (const AttachSite& site : file.sites) {
        any = true;
        if (site.program >= options_.programs)
          return fail(ErrorCode::usage, "a site refers to a program that the tracer does not have");
      }
    if (!any) return Attachment{};
    // The kernel's pid filter compares memory with that of the main thread: it passes nothing where that is gone.
    std::optional<pid_t> filter = pid;
    if (pid && ((options_.attaching == Attaching::uprobe_multi && filter_of_threads_) ||
                target::has_no_main_thread(*pid))) {
      TRY(pass_only(*pid));
      filter.reset();
    }
    Attachment all;
    // Is-enabled checks last: they must be true only when fires are seen.
    for (const auto use :
         {probe::SiteUse::fire, probe::SiteUse::enabled_register, probe::SiteUse::enabled_pointer})
      TRY(attach_those(use, false, files, filter, all));
    TRY(attach_those(probe::SiteUse::fire, true, files, filter, all));
    return all;
  }

  Result<void> want(pid_t kernel_tgid, const vitrine_target& target) override {
    return targets_.want(kernel_tgid, target);
  }

  void forget(pid_t kernel_tgid) override { targets_.forget(kernel_tgid); }

  void assume(const vitrine_executable& file, const vitrine_target& target) override {
    targets_.assume(file, target);
  }

  void set_period(std::uint64_t from_ns, std::uint64_t until_ns) override {
    program_->bss->trace_config.from_ns = from_ns;
    program_->bss->trace_config.until_ns = until_ns;
  }

  Result<std::size_t> poll(milliseconds timeout, const Sink& sink) override {
    return ring_->poll(timeout, [&](std::span<const std::byte> record) {
      if (!parse_fire(record, fire_)) {  // vitrine's program writes none that does not parse
        ++malformed_;
        return;
      }
      kept_.complete(fire_.head.event, fire_.sets);
      program_->bss->config.epoch = kept_.epoch();
      sink(fire_);
    });
  }

  [[nodiscard]] std::uint64_t taken_until_ns() const override { return ring_->taken_until_ns(); }

  Result<std::vector<ReductionRow>> read_reductions() override {
    std::vector<ReductionShape> shapes;
    shapes.reserve(shapes_.size());
    for (const auto& [index, shape] : shapes_) shapes.push_back(shape);
    return read_reduction_rows(
        {fd(program_->maps.groups), fd(program_->maps.buckets), fd(program_->maps.names)},
        hash_key_, shapes, options_.selected.size());
  }

  [[nodiscard]] TracerCounters counters() const override {
    TracerCounters out{};
    for (__u32 i = 0; i < out.size(); ++i) out[i] = sum_of_cpus(fd(program_->maps.counters), i);
    out[VITRINE_TRACE_LOST] += ring_->dropped() + malformed_;
    return out;
  }

  [[nodiscard]] std::uint64_t collected() const override { return ring_->collected(); }

 private:
  static int fd(const bpf_map* map) { return bpf_map__fd(map); }

  /// The program for a site; that of fires is never run by a check's breakpoint.
  static probe::SiteUse program_for(probe::SiteUse use) {
    return use == probe::SiteUse::enabled_operand ? probe::SiteUse::fire : use;
  }

  /// Those of the sites of all files that want the program for one use.
  struct Chosen {
    std::vector<std::vector<AttachSite>> sites;   ///< by file
    std::vector<std::vector<std::size_t>> index;  ///< of each among all of its file
    std::vector<FileSites> files;                 ///< the same as `sites`, as they are attached to
    std::vector<std::size_t> number;              ///< of each among all files

    Chosen(std::span<const FileSites> all, probe::SiteUse use, bool at_return) {
      for (std::size_t i = 0; i < all.size(); ++i) {
        std::vector<AttachSite> its;
        std::vector<std::size_t> places;
        for (std::size_t j = 0; j < all[i].sites.size(); ++j) {
          const AttachSite& site = all[i].sites[j];
          if (program_for(site.use) != use || site.at_return != at_return) continue;
          its.push_back(site);
          places.push_back(j);
        }
        if (its.empty()) continue;
        sites.push_back(std::move(its));  // its elements stay where they are
        index.push_back(std::move(places));
        files.push_back({all[i].file, all[i].path, sites.back()});
        number.push_back(i);
      }
    }
  };

  /// Attaches to those that want the program for `use`.
  Result<void> attach_those(probe::SiteUse use, bool at_return, std::span<const FileSites> files,
                            std::optional<pid_t> pid, Attachment& all) {
    const Chosen chosen(files, use, at_return);
    if (chosen.files.empty()) return {};
    Result<int> program = bpf_program__fd(program_->progs.trace);
    if (use != probe::SiteUse::fire) program = checks_->program(use);
    if (!program) {
      for (std::size_t i = 0; i < chosen.files.size(); ++i)
        for (const std::size_t site : chosen.index[i])
          all.failures.push_back({chosen.number[i], site, program.error()});
      return {};
    }
    const AttachRequest request{*program, chosen.files, pid, options_.stop, at_return};
    auto attached =
        TRY(options_.attaching == Attaching::uprobe_multi ? attach_uprobe_multi(request)
                                                          : attach_perf_uprobes(request));
    for (AttachFailure& failure : attached.failures) {
      failure.site = chosen.index[failure.file][failure.site];
      failure.file = chosen.number[failure.file];
    }
    all.add(std::move(attached));
    return {};
  }

  Result<void> choose_attaching() {
    utsname kernel{};
    filter_of_threads_ = ::uname(&kernel) == 0 && pid_filter_is_of_threads(kernel.release);
    if (options_.attaching == Attaching::perf_event) return {};
    const KernelLog log;
    const auto has_multi = TRY(has_uprobe_multi());
    if (!has_multi && options_.attaching == Attaching::uprobe_multi)
      return fail(ErrorCode::unsupported, "this kernel has no uprobe_multi links",
                  "this needs Linux 6.6 or later; without it, perf events are used");
    options_.attaching = has_multi ? Attaching::uprobe_multi : Attaching::perf_event;
    return {};
  }

  /// Returns an errno.
  int load_program(__u32 own_tgid) {
    checks_.emplace(options_.attaching == Attaching::uprobe_multi);
    const KernelTypes types;
    program_ = types.open<vitrine_tracer>();
    if (program_ == nullptr) return errno;
    const auto cpus = static_cast<__u32>(libbpf_num_possible_cpus());
    program_->rodata->adds_up = options_.reductions;
    program_->rodata->carries_labels = options_.labels;
    program_->rodata->carries_stacks = options_.stacks;
    program_->rodata->carries_origins = options_.origins;
    program_->rodata->own_tgid = own_tgid;
    program_->rodata->scratch_count = cpus * scratches_per_cpu;
    bpf_program* trace = program_->progs.trace;
    if (options_.attaching == Attaching::uprobe_multi)
      bpf_program__set_expected_attach_type(trace,
                                            static_cast<bpf_attach_type>(uprobe_multi_attach_type));
    bpf_program__set_flags(trace, BPF_F_SLEEPABLE);

    auto& maps = program_->maps;
    bpf_map__set_max_entries(maps.scratches, cpus * scratches_per_cpu);
    bpf_map__set_max_entries(maps.events,
                             static_cast<__u32>(RecordRing::size_of(options_.ring_bytes)));
    if (options_.reductions) {
      bpf_map__set_max_entries(maps.groups, options_.groups);
      bpf_map__set_max_entries(maps.names, options_.names);
      bpf_map__set_max_entries(maps.buckets, options_.buckets);
      bpf_map__set_max_entries(maps.starts, options_.starts);
    }
    if (options_.slower) bpf_map__set_max_entries(maps.kept_starts, options_.kept_starts);
    return types.load(program_);
  }

  Result<void> check_program(std::uint32_t index, const vitrine_site_program& program) const {
    const auto is_capture = [&](std::uint8_t number) { return number < program.captures; };
    if (index >= std::min<std::uint32_t>(options_.programs, limits::site_programs))
      return fail(ErrorCode::limit,
                  fmt::format("too many different probes: at most {} can be traced at once",
                              std::min<std::uint32_t>(options_.programs, limits::site_programs)),
                  "choose fewer probes, or trace them by several runs of vitrine");
    if (program.captures > VITRINE_CAPTURES || program.groups > VITRINE_GROUP_ARGUMENTS ||
        program.where.count > VITRINE_TESTS || program.role > VITRINE_SLOW_END ||
        program.steps > VITRINE_CALCULATION_STEPS || program.not_tested > program.captures)
      return fail(ErrorCode::usage, "a probe's program exceeds the limits");
    for (std::size_t i = 0; i < program.groups; ++i)
      if (!is_capture(program.group[i]))
        return fail(ErrorCode::usage,
                    "a probe's fires are grouped by an argument that the probe does not have");
    for (std::size_t i = 0; i < program.where.count; ++i)
      if (program.where.tests[i].subject == VITRINE_ON_LABEL &&
          program.where.tests[i].index >= options_.selected.size())
        return fail(ErrorCode::usage, "a condition names a label that is not selected");
    if (program.role == VITRINE_EMIT) return {};
    if (program.role >= VITRINE_SLOW_START) {
      if (!options_.slower)
        return fail(ErrorCode::usage, "this tracer was opened without a time for slow pairs");
      if (program.match != VITRINE_NO_CAPTURE && !is_capture(program.match))
        return fail(ErrorCode::usage, "what pairs match by is not an argument of the probe");
      return {};
    }
    if (!options_.reductions)
      return fail(ErrorCode::usage, "this tracer was opened without reductions");
    if (program.role != VITRINE_HISTOGRAM && program.role != VITRINE_SUM) return {};
    if (!is_capture(program.value))
      return fail(ErrorCode::usage, "the aggregated value is not an argument of the probe");
    const vitrine_capture& value = program.capture[program.value];
    if (value.form != VITRINE_CAPTURE_VALUE || (value.operand.flags & VITRINE_FLOAT) != 0 ||
        value.operand.size > 8)
      return fail(ErrorCode::unsupported, "the kernel can aggregate integers only");
    return {};
  }

  /// Tables of VITRINE_TABLE_PROGRAMS programs; -1: none.
  struct Table {
    int programs = -1;
    int ungrouped = -1;
  };

  /// Makes one, and gives it to the program.
  static Result<int> make_table(bpf_map_type type, const char* name, std::size_t value_bytes,
                                const bpf_map* tables, std::uint32_t number) {
    const KernelLog log;
    const int table = bpf_map_create(type, name, sizeof(__u32), static_cast<__u32>(value_bytes),
                                     VITRINE_TABLE_PROGRAMS, nullptr);
    int error = table < 0 ? errno : 0;
    if (error == 0 && bpf_map_update_elem(fd(tables), &number, &table, BPF_ANY) != 0) {
      error = errno;
      ::close(table);
    }
    if (error == ENOMEM)
      return fail(ErrorCode::limit,
                  fmt::format("no kernel memory for more than {} different probes",
                              number * std::size_t{VITRINE_TABLE_PROGRAMS}),
                  "choose fewer probes, or raise the memory limit of vitrine's control group");
    if (error != 0) return tl::unexpected(log.error("make room for probes", error));
    return table;
  }

  /// The one that program `index` is in.
  Result<Table> table_of(std::uint32_t index) {
    const std::uint32_t number = index / VITRINE_TABLE_PROGRAMS;
    if (number >= tables_.size()) tables_.resize(number + 1);
    Table& table = tables_[number];
    if (table.programs < 0)
      table.programs = TRY(make_table(BPF_MAP_TYPE_ARRAY, "programs", sizeof(vitrine_site_program),
                                      program_->maps.programs, number));
    if (table.ungrouped < 0 && options_.reductions)
      table.ungrouped =
          TRY(make_table(BPF_MAP_TYPE_PERCPU_ARRAY, "ungrouped", sizeof(vitrine_aggregate),
                         program_->maps.ungrouped, number));
    return table;
  }

  ReductionShape shape_of(std::uint32_t index, const vitrine_site_program& program) const {
    ReductionShape shape;
    shape.probe = program.probe;
    shape.ungrouped = tables_[index / VITRINE_TABLE_PROGRAMS].ungrouped;
    shape.place = index % VITRINE_TABLE_PROGRAMS;
    shape.is_grouped = program.groups != 0 || program.group_labels != 0;
    if (program.role == VITRINE_HISTOGRAM || program.role == VITRINE_SUM)
      shape.is_signed = (program.capture[program.value].operand.flags & VITRINE_SIGNED) != 0;
    for (std::size_t i = 0; i < program.groups; ++i)
      shape.argument_is_text.push_back(program.capture[program.group[i]].form !=
                                       VITRINE_CAPTURE_VALUE);
    return shape;
  }

  /// The pid filter that the kernel lacks.
  Result<void> pass_only(pid_t pid) {
    const auto process = TRY(kernel_view_of(pid));
    vitrine_target nothing{};
    nothing.address_mask = ~0ULL;
    nothing.image = ~0ULL;
    TRY(targets_.want(process.kernel_tgid, nothing, true));
    program_->bss->trace_config.only_known = 1;
    return {};
  }

  TracerOptions options_;
  KeptSets kept_;
  std::uint64_t malformed_ = 0;  ///< records
  vitrine_hash_key hash_key_{};
  bool filter_of_threads_ = false;
  vitrine_tracer* program_ = nullptr;
  std::optional<IsEnabledChecks> checks_;
  TargetMaps targets_;
  std::optional<RecordRing> ring_;
  std::vector<Table> tables_;
  std::map<std::uint32_t, ReductionShape> shapes_;  ///< by program
  Fire fire_;
};

}  // namespace

Result<std::unique_ptr<Tracer>> Tracer::open(TracerOptions options) {
  TRY(require_kernel());
  TRY(check(options));
  auto tracer = std::make_unique<LoadedTracer>(std::move(options));
  TRY(tracer->load());
  return tracer;
}

}  // namespace vitrine::bpf
