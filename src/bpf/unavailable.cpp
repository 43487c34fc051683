// Replaces the loaders in a build without clang, bpftool or libbpf.
#include "bpf/availability.hpp"
#include "bpf/profiler.hpp"
#include "bpf/sampler.hpp"
#include "bpf/thread_iterator.hpp"
#include "bpf/tracer.hpp"
#include "bpf/uprobes.hpp"

namespace vitrine::bpf {
namespace {

tl::unexpected<Error> not_built() {
  return fail(ErrorCode::unsupported, "this vitrine was built without its BPF programs",
              "install clang, bpftool and libbpf-dev, and build vitrine again");
}

}  // namespace

Result<std::unique_ptr<ThreadIterator>> ThreadIterator::open(int) {
  return not_built();
}

Result<std::unique_ptr<Sampler>> Sampler::open() {
  return not_built();
}

Result<std::unique_ptr<Profiler>> Profiler::open(const ProfilerOptions&) {
  return not_built();
}

// NOLINTNEXTLINE(performance-unnecessary-value-param): the real one keeps them
Result<std::unique_ptr<Tracer>> Tracer::open(TracerOptions) {
  return not_built();
}

Result<pid_t> kernel_tgid_of(pid_t pid) {
  return pid;  // nothing is asked of the kernel
}

bool built_in() {
  return false;
}

Result<bool> has_uprobe_multi() {
  return not_built();
}

bool kernel_has_struct(const char*) {
  return false;
}

bool kernel_has_function(const char*) {
  return false;
}

}  // namespace vitrine::bpf
