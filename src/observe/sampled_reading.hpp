// Samples of the kernel's side, made into label sets.
#pragma once

#include <memory>
#include <optional>

#include "bpf/sample.hpp"
#include "bpf/sampler.hpp"
#include "observe/kernel_labels.hpp"
#include "observe/subject.hpp"

namespace vitrine::observe {

/// A sampler that knows the subject.
class SubjectSampler {
 public:
  /// Errors: as bpf::Sampler::open.
  static Result<std::unique_ptr<SubjectSampler>> open(Subject& subject);

  /// Tells the kernel the subject's definitions of now.
  Result<void> tell_definitions();

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

}  // namespace vitrine::observe
