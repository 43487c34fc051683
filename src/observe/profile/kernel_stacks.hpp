// KernelStacks: gives the kernel what it needs to unwind stacks, and takes what it has unwound.
//
// Nothing is given before it is needed. A stack that the kernel could not unwind is copied; from its
// frames this sees which rules were missing, and gives them: the regions of the process, and pages of
// rules of its files (made in the worker, shared by all processes). So the first samples of a process
// are unwound from copies, and hardly any later.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/interner.hpp"
#include "bpf/event.hpp"
#include "bpf/unwind_tables.hpp"
#include "observe/profile/profiling.hpp"
#include "observe/profile/program.hpp"
#include "unwind/frame.hpp"

namespace vitrine::observe {

/// The stacks that the kernel has unwound, by its words: one that comes again costs a single lookup
/// instead of one for each frame.
class SeenStacks {
 public:
  /// The stack of a sample of a program, and where it is in the profile, if it has been seen; none: it
  /// has not, and add() is about it.
  profile::Index find(profile::Index process, std::uint64_t version,
                      const bpf::StackSample& sample);
  void add(profile::Index stack);
  void clear();

 private:
  struct Seen {
    profile::Index process = profile::none;
    std::uint64_t version = 0;         // of its mappings
    std::vector<std::uint64_t> words;  // of the kernel, how many these are, of user code
    bool operator==(const Seen&) const = default;
  };
  struct Hash {
    std::size_t operator()(const Seen& seen) const;
  };

  Seen last_;
  Interner<Seen, Hash> seen_;
  std::vector<profile::Index> stacks_;  // of each
  std::size_t words_ = 0;
};

class KernelStacks {
 public:
  /// `tables`: null where all stacks are copied. It must outlive this.
  explicit KernelStacks(bpf::UnwindTables* tables) : tables_(tables) {}

  [[nodiscard]] bool on() const { return tables_ != nullptr; }

  /// Counts a sample, and gives the kernel the regions of its process, if these have changed. `code`:
  /// that of the sample's time. `known_ns`: all that was mapped until then has been reported.
  void take(const bpf::StackSample& sample, const SampledProgram& program,
            const CodeHistory::Code& code, std::uint64_t known_ns);

  /// The frames that the kernel found. False: it did not find them all. `code`: that of the sample's
  /// time.
  static bool frames_of(const bpf::StackSample& sample, const unwind::CodeMap& code,
                        std::vector<unwind::Frame>& into);

  /// Whether these frames are in code that the kernel knew as it was then: it may have gone by that
  /// of a plugin that has made room for another. One of which it is false is counted
  /// as of mappings that have changed.
  bool were_known(const bpf::StackSample& sample, const CodeSince& code,
                  const std::vector<unwind::Frame>& frames);

  /// What the frames of a copy need, and what is beyond its end, if the kernel lacked it.
  void learn(const bpf::StackSample& sample, const CodeSince& code,
             const std::vector<unwind::Frame>& frames);

  /// A stack that both unwound: `copied` and why it ends.
  void compare(const SampledProgram& program, const CodeSince& code,
               const std::vector<unwind::Frame>& in_kernel,
               const std::vector<unwind::Frame>& copied, unwind::End end);

  void departed(pid_t kernel_tgid);

  /// How often the kernel was given what it lacked.
  [[nodiscard]] std::uint64_t given() const { return given_; }

  /// What the sample that was taken last counts as, for others that are equal to it.
  [[nodiscard]] std::size_t counted_as() const { return counted_as_; }
  void count(std::size_t as, std::uint64_t samples) { counts_[counted_as_ = as] += samples; }
  /// It is a part of another one.
  void count_no_more() { --counts_[counted_as_]; }

  [[nodiscard]] UnwindCounts counts() const;
  /// Copies for other reasons than that something was not known yet are more than one in a hundred.
  [[nodiscard]] bool copies_often() const;
  /// The first stacks that differ, each a sentence.
  [[nodiscard]] std::vector<std::string> take_notes() { return std::exchange(notes_, {}); }

 private:
  struct Known {
    std::uint64_t execution = 0;
    std::uint64_t version = 0;                                      // of the mappings
    std::uint32_t epoch = 0;                                        // of the tables
    std::deque<std::pair<std::uint32_t, CodeHistory::Code>> given;  // by id, the newest first
  };

  void require_space(const bpf::StackSample& sample, const SampledProgram& program,
                     const CodeHistory::Code& code, std::uint64_t known_ns);
  void require_page(const CodeSince& code, Address lookup);

  bpf::UnwindTables* tables_;
  std::unordered_map<pid_t, Known> known_;
  static constexpr std::size_t without_user_code = VITRINE_UNWOUNDS;
  std::array<std::uint64_t, VITRINE_UNWOUNDS + 1> counts_{};
  std::size_t counted_as_ = 0;
  std::uint64_t given_ = 0;
  std::uint64_t compared_ = 0, agreed_ = 0;
  std::vector<std::string> notes_;
};

}  // namespace vitrine::observe
