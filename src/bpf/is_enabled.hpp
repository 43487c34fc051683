// IsEnabledChecks: the programs that make is-enabled checks true.
#pragma once

#include <map>

#include "base/result.hpp"
#include "probe/probe.hpp"

struct vitrine_is_enabled;

namespace vitrine::bpf {

/// Loaded at the first check of a kind: few files have any, and the kernel warns of
/// programs that write to user memory.
class IsEnabledChecks {
 public:
  /// `multi`: to be attached by uprobe_multi, not by perf events.
  explicit IsEnabledChecks(bool multi) : multi_(multi) {}
  IsEnabledChecks(const IsEnabledChecks&) = delete;
  IsEnabledChecks& operator=(const IsEnabledChecks&) = delete;
  ~IsEnabledChecks();

  /// The program for enabled_register or enabled_pointer. Errors: unsupported (this kernel lets no
  /// program do so, or does not let us; what follows from it).
  Result<int> program(probe::SiteUse use);

 private:
  Result<int> load(probe::SiteUse use);

  bool multi_;
  std::map<probe::SiteUse, Result<int>> known_;
  std::map<probe::SiteUse, vitrine_is_enabled*> loaded_;
};

}  // namespace vitrine::bpf
