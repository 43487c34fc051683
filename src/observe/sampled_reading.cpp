#include "observe/sampled_reading.hpp"

#include "bpf/thread_iterator.hpp"

namespace vitrine::observe {

Result<std::unique_ptr<SubjectSampler>> SubjectSampler::open(Subject& subject) {
  auto iterator = TRY(bpf::ThreadIterator::open(subject.process().pidfd()));
  std::vector<vitrine_thread> threads;
  TRY(iterator->read(threads));
  if (threads.empty()) return fail(ErrorCode::not_found, "the process has ended");
  auto sampler = TRY(bpf::Sampler::open());

  std::unique_ptr<SubjectSampler> made(new SubjectSampler(subject, std::move(sampler)));
  made->kernel_tgid_ = threads.front().kernel_tgid;
  made->pid_level_ = threads.front().pid_level;
  TRY(made->tell_definitions());
  return made;
}

Result<void> SubjectSampler::tell_definitions() {
  return sampler_->want(kernel_tgid_, wire_target(subject_, pid_level_));
}

KernelReading SubjectSampler::decode(const bpf::SampledSet& set, Address thread_pointer_hint,
                                     std::size_t* bytes_left) {
  const KernelSlot slot{set.head.state, set.head.slot_address, set.head.slot, set.chunks,
                        thread_pointer_hint};
  return decode_kernel_slot(subject_, subject_.definitions()[set.head.definition], slot,
                            bytes_left);
}

}  // namespace vitrine::observe
