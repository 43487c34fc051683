// The names behind the one-byte key indexes of thread records.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/memory.hpp"

namespace vitrine::format {

/// Index to name, at most 256. A publisher may put something other than a string at an index: it
/// keeps its place, without a name.
struct KeyMap {
  std::vector<std::optional<std::string>> names;

  bool operator==(const KeyMap&) const = default;
};

/// Draft A has its key map in memory: `reference` is the pointer found in the thread-local
/// custom_labels_current_ref_v2. Fails as `malformed` or `unsupported` (schema version other than
/// 1); names past the readable bytes are left out.
Result<KeyMap> read_key_table(Memory& memory, Address reference, Address address_mask);

}  // namespace vitrine::format
