// Escalation: what is done about a thread that ran while it was read (docs/formats/custom-labels.md,
// "Evidence").
//
// Read it again and try to prove it; else catch it in an interrupt of its own; else stop it, if the
// user allows that; else give the best there is and mark it as unproven.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "format/decode.hpp"
#include "observe/labels/ebpf_reader.hpp"
#include "observe/labels/subject.hpp"
#include "target/threads.hpp"

namespace vitrine::observe {

// Reading a set of vitrine's writer so that its serial proves it, with no look at the thread.

/// Reads the v1 set behind the slot at `slot` in the order that format/label_set.hpp asks for.
/// nullopt when that proves nothing: a foreign writer's set, one that changed meanwhile, or a block
/// that does not hold all its strings.
std::optional<format::LabelSet> read_by_serial(Memory& memory, Address slot,
                                               const format::DecodeContext& context);

/// For a thread that changes its labels all the time: how often they are read at most for the best of it.
inline constexpr int max_reads_of_best = 17;

/// Calls `read` until two results in succession agree and lack nothing: returns that. Else the last of the best. A
/// read that fails, or finds what no publisher should have, may have met a change: one that did not is better. A few
/// of those that agree end it, too.
/// `stop`: null, or ends it when it becomes true.
Result<format::LabelSet> best_of_reads(const std::function<Result<format::LabelSet>()>& read,
                                       const std::atomic<bool>* stop);

/// One definition in one thread whose reading could not be proven.
struct Unproven {
  SeenThread thread;
  std::size_t definition = 0;
  /// All threads that had the same set of a foreign writer in force, this one included: any of them
  /// may edit it. Null when no other had it. One list for all items of a set: a list for each would
  /// be quadratic in the number of threads.
  std::shared_ptr<const std::vector<pid_t>> sharers;
};

struct Escalated {
  Evidence evidence = Evidence::unproven;
  Result<format::LabelSet> set;
  /// The thread ended meanwhile: what was read may be of the thread that has its memory now.
  bool has_ended = false;
};

/// Valid for one program of the subject, like SlotReader.
class Escalation {
 public:
  Escalation(Subject& subject, const LabelOptions& options);

  /// One result for each of `unproven`. Adds to `notes` what could not be tried.
  std::vector<Escalated> escalate(std::span<const Unproven> unproven, std::size_t& bytes_left,
                                  std::vector<std::string>& notes);

 private:
  struct Work;

  void retry(Work& work);
  bool prove_by_serial(Work& work, std::size_t item);
  bool prove_by_rest(Work& work, std::span<const std::size_t> items);
  void sample(Work& work);
  void stop(Work& work);
  void take_best(Work& work);
  bool cancelled() const;
  [[nodiscard]] bool is_still_there(const Unproven& unproven) const;

  Subject& subject_;
  const LabelOptions& options_;
  target::RestWatch rest_;
  std::unique_ptr<SubjectSampler> sampler_;
  std::string without_sampler_;  ///< why, if so
  std::minstd_rand random_{std::random_device{}()};
};

}  // namespace vitrine::observe
