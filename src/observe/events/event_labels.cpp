#include "observe/events/event_labels.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <algorithm>

#include "base/clock.hpp"
#include "base/limits.hpp"
#include "base/notes.hpp"
#include "base/text.hpp"
#include "bpf/thread_iterator.hpp"
#include "observe/labels/definitions.hpp"
#include "target/proc_file.hpp"

namespace vitrine::observe {
namespace {

constexpr std::uint64_t no_image = ~0ULL;  // of a process that is not read
/// Of a process that has been looked at before.
constexpr auto cheap_look = std::chrono::milliseconds(10);
constexpr int max_slow_looks = 4;  // at one process
constexpr auto key_look_interval = std::chrono::milliseconds(500);
constexpr std::size_t key_looks = 16;  // each may be a search of a process's mappings
constexpr std::chrono::nanoseconds no_time{0};
constexpr std::size_t places_known =
    64 * 1024;  // a process that loads and unloads has ever new ones

/// Its id, in its epoch, identifies all of it.
bool is_whole_by_id(const bpf::FireSet& set) {
  return set.head.id != 0 && set.head.fresh_bytes == 0;
}

/// Whether a process has ended, or is no longer or not yet the program that it executes: no trouble.
bool has_gone(const Error& error) {
  return error.code == ErrorCode::not_found || error.code == ErrorCode::another_program;
}

/// Whether records of a definition name keys by number.
bool numbers_keys(const vitrine_definition& definition) {
  return definition.shape == VITRINE_SIZED_RECORD || definition.shape == VITRINE_COUNTED_RECORD;
}

/// Index of `key` in a record's key map, plus one; 0: records cannot have it.
std::uint16_t record_key(const format::KeyMap* keys, const std::string& key) {
  if (keys == nullptr) return 0;
  const auto found = std::find(keys->names.begin(), keys->names.end(), key);
  return found == keys->names.end() ? std::uint16_t{0}
                                    : static_cast<std::uint16_t>(found - keys->names.begin() + 1);
}

}  // namespace

std::optional<vitrine_executable> executable_of(int descriptor) {
  const auto file = sandbox::place_identity(descriptor);
  if (file.device == 0 && file.inode == 0) return std::nullopt;
  return vitrine_executable{file.inode, major(file.device) << 20 | minor(file.device), 0};
}

/// A process as it was looked at last.
struct LabelsLook {
  std::unique_ptr<Subject> subject;  ///< null: `problem` has the reason
  std::string problem;
  std::uint64_t image = 0;  ///< what it executed, as the kernel names it; 0: that is not known
  int slow_looks = 0;       ///< that took longer than the first may
  bool is_reported = false;
  bool left_out_is_reported = false;
  bool is_costly = false;          ///< to look again takes more than `cheap_look`
  std::uint64_t given_schema = 0;  ///< Subject::schema_version() of what the kernel was given
  Notes key_notes;                 ///< each of KeyMaps::notes() once

  /// Of all looks, and this one's part of them: bytes that are kept.
  std::shared_ptr<std::size_t> all_bytes;
  std::size_t bytes = 0;

  LabelsLook() = default;
  LabelsLook(const LabelsLook&) = delete;
  LabelsLook& operator=(const LabelsLook&) = delete;
  ~LabelsLook() { hold(0); }

