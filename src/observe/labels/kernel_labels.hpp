// Labels as programs in the kernel copy them: what such a program is given of a process, and making
// label sets of what it sends.
#pragma once

#include <cstdint>
#include <vector>

#include "base/memory.hpp"
#include "bpf/wire/wire.h"
#include "observe/labels/subject.hpp"

namespace vitrine::observe {

/// One definition as a program in the kernel found it in a thread.
struct KernelSlot {
  std::uint32_t state = VITRINE_SLOT_UNREADABLE;  ///< enum vitrine_slot_state
  Address address = 0;
  std::uint64_t value = 0;                 ///< its first 8 bytes
  std::vector<ChunkMemory::Chunk> chunks;  ///< what it leads to
  Address thread_pointer = 0;              ///< 0: not known
};

struct KernelReading {
  Result<format::LabelSet> set;
  /// All bytes are of the time of the copy. False: some were not resident then, or more than the kernel copies.
  bool complete = false;
};

/// What becomes of the bytes that a copy lacks.
enum class Lacking : std::uint8_t {
  read_now,  ///< from the process: they may be of another set
  left_out,  ///< with the labels that they are of, and those that may be an outdated one of the same key
};

/// At most VITRINE_DEFINITIONS of them, of this machine; no bit of a pointer is a tag.
vitrine_target wire_target(std::span<const Definition> definitions);

/// Where the threads of the subject display labels. `pid_level`: of our pid namespace.
vitrine_target wire_target(Subject& subject, std::uint32_t pid_level);

/// Whether the kernel met a page that was not resident. False: it copied all, or as much as it has room for.
bool met_absent_page(const KernelSlot& slot);

/// Decodes. What was not resident is touched in any case, so that a next copy finds it. `bytes_left` as in
/// format::DecodeContext.
KernelReading decode_kernel_slot(Subject& subject, const Definition& definition,
                                 const KernelSlot& slot, std::size_t* bytes_left,
                                 Lacking lacking = Lacking::read_now);

}  // namespace vitrine::observe
