// The tests' own probes, whose fires are added up in the kernel.
#pragma once

#include <gtest/gtest.h>

#include <vector>

#include "bpf/own_probe.hpp"

namespace vitrine::bpf {

inline TracerOptions adding_up() {
  TracerOptions options;
  options.reductions = true;
  options.labels = false;
  return options;
}

inline std::vector<ReductionRow> rows_of(test::OwnTracer& own) {
  auto rows = own.tracer->read_reductions();
  EXPECT_TRUE(rows) << rows.error().message;
  return rows ? *rows : std::vector<ReductionRow>{};
}

}  // namespace vitrine::bpf
