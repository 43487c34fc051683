// A reader of process contexts that shares no code with the publisher: offsets as the format's
// table has them, messages decoded by protoc.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace vitrine::test {

/// A context as another process sees it.
struct PublishedContext {
  std::string mapping;      ///< its line of /proc/PID/maps
  std::uint64_t address{};  ///< of the mapping
  std::uint64_t bytes{};    ///< of the mapping
  std::string signature;
  std::uint32_t version{};
  std::uint64_t stamp{};
  std::uint64_t payload_address{};
  std::string payload;
};

/// Bytes of another (or our own) process; fewer than asked for when not all are readable.
std::string read_bytes(pid_t pid, std::uint64_t address, std::size_t size);

/// The mappings of a process whose name begins with OTEL_CTX, in any of the three spellings.
std::vector<std::string> context_mappings(pid_t pid);

/// The mappings of a process that begin with the signature, whatever their name.
std::vector<std::string> context_signatures(pid_t pid);

/// Reads the context at a line of /proc/PID/maps by the format's protocol: header, payload, header
/// again, until both headers are the same and its stamp is not 0. nullopt: not in 10,000 tries.
std::optional<PublishedContext> read_context_at(pid_t pid, const std::string& mapping);

/// The one context of a process; nullopt when it has none. Fails the test when it has several.
std::optional<PublishedContext> read_context(pid_t pid);

/// Runs `body` in a fork child, with a key map and a context of its own. Its failures fail the
/// test.
void in_fork(const std::function<void()>& body);

/// What protoc says a payload means, on one line: `resource { attributes { key: "a" value { … } }
/// }`.
std::string decode(const std::string& payload);

/// The text of `key`'s value in what decode() returned: `string_value: "shop"`; empty: no such key.
std::string value_of(const std::string& decoded, const std::string& key);

}  // namespace vitrine::test