  [[nodiscard]] bool is_slow() const { return slow_looks != 0; }
  /// For LackingKeys.
  [[nodiscard]] std::uint64_t look_for_schema() const {
    return subject ? subject->look_for_schema() : given_schema;
  }
  void hold(std::size_t now) {
    if (all_bytes) *all_bytes += now - bytes;
    bytes = now;
  }
};

EventLabels::EventLabels(bpf::ProcessTable& table, limits::LabelLimits limits,
                         std::vector<query::Selected> selected)
    : table_(table),
      limits_(limits),
      selected_(std::move(selected)),
      lacking_keys_(limits::observed_processes, key_looks) {}

EventLabels::~EventLabels() = default;

std::chrono::nanoseconds EventLabels::budget_of(const LabelsLook* look) {
  constexpr int part = 10;
  if (look != nullptr && look->is_slow()) return slow_looks_.left();
  return slow_looks_.left() > no_time ? first_look_ : first_look_ / part;
}

void EventLabels::charge(LabelsLook& look, const sandbox::WorkBudget& budget) {
  look.hold(look.subject ? look.subject->held_bytes() : 0);
  const bool is_unfinished = look.subject && look.subject->unfinished();
  if (!is_unfinished && budget.used() < first_look_) return;
  slow_looks_.spend(std::chrono::duration_cast<target::TimeoutBudget::Duration>(budget.used()));
  if (is_unfinished && look.slow_looks < max_slow_looks)
    unfinished_.insert(look.subject->process().pid());
  if (look.slow_looks++ == 0) skip(look);
}

/// Reports once that not all may be known of it.
void EventLabels::skip(LabelsLook& look) {
  if (!std::exchange(look.is_reported, true) && look.subject)
    notes_.push_back(
        fmt::format("process {}: the search for its labels takes longer than the time limit: some "
                    "may be missing",
                    look.subject->process().pid()));
}

std::optional<pid_t> EventLabels::take_unfinished() {
  if (unfinished_.empty() || slow_looks_.left() <= no_time) return std::nullopt;
  return unfinished_.extract(unfinished_.begin()).value();
}

void EventLabels::look_at(pid_t pid, ProcessLabels& its, pid_t kernel_tgid) {
  if (its.own && its.look->subject) {
    LabelsLook& look = *its.look;
    // One that is slow is looked at again when the others have had their time.
    if ((look.is_slow() || look.is_costly) && slow_looks_.left() <= no_time) {
      if (has_other_names(look)) unfinished_.insert(pid);
      return skip(look);
    }
    const sandbox::WorkBudget budget(budget_of(&look));
    const auto change = look.subject->refresh(budget);
    charge(look, budget);
    // A list of modules that never stays the same would be read at each sample.
    look.is_costly = budget.used() > cheap_look;
    if (look.is_costly && !look.is_slow())
      slow_looks_.spend(std::chrono::duration_cast<target::TimeoutBudget::Duration>(budget.used()));
    if (change) {
      const bool given = take_image(look) && its.given_ns != 0;
      // In the middle of dlopen what the kernel was given before is better than nothing.
      if (!given || (*change != Change::none && look.subject->is_loaded())) configure(its);
      return;
    }
    if (has_gone(change.error())) return;  // to its very end, or for now
    look.problem = change.error().message;
    look.subject.reset();
    configure(its);
    return;
  }
  const sandbox::WorkBudget budget(budget_of(nullptr));
  auto opened = Subject::open(pid, limits_, budget);
  if (!opened && has_gone(opened.error())) return;
  auto look = std::make_shared<LabelsLook>();
  look->all_bytes = held_bytes_;
  if (opened && *held_bytes_ + (*opened)->held_bytes() > limits::all_module_bytes)
    opened =
        fail(ErrorCode::limit, fmt::format("process {}: the modules of all processes exceed {} MiB",
                                           pid, limits::all_module_bytes >> 20));
  if (opened) look->subject = std::move(*opened);
  charge(*look, budget);
  if (look->subject) {
    take_image(*look);
    if (auto why = look->subject->process().memory().withheld(); !why.empty())
      notes_.push_back("some labels cannot be read: " + why);
  } else {
    look->problem = opened.error().message;
    if (!its.look || its.look->problem != look->problem)
      notes_.push_back("no labels: " + look->problem +
                       (opened.error().remedy.empty() ? "" : "; " + opened.error().remedy));
  }
  // Of one that shows us nothing the kernel is given just that.
  its = {std::move(look), true,
         kernel_tgid != 0 ? kernel_tgid : bpf::kernel_tgid_of(pid).value_or(0), 0,
         its.is_bystander};
  configure(its);
}

/// Returns whether it is the same as before.
bool EventLabels::take_image(LabelsLook& look) {
  target::Process& process = look.subject->process();
  const std::uint64_t image = target::program_image(process.proc_dir());
  const auto verified = process.verify();
  // Records of one that has just ended may still come: they show whether this is what they
  // executed.
  const bool ended = !verified && verified.error().code == ErrorCode::not_found;
  if ((ended || image == 0) && look.image != 0) return true;
  // Only then was what is known found in that image.
  const bool sure = verified.has_value();
  const std::uint64_t before = std::exchange(look.image, sure ? image : no_image);
  return look.image == before;
}

/// Whether the kernel selects labels by names of keys, and was given others than the process declares now.
bool EventLabels::has_other_names(const LabelsLook& look) const {
  return !selected_.empty() && look.given_schema != look.subject->schema_version();
}

/// Whether the records of a process may have a selected label whose key has no name yet.
bool EventLabels::lacks_selected(const vitrine_target& target) const {
  const auto lacks = [&](const vitrine_definition& definition) {
    for (std::size_t k = 0; k < std::min<std::size_t>(selected_.size(), VITRINE_SELECTED_LABELS);
         ++k)
      if (selected_[k].kind == query::Selected::Kind::label && definition.selected_key[k] == 0)
        return numbers_keys(definition);
    return false;
  };
  return std::any_of(target.definitions, target.definitions + target.definition_count, lacks);
}

/// Whether a number is the place of this definition.
bool EventLabels::is_place(std::uint32_t number, const Definition& definition) const {
  return number < places_.size() && places_[number].format == definition.format &&
         places_[number].location == definition.location;
}

/// The number by which the kernel names a definition; nothing when there are too many.
std::optional<std::uint32_t> EventLabels::number_of(const Definition& definition) {
  for (std::size_t i = 0; i < places_.size(); ++i)
    if (is_place(static_cast<std::uint32_t>(i), definition)) return static_cast<std::uint32_t>(i);
  if (places_.size() >= places_known) {
    notes_.push_back("too many thread-local variables with labels: the rest is not read");
    return std::nullopt;
  }
  places_.push_back({definition.format, definition.location});
  return static_cast<std::uint32_t>(places_.size() - 1);
}

/// Reports which process context the names of records are from, where that may be unexpected.
void EventLabels::note_key_maps(LabelsLook& look) {
  if (!look.subject->key_maps().are_several()) return;
  look.key_notes.add(look.subject->key_maps().notes());
  for (const std::string& text : look.key_notes.take())
    notes_.push_back(fmt::format("process {}: {}", look.subject->process().pid(), text));
}

vitrine_target EventLabels::target_of(Subject& subject) {
  vitrine_target target = wire_target(subject, 0);
  std::uint32_t count = 0;
  for (std::uint32_t i = 0; i < target.definition_count; ++i) {
    const Definition& definition = subject.definitions()[i];
    vitrine_definition wire = target.definitions[i];
    const auto number = number_of(definition);
    if (!number) continue;
    wire.number = *number;
    std::size_t unlimited = SIZE_MAX;
    const format::KeyMap* keys = subject.decode_context(definition, &unlimited).keys;
    for (std::size_t k = 0; k < std::min<std::size_t>(selected_.size(), VITRINE_SELECTED_LABELS);
         ++k)
      wire.selected_key[k] = record_key(keys, selected_[k].key);
    target.definitions[count++] = wire;
  }
  target.definition_count = count;
  return target;
}

void EventLabels::configure(ProcessLabels& its) {
  if (its.kernel_tgid == 0) return;
  LabelsLook& look = *its.look;
  vitrine_target target{};
  its.given_ns = 0;
  if (look.subject && (look.image == no_image || !look.subject->is_loaded())) {
    target.image = no_image;  // another look decides
  } else if (look.subject) {
    if (auto left_out = look.subject->left_out();
        !left_out.empty() && !std::exchange(look.left_out_is_reported, true))
      notes_.push_back(
          fmt::format("labels of process {}: {}", look.subject->process().pid(), left_out));
    note_key_maps(look);
    target = target_of(*look.subject);
    target.image = look.image;
    look.given_schema = look.subject->schema_version();
    if (lacks_selected(target))
      lacking_keys_.add(look.subject->process().pid(), its.look, look.given_schema);
    // As it is found, unopened: its file system may not respond.
    if (auto file = target::open_at(look.subject->process().proc_dir(), "exe", O_PATH))
      if (const auto executable = executable_of(file->get())) assume(*executable, target);
  }
  target.is_bystander = its.is_bystander;
  if (auto done = table_.want(its.kernel_tgid, target); !done)
    notes_.push_back(done.error().message);
  if (target.image != no_image) its.given_ns = kernel_time_ns();
}

/// Of processes that will execute this file.
void EventLabels::assume(const vitrine_executable& executable, vitrine_target target) {
  target.image = 0;
  table_.assume(executable, target);
}

void EventLabels::assume(sandbox::FileMemory& file) {
  const auto executable = executable_of(file.original());
  const std::vector<Definition> definitions = assumed_definitions(file);
  if (!executable || definitions.empty()) return;
  vitrine_target target = wire_target(definitions);
  for (std::uint32_t i = 0; i < target.definition_count; ++i)
    if (const auto number = number_of(definitions[i])) target.definitions[i].number = *number;
  assume(*executable, target);
}

void EventLabels::exited(const ProcessLabels& its) {
  if (its.own && its.kernel_tgid != 0) table_.forget(its.kernel_tgid);
}

const DisplayedLabels& EventLabels::of(const vitrine_event_header& header,
                                       std::span<const bpf::FireSet> sets, ProcessLabels* its,
                                       bool has_pid) {
  shown_ = {};
  // An id names what the records of its own epoch have carried. A record that was begun before the epoch of decoded_
  // (while it waited for a page, others of the next one came) has in its sets what those of its epoch carried
  // (KeptSets): it is decoded by itself, neither found in decoded_ nor kept there.
  const auto later = static_cast<std::int32_t>(header.epoch - epoch_);
  if (later > 0) {
    decoded_.clear();
    epoch_ = header.epoch;
  }
  const bool is_late = later < 0;
  if (header.pid <= 0) {
    complain("the process is in another PID namespace");
    return shown_;
  }
  const bool unknown = (header.flags & VITRINE_FIRE_UNKNOWN) != 0;
  const bool assumed = (header.flags & VITRINE_FIRE_ASSUMED) != 0;
  // One that is unknown to the kernel though it was given it has executed another program since.
  if (its != nullptr && has_pid &&
      (!its->own || ((unknown || assumed) && header.time_ns > its->given_ns)))
    look_at(header.pid, *its, header.kernel_tgid);
  if (unknown) {
    if (its == nullptr || its->look == nullptr || !publishes_nothing(*its->look, header))
      complain("the process was still unknown at that time");
    return shown_;
  }
  if (its == nullptr || its->look == nullptr) {
    // The kernel knew it: it looked for sets, and there were none.
    if (!sets.empty() || assumed) complain("the process has ended and was still unknown");
    return shown_;
  }
  LabelsLook& look = *its->look;
  if (!look.problem.empty()) complain(look.problem);
  const bool again = !is_late && look.problem.empty() && !assumed && take_keys(sets);
  if (again)
    if (const DisplayedLabels* const known = decoded_.find(keys_)) return *known;
  bool lasts = again;
  for (const bpf::FireSet& set : sets) lasts &= add(look, header, set, !again && !is_late);
  if (shown_.lacks_keys && look.subject)
    lacking_keys_.add(look.subject->process().pid(), its->look, look.subject->schema_version());
  if (assumed) require_all(look, sets);
  if (!lasts) return shown_;
  shown_.id = ++last_id_;
  return decoded_.keep(keys_, std::move(shown_));
}

std::vector<pid_t> EventLabels::take_named() {
  const auto now = std::chrono::steady_clock::now();
  if (lacking_keys_.empty() || now < next_key_look_) return {};
  next_key_look_ = now + key_look_interval;
  std::vector<pid_t> named = lacking_keys_.take_named();
  if (!named.empty()) decoded_.clear();
  return named;
}

/// Whether a process that the kernel did not know yet had no labels to read: it has executed nothing
/// since, and nothing that it has loaded defines any.
bool EventLabels::publishes_nothing(const LabelsLook& look, const vitrine_event_header& header) {
  return look.subject && look.image == header.image && look.subject->is_loaded() &&
         look.subject->definitions().empty();
}

/// Reports if the process publishes labels where the kernel did not look for any.
void EventLabels::require_all(const LabelsLook& look, std::span<const bpf::FireSet> sets) {
  if (!look.subject) return;
  for (const Definition& definition : look.subject->definitions()) {
    const bool read = std::any_of(sets.begin(), sets.end(), [&](const auto& set) {
      return is_place(set.head.definition, definition);
    });
    if (!read) complain("the process was still unknown at that time");
  }
}

/// Whether the ids of the sets, in keys_, identify all of what they hold.
bool EventLabels::take_keys(std::span<const bpf::FireSet> sets) {
  keys_.clear();
  for (const bpf::FireSet& set : sets) {
    if (!is_whole_by_id(set)) return false;
    keys_.emplace_back(set.head.id, set.head.definition);
  }
  return true;
}

/// `keeps`: sets are kept for themselves, as what the event has in all is not. Returns whether they
/// are the same in each event with this set.
bool EventLabels::add(LabelsLook& look, const vitrine_event_header& header, const bpf::FireSet& set,
                      bool keeps) {
  const DecodedSets::Key key{set.head.id, set.head.definition};
  const bool whole_by_id = keeps && is_whole_by_id(set);
  if (whole_by_id)
    if (const auto* const known = decoded_.find(key)) return merge(*known), true;
  const auto differs = [this](const char* error) {
    complain(error);
    return false;
  };
  if (set.forgotten) return differs("they were sent earlier, and are no longer stored");
  if (!look.subject) return false;
  if (look.image != 0 && look.image != header.image)
    return differs("the process executed another program at that time");

  // The kernel looked where it was configured to at that time, or where another process has its
  // labels: that counts if it is where this one has its own.
  const auto all = look.subject->definitions();
  const auto now = std::find_if(all.begin(), all.end(), [&](const Definition& definition) {
    return is_place(set.head.definition, definition);
  });
  if (now == all.end()) {
    if (header.flags & (VITRINE_FIRE_ASSUMED | VITRINE_FIRE_INHERITED)) return false;
    return differs("the process changed its libraries at that time");
  }

  KernelSlot slot{set.head.state, set.head.slot_address, set.head.slot, set.chunks, 0};
  if (now->reference) {  // what else is found through the thread pointer
    SeenThread thread;
    thread.id.tid = header.tid;
    look.subject->complete_thread_pointers({&thread, 1});
    slot.thread_pointer = thread.thread_pointer;
  }
  std::size_t bytes_left = limits::within_hard_caps(limits_).bytes_per_thread;
  KernelReading reading =
      decode_kernel_slot(*look.subject, *now, slot, &bytes_left, Lacking::left_out);
  if (!reading.complete && reading.set)
    complain(met_absent_page(slot) ? "part of them was not resident at that time"
                                   : "they exceed what an event carries: 64 labels, 4 KiB each "
                                     "key, value and record, 16 KiB");
  note_key_maps(look);
  merge(reading.set);
  if (!reading.complete) return false;
  if (whole_by_id) decoded_.keep(key, std::move(reading.set));
  return true;
}

void EventLabels::merge(const Result<format::LabelSet>& set) {
  if (set)
    add_to(shown_, *set);
  else
    complain(set.error().message);
}

void EventLabels::complain(const std::string& error) {
  if (shown_.error.find(error) != std::string::npos) return;
  if (!shown_.error.empty()) shown_.error += "; ";
  shown_.error += error;
}

}  // namespace vitrine::observe
