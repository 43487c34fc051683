// ebpf mode: labels of running threads, read at CPU-clock interrupts.
#pragma once

#include <map>
#include <memory>
#include <optional>

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

// ebpf mode: the labels of running threads, read in CPU-clock interrupts.

class EbpfReader final : public LabelReader {
 public:
  /// Errors, besides those of LabelReader::open: as bpf::Sampler::open.
  static Result<std::unique_ptr<LabelReader>> open(int pid, LabelOptions options);

  std::vector<DefinitionInfo> definitions() const override;
  Result<Snapshot> read(std::chrono::milliseconds window) override;

 private:
  /// One thread's last readings, by definition.
  struct Sighting {
    std::string comm;
    std::map<std::size_t, KernelReading> sets;
  };
  /// By tid and start time in nanoseconds.
  using Sightings = std::map<std::pair<pid_t, std::uint64_t>, Sighting>;

  EbpfReader(std::unique_ptr<Subject> subject, LabelOptions options)
      : subject_(std::move(subject)), options_(std::move(options)) {}

  Result<void> begin_program();
  Result<Sightings> gather(std::chrono::milliseconds window);
  void take(const bpf::Sample& sample, Sightings& into, std::size_t& bytes_left);
  void report_losses(Snapshot& snapshot);

  std::unique_ptr<Subject> subject_;
  LabelOptions options_;
  std::unique_ptr<SubjectSampler> sampler_;
  bpf::SamplerCounters counted_;  ///< at the end of the last reading
};

}  // namespace vitrine::observe
