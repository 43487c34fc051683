// ObjectParser: rewrite() in a worker. Objects may be untrusted: a library's archive, a package
// that is built. One that crashes their parser fails the step, and no more.
#pragma once

#include <optional>

#include "base/pack.hpp"
#include "sandbox/worker.hpp"
#include "usdt/link.hpp"
#include "usdt/object_file.hpp"

namespace vitrine::usdt {

// Structures of this layer as base/pack.hpp has them.

template <pack::Of<ProbeUse> T>
auto fields(T& use) {
  auto& [provider, probe, enabled] = use;
  return std::tie(provider, probe, enabled);
}

template <pack::Of<FunctionSites> T>
auto fields(T& sites) {
  auto& [provider, probe, function, alias, offsets, jumps, at_sites, enabled_offsets] = sites;
  return std::tie(provider, probe, function, alias, offsets, jumps, at_sites, enabled_offsets);
}

/// Nothing is started before the first object. Forks.
class ObjectParser {
 public:
  /// Both must outlive this.
  ObjectParser(const DeclaredProbes& declared, const SiteRules& rules)
      : declared_(declared), rules_(rules) {}

  /// As rewrite(), of the file's bytes. Errors: its own; failed, limit (the object was more than its
  /// parser could stand).
  Result<RewrittenObject> rewrite(const InputFile& object, const std::string& salt);

 private:
  Result<void> start(const sandbox::Limits& limits);

  const DeclaredProbes& declared_;
  const SiteRules& rules_;
  std::optional<sandbox::Worker> worker_;
  std::uint64_t room_ = 0;  ///< bytes of objects that the worker's limits are made for
};

/// What the worker responds, as bytes and back. Unpacking takes whatever the bytes are.
std::vector<std::byte> pack_rewritten(Result<RewrittenObject> object);
/// Errors: those that are packed; malformed (no packed object, or one of probes that are not
/// declared).
Result<Result<RewrittenObject>> unpack_rewritten(std::span<const std::byte> bytes,
                                                 const DeclaredProbes& declared);

}  // namespace vitrine::usdt
