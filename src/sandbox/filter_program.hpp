// The filter of system calls as a program of classic BPF (seccomp(2)).
//
// libseccomp builds the same from rules. That took two thirds of the instructions of `vitrine probes
// FILE`; so it only knows the numbers of the calls here.
#pragma once

#include <linux/filter.h>

#include <cstdint>
#include <map>
#include <vector>

namespace vitrine::sandbox {

/// What becomes of a call.
enum class Ruling : std::uint8_t {
  refused,
  allowed,
  trapped,     ///< SIGSYS
  absent,      ///< ENOSYS
  threads,     ///< clone: allowed without namespaces
  descriptors  ///< ioctl: allowed, except for requests that change a terminal
};

/// `calls` by number; other calls are refused: the filter returns `refusal` for them. Calls of other
/// architectures, and of x32, kill the process.
std::vector<sock_filter> filter_program(const std::map<std::uint32_t, Ruling>& calls,
                                        std::uint32_t refusal);

}  // namespace vitrine::sandbox
