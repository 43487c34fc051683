// ebpf mode: the labels of running threads, read in CPU-clock interrupts.
#pragma once

#include <map>

#include "observe/labels.hpp"
#include "observe/sampled_reading.hpp"
#include "observe/subject.hpp"

namespace vitrine::observe {

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
