// What `perf` says of a program that we profile, too.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <string>
#include <vector>

namespace vitrine::test {

/// Of each sample, its functions, the leaf first.
using PerfStacks = std::vector<std::vector<std::string>>;

/// `perf record --call-graph dwarf` for that long, then `perf script`. Takes longer than that.
PerfStacks perf_stacks(pid_t pid, std::chrono::seconds duration);

}  // namespace vitrine::test
