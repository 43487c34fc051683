// Subject: a process that is read again and again, its threads, and their labels as found.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/memory.hpp"
#include "format/decode.hpp"
#include "observe/labels/definitions.hpp"
#include "observe/labels/key_maps.hpp"
#include "observe/labels/labels.hpp"
#include "observe/process/facts.hpp"
#include "sandbox/work_budget.hpp"
#include "target/process.hpp"
#include "target/thread_pointer.hpp"
#include "target/threads.hpp"

namespace vitrine::observe {

// SeenThread: a thread of the target as one reading found it.

struct SeenThread {
  target::ThreadId id;
  std::array<char, 16> comm{};
  Address thread_pointer = 0;  ///< 0: not known
  bool at_rest = false;        ///< it was on no CPU
  std::uint64_t runs = 0;      ///< how often it has run: equal at two rests, it ran nothing between

  [[nodiscard]] std::string name() const {
    return {comm.data(), ::strnlen(comm.data(), comm.size())};
  }
  void set_name(std::string_view name) { name.copy(comm.data(), comm.size() - 1); }
};

/// What a refresh found changed; each includes those before it.
enum class Change : std::uint8_t {
  none,
  definitions,  ///< libraries came or went: what was read with the old ones may be wrong
  program,      ///< it executed another program: nothing known about it holds
};

class Subject {
 public:
  /// `budget`: of the search for definitions (DefinitionFinder::refresh). Errors: as
  /// LabelReader::open; interrupted (it was stopped).
  static Result<std::unique_ptr<Subject>> open(
      int pid, const limits::LabelLimits& limits,
      const sandbox::WorkBudget& budget = sandbox::WorkBudget());

  /// Brings everything up to date before a reading: the program, its context, its libraries.
  /// Errors: not_found (it has ended), malformed, and those of open() after an exec.
  Result<Change> refresh(const sandbox::WorkBudget& budget = sandbox::WorkBudget());

  /// The same after a reading, to learn whether it was made with knowledge that held: all but the
  /// context, whose key map only grows.
  Result<Change> refresh_definitions(const sandbox::WorkBudget& budget = sandbox::WorkBudget());

  /// Calls `read` with what a refresh before it changed, again until nothing has changed during it,
  /// whether it succeeded or not. `stop`: null, or ends it when it becomes true. Errors: those of
  /// refresh() and `read`; the reason why it has no definitions; interrupted (stopped); changing (at each attempt).
  Result<Snapshot> read_unchanged(const std::atomic<bool>* stop,
                                  const std::function<Result<Snapshot>(Change)>& read);

  [[nodiscard]] target::Process& process() { return state_->process; }
  /// As target::Modules: whether its definitions are all that its constructors find.
  [[nodiscard]] bool is_loaded() const { return state_->finder.is_loaded(); }
  /// The budget of the last search for them was spent.
  [[nodiscard]] bool unfinished() const { return state_->finder.unfinished(); }
  /// What is kept of its modules: bytes.
  [[nodiscard]] std::size_t held_bytes() const { return state_->finder.held_bytes(); }
  /// At most limits::definitions.
  [[nodiscard]] std::span<const Definition> definitions() const;
  /// "read 16 of 25 definitions"; empty: none is left out.
  [[nodiscard]] std::string left_out() const;
  [[nodiscard]] Error why_none() const { return state_->finder.why_none(); }

  /// What of the process could not be used, and why.
  [[nodiscard]] std::vector<std::string> notes() const;

  /// Fills in the thread pointers that `threads` (ascending) lack, as far as they can be known.
  void complete_thread_pointers(std::span<SeenThread> threads);

  /// What the decoder of a definition's records needs to know. `bytes_left` as in DecodeContext.
  format::DecodeContext decode_context(const Definition& definition, std::size_t* bytes_left);

  /// Which process context has the names of which records.
  [[nodiscard]] const KeyMaps& key_maps() const { return state_->key_maps; }

  /// A number for what the process context declares of thread records, which is another when that has changed.
  [[nodiscard]] std::uint64_t schema_version() const { return schema_version_; }
  /// The same, after a look at the context: one small read, or once a second a search.
  std::uint64_t look_for_schema();

  /// Decodes a record with an index that the key map may lack: then reads the key map again and
  /// decodes once more, from the same `memory`. `thread_pointer`: of the thread that has the
  /// record. `refreshed`: definitions whose key maps were read again for the same reading; once is
  /// enough. `is_copy` as in DecodeContext.
  Result<format::LabelSet> decode(const Definition& definition, Memory& memory, Address record,
                                  Address thread_pointer, std::size_t* bytes_left,
                                  std::vector<const Definition*>* refreshed = nullptr,
                                  bool is_copy = false);

 private:
  /// What holds for one program image. Everything refers to `process`, so it stays where it is.
  struct State {
    explicit State(target::Process opened)
        : process(std::move(opened)), finder(process), context(ContextReader::of(process)) {}

    target::Process process;
    DefinitionFinder finder;
    std::unique_ptr<ContextReader> context;
    std::optional<format::ThreadSchema>
        schema;  ///< of the process: its only context's, or the newest one's
    KeyMaps key_maps;
    std::string context_problem;
    std::chrono::steady_clock::time_point context_search{};  ///< when to look for one again
    target::ThreadPointers pointers;
    std::map<const Definition*, format::KeyMap> draft_a_keys;
  };

  explicit Subject(const limits::LabelLimits& limits) : limits_(limits) {}
  Result<void> reopen(int pid, const sandbox::WorkBudget& budget);
  void refresh_schema();
  void search_schema();
  bool refresh_key_maps(bool all);
  [[nodiscard]] const format::ThreadSchema* schema_of(const Definition& definition) const;
  void refresh_keys(const Definition& definition, Address thread_pointer);

  limits::LabelLimits limits_;
  std::unique_ptr<State> state_;
  std::uint64_t schema_version_ = 0;
};

// What the three modes share when they make their results.

std::vector<DefinitionInfo> describe(const Subject& subject);

/// Whether the caller asked for this thread.
bool wanted(const LabelOptions& options, pid_t tid);

/// A result with everything but evidence and set.
ThreadLabels labels_of(Subject& subject, Mode mode, const SeenThread& thread,
                       const Definition& source);

}  // namespace vitrine::observe
