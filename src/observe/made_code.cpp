#include "observe/made_code.hpp"

#include <fmt/format.h>

#include "target/perf_map.hpp"

namespace vitrine::observe {

std::string MadeCode::refresh(int root, pid_t inner_pid, uid_t owner) {
  if (inner_pid == 0 || map_.full()) return {};
  auto part = target::read_perf_map(root, inner_pid, owner, map_.taken());
  if (!part && part.error().code == ErrorCode::not_found) return {};
  if (!part) return fmt::format("/tmp/perf-{}.map: not used: {}", inner_pid, part.error().message);
  if (part->anew) map_ = {};
  if (!part->text.empty()) map_.add(part->text);  // else its index stays
  if (!map_.full()) return {};
  return fmt::format("/tmp/perf-{}.map: too long: only its first part is used", inner_pid);
}

}  // namespace vitrine::observe
