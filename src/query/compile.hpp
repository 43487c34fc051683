// The hash of keyed_hash.h for strings of user space: what a compiled condition compares with.
#pragma once

#include <cstdint>
#include <string_view>

#include "query/keyed_hash.h"

namespace vitrine::query {

/// SipHash-1-3 of all of `bytes`.
std::uint64_t keyed_hash(const vitrine_hash_key& key, std::string_view bytes);

/// As the kernel hashes a captured string, the value of a label, or a thread's name: by its first
/// VITRINE_NAME_BYTES bytes. Never 0, which means "there is none".
std::uint64_t string_hash(const vitrine_hash_key& key, std::string_view bytes);

}  // namespace vitrine::query
