// ebpf mode: labels of running threads, read at CPU-clock interrupts.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "bpf/event.hpp"
#include "bpf/sampler.hpp"
#include "observe/labels/kernel_labels.hpp"
#include "observe/labels/labels.hpp"
#include "observe/labels/subject.hpp"

namespace vitrine::observe {

// Samples of the kernel's side, made into label sets.

/// A sampler that knows the subject.
class SubjectSampler {
 public:
  /// Errors: as bpf::Sampler::open.
  static Result<std::unique_ptr<SubjectSampler>> open(Subject& subject);

  /// Gives the kernel the subject's present definitions.
  Result<void> set_definitions();

  [[nodiscard]] bpf::Sampler& sampler() { return *sampler_; }

  /// Decodes a sample's reading of one definition. What it lacks is read from the process now, so
  /// that a next sample finds it resident.
  KernelReading decode(const bpf::SampledSet& set, Address thread_pointer_hint,
                       std::size_t* bytes_left);

  /// Whether a sample is of the subject.
  [[nodiscard]] bool concerns(const bpf::Sample& sample) const {
    return sample.head.kernel_tgid == kernel_tgid_;
  }

 private:
  SubjectSampler(Subject& subject, std::unique_ptr<bpf::Sampler> sampler)
      : subject_(subject), sampler_(std::move(sampler)) {}

  Subject& subject_;
  std::unique_ptr<bpf::Sampler> sampler_;
  pid_t kernel_tgid_ = 0;  ///< in the initial pid namespace
  std::uint32_t pid_level_ = 0;
};

class EbpfReader final : public LabelReader {
 public:
  /// Errors, besides those of LabelReader::open: as bpf::Sampler::open.
  static Result<std::unique_ptr<LabelReader>> open(int pid, LabelOptions options);

  std::vector<DefinitionInfo> definitions() const override;
  Result<Snapshot> read(std::chrono::milliseconds window) override;

 private:
  using Clock = std::chrono::steady_clock;
  /// Tid, and start time in nanoseconds.
  using ThreadKey = std::pair<pid_t, std::uint64_t>;

  struct SightedSet {
    KernelReading reading;
    // What it was decoded from: most samples of a thread have the same.
    vitrine_set head{};
    std::vector<std::byte> content;

    [[nodiscard]] bool is_of(const bpf::SampledSet& set) const;
  };

  /// One thread's last readings in a part of a window, by index in part_definitions_.
  struct Sighting {
    std::string comm;
    std::map<std::size_t, SightedSet> sets;
  };

  struct KeptThread {
    unsigned program = 0;                      ///< as Window::program
    std::map<std::size_t, ThreadLabels> sets;  ///< by index in Window::definitions
  };

  /// What one reading has seen so far, with knowledge that held.
  struct Window {
    std::map<ThreadKey, KeptThread> threads;
    std::vector<Definition> definitions;  ///< of what was seen
    std::vector<std::string> notes;
    std::uint64_t begin_ns = 0;  ///< older samples are not of the present part
    std::size_t bytes_left = 0;
    unsigned program = 0;  ///< how many the process has executed meanwhile
  };

  EbpfReader(std::unique_ptr<Subject> subject, LabelOptions options)
      : subject_(std::move(subject)), options_(std::move(options)) {}

  [[nodiscard]] bool is_stopped() const {
    return options_.stop != nullptr && options_.stop->load();
  }
  Result<void> begin_part();
  Result<void> gather(Clock::time_point end);
  void take(const bpf::Sample& sample);
  Result<bool> end_part();
  void drop_changed();
  void keep_part();
  std::size_t place_of(const Definition& definition);
  void note(std::string text);
  void report_losses(Snapshot& snapshot);

  std::unique_ptr<Subject> subject_;
  LabelOptions options_;
  std::unique_ptr<SubjectSampler> sampler_;
  bpf::SamplerCounters counted_;  ///< at the end of the last reading
  Window seen_;
  std::vector<Definition> part_definitions_;  ///< that the present part is sampled by
  std::map<ThreadKey, Sighting> part_;
  bool is_between_programs_ = false;  ///< at the end of the last part it was executing another
};

}  // namespace vitrine::observe
