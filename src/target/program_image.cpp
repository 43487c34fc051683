#include "target/program_image.hpp"

#include "bpf/wire.h"
#include "target/proc_file.hpp"

namespace vitrine::target {

std::uint64_t program_image(int proc_dir) {
  constexpr std::size_t stat_bytes = 4096;
  const auto line = read_file_at(proc_dir, "stat", stat_bytes);
  if (!line) return 0;
  const auto stat = parse_stat(*line);
  if (!stat || stat->stack_start == 0) return 0;
  return vitrine_image_of(stat->code_start, stat->code_end, stat->stack_start);
}

}  // namespace vitrine::target
