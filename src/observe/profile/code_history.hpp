// CodeHistory: what code a program had at which time.
//
// A sample is looked at some time after it was taken, and off-CPU ones long after. By then a plugin
// may have made room for another at the same addresses, and a short program is gone. The kernel
// reports each mapping of code with its time (target/process_events.hpp), so what a program had at any
// time is what it had earlier, and what it has mapped since. Files are opened when a sample needs
// them: most programs that are reported have no sample.
//
// A program can map code as often as it likes, from paths as long as it likes: what is kept of it is
// bounded in bytes, and so is what is made of it in a time.
//
// Events of several CPUs come a little out of order: one may be older than a state that was made without it,
// which is then made anew. A reading of the process is what it had at some time between two others: until
// the second one, it has what it had before and what events report; from then on, what was read, and
// what has been reported since the first.
//
// The kernel does not report what is unmapped. Code stays in the history until something is mapped
// over it, which is right: where nothing is mapped nothing is sampled.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <vector>

#include "observe/profile/code_reader.hpp"
#include "target/maps.hpp"
#include "unwind/unwinder.hpp"

namespace vitrine::observe {

/// What code a program had from some time on. Processes may share it.
struct CodeSince {
  std::uint64_t from_ns = 0;  ///< CLOCK_MONOTONIC
  std::uint64_t version = 0;  ///< no other has it; 0: there is no code
  std::size_t bytes = 0;      ///< that it takes
  unwind::Unwinder unwinder{unwind::CodeMap()};
  // What each region of the unwinder's map is a mapping of, in the same order, and the file; null: in
  // none.
  std::vector<target::Mapping> mappings;
  std::vector<std::shared_ptr<const CodeFile>> files;
};

class CodeHistory {
 public:
  using Code = std::shared_ptr<CodeSince>;

  /// Whether anything is: else the process must be looked at.
  [[nodiscard]] bool is_known() const { return !codes_.empty(); }

  /// The program has begun, and has no code yet.
  void begin(std::uint64_t time_ns);
  /// It has mapped code.
  void mapped(std::uint64_t time_ns, const target::Mapping& mapping);

  /// When a process was read: between these two.
  struct Reading {
    std::uint64_t begin_ns = 0, end_ns = 0;
  };
  /// It was found to have this. Returns whether that is news.
  bool found(Reading when, ProcessCode code);
  /// As found(), but where nothing was known it was there already. For what no event reported.
  bool found_unreported(Reading when, ProcessCode code);

  /// What it had then; never null.
  Code at(std::uint64_t time_ns, CodeReader& reader, const CodePlaces& places);
  /// Whether at() knows that time: of a program that maps code all the time, the codes of long ago are forgotten.
  [[nodiscard]] bool reaches(std::uint64_t time_ns) const { return time_ns >= reaches_ns_; }
  /// The last that is known; never null.
  [[nodiscard]] Code last() const;
  /// Whether it is that of at(), for every later time that events have been taken of.
  [[nodiscard]] bool is_last(const CodeSince& code) const;
  /// When something was mapped last; 0: not since it was looked at first.
  [[nodiscard]] std::uint64_t changed_ns() const { return changed_ns_; }

  /// What it takes.
  [[nodiscard]] std::size_t bytes() const { return code_bytes_ + change_bytes_; }

  /// That of a child at its fork.
  [[nodiscard]] CodeHistory child() const;

 private:
  struct Change {
    std::uint64_t time_ns = 0;
    std::shared_ptr<const target::Mapping> mapping;  ///< that of an equal one is the same
    std::size_t bytes = 0;                           ///< that were added with it
  };
  struct Entry {
    Code code;
    bool is_read = false;  ///< not made of the one before and of changes
    /// Changes until then are in it.
    std::uint64_t made_until_ns = 0;
    /// And those until then change nothing.
    std::uint64_t known_until_ns = 0;
  };

  [[nodiscard]] Code before(const Code& first, std::uint64_t time_ns) const;
  bool may_make(const CodeSince& from, std::uint64_t time_ns);
  void insert(Code code, bool is_read, std::uint64_t made_until_ns);
  void make_anew_from(std::uint64_t time_ns);
  std::shared_ptr<const target::Mapping> intern(const target::Mapping& mapping,
                                                std::size_t& added_bytes);
  void squash();
  void forget_changes(std::uint64_t until_ns);

  std::deque<Entry> codes_;     // by time
  std::deque<Change> changes_;  // by time: those that may not be in `codes_`
  std::deque<std::shared_ptr<const target::Mapping>> recent_;  // of changes, the last ones
  std::uint64_t changed_ns_ = 0, reaches_ns_ = 0;
  std::size_t code_bytes_ = 0, change_bytes_ = 0;
  std::uint64_t budget_ = 0, budget_at_ns_ = 0;  // bytes of codes that may be made, and when
};

}  // namespace vitrine::observe
