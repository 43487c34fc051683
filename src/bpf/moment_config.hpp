// What every program that includes moment_state.bpf.h is told by its loader.
#pragma once

#include <cstddef>

#include "base/result.hpp"
#include "bpf/moment_wire.h"

namespace vitrine::bpf {

/// `ring_bytes`: size of its buffer. `epoch`: of the label sets that will be kept. Errors: as
/// ThreadIterator::open.
Result<vitrine_moment_config> moment_config(std::size_t ring_bytes, std::uint32_t epoch);

}  // namespace vitrine::bpf
