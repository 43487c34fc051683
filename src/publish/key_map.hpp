// The key map of the OpenTelemetry thread record: attribute names, by their one-byte index.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace vitrine::publish {

/// The index of `name` (1 to 4,096 bytes of UTF-8) in the key map, assigned at its first use and
/// then the same for the life of the process. Readers know the name before this returns: a new one
/// is published with the process context, which comes into being with it if it must (its defaults
/// are those of context::publish()); a process that dropped its context stays without.
/// nullopt: 256 names are in use, or this one cannot be published. Then `later` (if not null) says
/// whether another attempt may succeed: memory ran out, or the kernel refused something.
///
/// Takes a lock, and allocates for a new name: call it when a key is interned, not in a signal
/// handler.
std::optional<std::uint8_t> otel_key_index(std::string_view name, bool* later = nullptr) noexcept;

/// Has `retry` called whenever the application published its context. (The context does not depend
/// on the labels.) The caller of `retry_keys` holds no lock.
void retry_keys_by(void (*retry)() noexcept) noexcept;
void retry_keys() noexcept;

}  // namespace vitrine::publish
