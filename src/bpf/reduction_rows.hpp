// Reading out of the kernel's tables what fires were added up to.
#pragma once

#include <map>
#include <span>
#include <vector>

#include "bpf/tracer.hpp"

namespace vitrine::bpf {

/// The tables, by their descriptors.
struct ReductionTables {
  int ungrouped = -1;
  int groups = -1;
  int buckets = -1;
  int names = -1;
};

/// What one site program adds to, as far as its rows are concerned.
struct ReductionShape {
  std::uint32_t program = 0;
  std::uint32_t probe = 0;
  bool is_signed = false;  ///< the value that is added up
  std::vector<bool> argument_is_text;
};

Result<std::vector<ReductionRow>> read_reduction_rows(const ReductionTables& tables,
                                                      const vitrine_hash_key& key,
                                                      std::span<const ReductionShape> shapes,
                                                      std::size_t selected_labels);

}  // namespace vitrine::bpf
