// What the slots of threads hold, and the label sets behind them: one batched reading of a process
// (docs/formats/custom-labels.md, "Reading protocol"). It does not show whether a thread ran
// meanwhile.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/batch_memory.hpp"
#include "format/label_set.hpp"
#include "observe/labels/subject.hpp"

namespace vitrine::observe {

/// One definition in one thread.
struct SlotReading {
  static constexpr std::size_t no_content = ~std::size_t{0};

  std::size_t thread = 0;      ///< index of the thread list
  std::size_t definition = 0;  ///< index of Subject::definitions()
  Address record = 0;          ///< tag bits removed; 0: no set in force in this thread
  std::size_t content = no_content;
  std::unique_ptr<Error> error;  ///< the slot itself could not be read
  /// `record` is that of the last reading, which was proven: its thread has run nothing since.
  bool known = false;
  /// And its set, if any, cannot have changed. Proven without reading a byte.
  bool steady = false;
};

/// A record that one or more slots lead to: read and decoded once.
struct Content {
  std::size_t definition = 0;
  Address record = 0;
  Address thread_pointer = 0;  ///< of one thread that has it
  /// The v1 set of that thread: vitrine's writer has the records of all formats in one block with it.
  Address block = 0;
  Result<format::LabelSet> set;
  /// vitrine's writer's: immutable as long as a slot holds it.
  std::optional<format::SerialMark> mark;
  /// Position of what is remembered, instead of `set`: the very incarnation that was decoded before
  /// was still there after the slots had been read.
  std::uint32_t remembered = FlatIndex::none;
  std::uint32_t slots = 0;   ///< how many lead here
  std::uint32_t copies = 0;  ///< of its labels, taken by those
  bool steady = false;       ///< one of those is
  std::optional<bool> kept;  ///< for the next reading, once that is decided

  [[nodiscard]] bool unchanged() const { return remembered != FlatIndex::none; }
};

/// What a set counts for in `bytes_left`, about as its decoder charged it.
std::size_t bytes_of(const format::LabelSet& set);

struct Readings {
  std::vector<SlotReading> slots;  ///< by thread, then by definition
  std::vector<Content> contents;
};

/// Remembers the sets of vitrine's writer from one reading to the next, and those of other writers as
/// long as nothing of the process runs. Valid for one state of the subject's definitions: when they
/// change make another.
class SlotReader {
 public:
  explicit SlotReader(Subject& subject);

  /// Reads all definitions in all `threads`. Those without a thread pointer get an error.
  Readings read(std::span<const SeenThread> threads, std::size_t& bytes_left);

  /// The labels of a content, for one more slot. They are moved out for the last of them, unless
  /// `remember` wants them. Each copy counts against `bytes_left`: threads may share a set.
  Result<format::LabelSet> take_labels(Content& content, bool all_rested, std::size_t& bytes_left);

  /// Ends a reading. `rested`, by thread: it ran nothing during it. `trusted`, by content: its
  /// bytes belong together.
  void remember(std::span<const SeenThread> threads, Readings readings,
                const std::vector<bool>& rested, const std::vector<bool>& trusted);

 private:
  struct Remembered {
    std::optional<format::SerialMark> mark;  ///< none: a foreign writer's
    format::LabelSet set;
  };

  /// A thread of the last reading, and its slots in it.
  struct Last {
    target::ThreadId id;
    std::uint64_t runs = 0;
  };
  struct LastSlot {
    Address record = 0;
    bool proven = false;
    bool constant = false;  ///< what it leads to, as long as the slot is as it is
  };

  bool nothing_ran(std::span<const SeenThread> threads) const;
  void take_unchanged(std::span<const SeenThread> threads, Readings& readings) const;
  void locate(std::span<const SeenThread> threads, Readings& readings,
              std::vector<Address>& addresses);
  void read_slots(Readings& readings, std::span<const Address> addresses);
  void gather_contents(std::span<const SeenThread> threads, Readings& readings);
  void prefetch(std::span<Content* const> contents);
  void decode(std::span<Content> contents, std::size_t& bytes_left);
  void decode_one(Content& content, Memory& memory, std::size_t& bytes_left);
  bool recall(Content& content);
  bool keep(Content& content, bool all_rested);
  [[nodiscard]] std::size_t bytes_of_labels(const Content& content) const;
  std::optional<format::SerialMark> mark_of(const Content& content);

  Subject& subject_;
  BatchMemory memory_;
  std::vector<const Definition*> refreshed_;  // whose key maps this reading has read again
  FlatIndex known_;                           // contents by record, while gathering
  FlatIndex remembered_index_;
  std::vector<Remembered> remembered_;
  std::size_t room_ = 0;  // for more of those
  std::vector<Last> last_;
  std::vector<LastSlot> last_slots_;  // by thread of last_, then by definition
  bool all_remembered_ = false;       // all of it was proven, and its contents are in remembered_
};

}  // namespace vitrine::observe
