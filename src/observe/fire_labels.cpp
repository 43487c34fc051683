#include "observe/fire_labels.hpp"

#include <fmt/format.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>

#include "bpf/thread_iterator.hpp"

namespace vitrine::observe {
namespace {

constexpr std::size_t kept_sets = 64 * 1024;  // decoded label sets of which the kernel sends the id
constexpr std::size_t processes_known = 16 * 1024;

std::uint64_t monotonic_ns() {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000U +
         static_cast<std::uint64_t>(now.tv_nsec);
}

/// Its id, in its epoch, says all of it.
bool is_whole_by_id(const bpf::FireSet& set) {
  return set.head.id != 0 && set.head.fresh_bytes == 0;
}

/// Our pid namespace is the one in which the kernel counts.
bool in_initial_pid_namespace() {
  char name[64] = {};
  const ssize_t length = ::readlink("/proc/self/ns/pid", name, sizeof name - 1);
  return length > 0 && std::string_view(name) == "pid:[4026531836]";  // PROC_PID_INIT_INO
}

/// What the kernel calls a process; 0: it is gone, or cannot be known.
pid_t kernel_tgid_of(const target::Process& process) {
  static const bool initial = in_initial_pid_namespace();
  if (initial) return process.pid();
  auto iterator = bpf::ThreadIterator::open(process.pidfd());
  if (!iterator) return 0;
  std::vector<vitrine_thread> threads;
  if (!(*iterator)->read(threads) || threads.empty()) return 0;
  return threads.front().kernel_tgid;
}

bool same_place(const Definition& one, const Definition& other) {
  return one.format == other.format && one.location == other.location;
}

/// Index of `key` in a record's key map, plus one; 0: records cannot have it.
std::uint16_t record_key(const format::KeyMap* keys, const std::string& key) {
  if (keys == nullptr) return 0;
  const auto found = std::find(keys->names.begin(), keys->names.end(), key);
  return found == keys->names.end() ? std::uint16_t{0}
                                    : static_cast<std::uint16_t>(found - keys->names.begin() + 1);
}

template <std::size_t Size>
bool parse_hex(std::string_view text, std::array<std::uint8_t, Size>& into) {
  if (text.size() != 2 * Size) return false;
  const auto digit = [](char c) {
    if (c >= '0' && c <= '9') return c - '0';
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
  };
  for (std::size_t i = 0; i < Size; ++i) {
    const int high = digit(text[2 * i]);
    const int low = digit(text[2 * i + 1]);
    if (high < 0 || low < 0) return false;
    into[i] = static_cast<std::uint8_t>(16 * high + low);
  }
  return true;
}

}  // namespace

struct FireLabels::Known {
  pid_t pid = 0;
  pid_t kernel_tgid = 0;
  std::uint64_t start_ns = 0;        ///< 0: not told yet
  bool own = false;                  ///< false: all of this is its parent's
  std::shared_ptr<Subject> subject;  ///< null: `problem` says why
  std::string problem;
  /// What the kernel was told last, and before that; and when, on the clock of fires.
  std::vector<Definition> definitions, before;
  std::uint64_t telling_ns = 0, told_ns = 0;
};

FireLabels::FireLabels(bpf::Tracer& tracer, limits::LabelLimits limits,
                       std::vector<query::Selected> selected)
    : tracer_(tracer), limits_(limits), selected_(std::move(selected)) {}

FireLabels::~FireLabels() = default;

void FireLabels::look_at(pid_t pid) {
  look_at(pid, 0);
}

std::shared_ptr<FireLabels::Known> FireLabels::look_at(pid_t pid, pid_t kernel_tgid) {
  const auto found = processes_.find(pid);
  std::shared_ptr<Known> known = found == processes_.end() ? nullptr : found->second;
  if (known && known->own && known->subject) {
    const auto change = known->subject->refresh();
    if (change) {
      if (*change != Change::none || known->kernel_tgid == 0) tell(*known);
      return known;
    }
    if (change.error().code == ErrorCode::not_found) return known;  // to its very end
    known->problem = change.error().message;
    known->subject.reset();
    tell(*known);
    return known;
  }
  if (!known && processes_.size() >= processes_known) {
    notes_.push_back(
        fmt::format("labels of the first {} processes only were read", processes_known));
    return nullptr;
  }
  auto opened = Subject::open(pid, limits_);
  if (!opened && opened.error().code == ErrorCode::not_found) return known;
  auto fresh = std::make_shared<Known>();
  fresh->pid = pid;
  fresh->own = true;
  fresh->kernel_tgid = kernel_tgid;
  if (opened) {
    fresh->subject = std::move(*opened);
    if (fresh->kernel_tgid == 0) fresh->kernel_tgid = kernel_tgid_of(fresh->subject->process());
  } else {
    fresh->problem = opened.error().message;
    if (!known || known->problem != fresh->problem)
      notes_.push_back("no labels: " + fresh->problem +
                       (opened.error().remedy.empty() ? "" : "; " + opened.error().remedy));
  }
  tell(*fresh);
  return processes_[pid] = std::move(fresh);
}

void FireLabels::tell(Known& known) {
  if (known.kernel_tgid == 0) return;
  vitrine_target target{};
  std::vector<Definition> definitions;
  if (known.subject) {
    target = wire_target(*known.subject, 0);
    for (const Definition& definition : known.subject->definitions())
      definitions.push_back(definition);
    std::size_t unlimited = SIZE_MAX;
    for (std::size_t i = 0; i < target.definition_count; ++i) {
      const format::KeyMap* keys =
          known.subject->decode_context(known.subject->definitions()[i], &unlimited).keys;
      for (std::size_t k = 0; k < std::min<std::size_t>(selected_.size(), VITRINE_SELECTED_LABELS);
           ++k)
        target.definitions[i].selected_key[k] = record_key(keys, selected_[k].key);
    }
  }
  known.telling_ns = monotonic_ns();
  if (auto told = tracer_.want(known.kernel_tgid, target); !told)
    notes_.push_back(told.error().message);
  known.told_ns = monotonic_ns();
  known.before = std::exchange(known.definitions, std::move(definitions));
}

void FireLabels::forked(pid_t parent, pid_t child) {
  const auto found = processes_.find(parent);
  if (found == processes_.end() || processes_.size() >= processes_known) return;
  auto known = std::make_shared<Known>(*found->second);
  known->pid = child;
  known->kernel_tgid = 0;
  known->start_ns = 0;
  known->own = false;
  processes_.insert_or_assign(child, std::move(known));
}

void FireLabels::exited(pid_t pid) {
  const auto found = processes_.find(pid);
  if (found == processes_.end()) return;
  if (found->second->own && found->second->kernel_tgid != 0)
    tracer_.forget(found->second->kernel_tgid);
  processes_.erase(found);
}

void FireLabels::introduce(const bpf::Fire& fire) {
  if (fire.head.pid > 0) look_at(fire.head.pid, fire.head.kernel_tgid);
}

const FiredLabels& FireLabels::of(const bpf::Fire& fire) {
  fired_ = {};
  if (fire.head.epoch != epoch_) {
    kept_.clear();
    merged_.clear();
    epoch_ = fire.head.epoch;
  }
  if (fire.head.pid <= 0) {
    complain("the process is in another pid namespace");
    return fired_;
  }
  const auto found = processes_.find(fire.head.pid);
  std::shared_ptr<Known> known = found == processes_.end() ? nullptr : found->second;
  const bool another =
      known && known->start_ns != 0 && known->start_ns != fire.head.process_start_ns;
  if (another) processes_.erase(fire.head.pid), known = nullptr;
  const bool unknown = (fire.head.flags & VITRINE_FIRE_UNKNOWN) != 0;
  // One that is unknown to the kernel though it was told of it has executed another program since.
  if (!known || !known->own || (unknown && fire.head.time_ns > known->told_ns)) {
    auto looked = look_at(fire.head.pid, fire.head.kernel_tgid);
    if (looked) known = std::move(looked);
  }
  if (known) known->start_ns = fire.head.process_start_ns;
  if (unknown) {
    complain("the process was not known yet when it fired");
    return fired_;
  }
  if (!known) {
    complain("the process has ended, and nothing was known of it");
    return fired_;
  }
  if (!known->problem.empty()) complain(known->problem);
  const bool again = known->problem.empty() && take_keys(fire);
  if (again)
    if (const auto merged = merged_.find(keys_); merged != merged_.end()) return merged->second;
  for (const bpf::FireSet& set : fire.sets) add(*known, fire, set);
  if (!again || !fired_.error.empty()) return fired_;
  fired_.id = ++last_id_;
  if (merged_.size() >= kept_sets) merged_.clear();
  return merged_.emplace(keys_, std::move(fired_)).first->second;
}

/// Whether the ids of the fire's sets, in keys_, say all of what they hold.
bool FireLabels::take_keys(const bpf::Fire& fire) {
  keys_.clear();
  for (const bpf::FireSet& set : fire.sets) {
    if (!is_whole_by_id(set)) return false;
    keys_.emplace_back(set.head.id, set.head.definition);
  }
  return true;
}

void FireLabels::add(Known& known, const bpf::Fire& fire, const bpf::FireSet& set) {
  const SetKey key{set.head.id, set.head.definition};
  const bool whole_by_id = is_whole_by_id(set);
  if (whole_by_id)
    if (const auto kept = kept_.find(key); kept != kept_.end()) return merge(kept->second);
  if (set.forgotten) return complain("they were sent before, and are no longer kept");
  if (!known.subject) return;

  // What the kernel was told when it fired.
  const bool inherited = (fire.head.flags & VITRINE_FIRE_INHERITED) != 0;
  const bool earlier = known.own && !inherited && fire.head.time_ns < known.telling_ns;
  const bool between = known.own && !inherited && !earlier && fire.head.time_ns < known.told_ns;
  const std::vector<Definition>& told =
      earlier && !known.before.empty() ? known.before : known.definitions;
  if (between || set.head.definition >= told.size())
    return complain("the process changed its libraries at that moment");
  const Definition& then = told[set.head.definition];
  const auto all = known.subject->definitions();
  const auto now = std::find_if(all.begin(), all.end(),
                                [&](const Definition& other) { return same_place(other, then); });
  if (now == all.end()) return complain("the process changed its libraries at that moment");

  KernelSlot slot{set.head.state, set.head.slot_address, set.head.slot, set.chunks, 0};
  if (now->reference) {  // what else is found through the thread pointer
    SeenThread thread;
    thread.id.tid = fire.head.tid;
    known.subject->complete_thread_pointers({&thread, 1});
    slot.thread_pointer = thread.thread_pointer;
  }
  std::size_t bytes_left = limits::within_hard_caps(limits_).bytes_per_thread;
  const KernelReading reading = decode_kernel_slot(*known.subject, *now, slot, &bytes_left);
  if (!reading.set) return complain(reading.set.error().message);
  if (!reading.complete) return complain("not all of them was resident at that moment");
  if (whole_by_id) {
    if (kept_.size() >= kept_sets) kept_.clear();
    kept_.emplace(key, *reading.set);
  }
  merge(*reading.set);
}

/// Formats that say the same say it once.
void FireLabels::merge(const format::LabelSet& set) {
  std::optional<format::TraceContext> trace = set.trace;
  format::TraceContext in_labels;
  bool has_ids = false;
  for (const format::Label& label : set.labels) {
    // Formats without ids of their own carry them as labels.
    if ((label.key == "trace_id" && parse_hex(label.value, in_labels.trace_id)) ||
        (label.key == "span_id" && parse_hex(label.value, in_labels.span_id))) {
      has_ids = true;
      continue;
    }
    std::vector<format::Label>& labels = fired_.set.labels;
    const bool there = std::any_of(labels.begin(), labels.end(), [&](const format::Label& other) {
      return other.key == label.key;
    });
    if (!there) labels.push_back(label);
  }
  if (!trace && has_ids) trace = in_labels;
  if (trace && (!fired_.set.trace || (set.trace && !fired_.set.trace->trace_flags)))
    fired_.set.trace = trace;
  fired_.set.truncated.insert(fired_.set.truncated.end(), set.truncated.begin(),
                              set.truncated.end());
  fired_.set.defects.insert(fired_.set.defects.end(), set.defects.begin(), set.defects.end());
}

void FireLabels::complain(std::string error) {
  if (fired_.error.find(error) != std::string::npos) return;
  if (!fired_.error.empty()) fired_.error += "; ";
  fired_.error += error;
}

}  // namespace vitrine::observe
