#include "observe/made_code.hpp"

#include <fmt/format.h>

#include "target/perf_map.hpp"

namespace vitrine::observe {

std::string MadeCode::refresh(int root, const ProcessFacts& facts) {
  if (facts.inner_pid == 0 || map_.full()) return {};
  auto part = target::read_perf_map(root, facts.inner_pid, facts.owner, map_.taken());
  if (!part && part.error().code == ErrorCode::not_found) return {};
  if (!part)
    return fmt::format("/tmp/perf-{}.map: not used: {}", facts.inner_pid, part.error().message);
  if (part->anew) map_ = {};
  if (!part->text.empty()) map_.add(part->text);  // else its index stays
  if (!map_.full()) return {};
  return fmt::format("/tmp/perf-{}.map: too long: only its first part is used", facts.inner_pid);
}

}  // namespace vitrine::observe
