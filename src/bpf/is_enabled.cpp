#include "bpf/is_enabled.hpp"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include <cerrno>

#include "base/signals.hpp"
#include "bpf/kernel_log.hpp"
#include "bpf/uprobes.hpp"

// After the structures it names.
#include <is_enabled.skel.h>

namespace vitrine::bpf {
namespace {

tl::unexpected<Error> refused(probe::SiteUse use) {
  if (use == probe::SiteUse::enabled_register)
    return fail(ErrorCode::unsupported,
                "it stays false: the check requires a uprobe that writes a register, which this "
                "kernel does not permit",
                "process the objects with `vitrine usdt link`: is-enabled checks then need no such "
                "permission");
  return fail(
      ErrorCode::unsupported,
      "it stays false: the check requires a uprobe that writes to the program's memory, which "
      "needs CAP_SYS_ADMIN and a kernel that is not locked down",
      "generate the header with another protocol (`vitrine usdt header --enabled semaphore`)");
}

}  // namespace

IsEnabledChecks::~IsEnabledChecks() {
  for (const auto& [use, program] : loaded_) vitrine_is_enabled::destroy(program);
}

Result<int> IsEnabledChecks::program(probe::SiteUse use) {
  auto known = known_.find(use);
  if (known == known_.end()) known = known_.emplace(use, load(use)).first;
  return known->second;
}

Result<int> IsEnabledChecks::load(probe::SiteUse use) {
#ifndef __x86_64__
  // The site is on the instruction that clears the register: it would have to be passed over.
  if (use == probe::SiteUse::enabled_register) return refused(use);
#endif
  const KernelLog log;
  vitrine_is_enabled* object = vitrine_is_enabled::open();
  if (object == nullptr)
    return tl::unexpected(log.error("open the BPF programs of is-enabled checks", errno));
  loaded_.emplace(use, object);
  bpf_program* wanted = use == probe::SiteUse::enabled_register ? object->progs.enable_in_register
                                                                : object->progs.enable_at_pointer;
  for (bpf_program* one : {object->progs.enable_in_register, object->progs.enable_at_pointer})
    bpf_program__set_autoload(one, one == wanted);
  if (multi_)
    bpf_program__set_expected_attach_type(wanted,
                                          static_cast<bpf_attach_type>(uprobe_multi_attach_type));
  const SignalsBlocked blocked;  // of the verifier
  if (const int error = vitrine_is_enabled::load(object)) {
    if (error == -EAGAIN || error == -EINTR)
      return tl::unexpected(log.error("load the BPF programs of is-enabled checks", error));
    return refused(use);
  }
  return bpf_program__fd(wanted);
}

}  // namespace vitrine::bpf
