// The object step, what `dtrace -G` does: takes the probes' calls out of objects, and writes the
// object that says where they were (docs/formats/object-step.md).
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "usdt/definition.hpp"
#include "usdt/header.hpp"

namespace vitrine::usdt {

struct LinkOptions {
  std::vector<std::string> objects;  ///< ET_REL files, rewritten in place (temporary file, rename)
  std::string output;                ///< the object to write
  bool strict = false;               ///< a declared probe without a site is an error
  bool registration = false;         ///< for hosts with a DTrace helper: vitrine/usdt_register.c
  bool long_nop = false;             ///< one 5-byte nop in place of five of one byte

  /// The objects are linked by lld 15 or later, which refuses a reference to a function whose copy
  /// in this object it discarded, unless the symbol is weak where it is defined; gold refuses just
  /// that. bfd and mold take both.
  bool lld = false;

  /// The one that the header was written with: an object does not tell whether its questions are
  /// calls that return an answer (DOF version 2) or that store it (version 3). The semaphore, which
  /// is no call, goes with return_value.
  EnabledProtocol enabled = EnabledProtocol::semaphore;
};

struct LinkReport {
  std::size_t sites = 0;
  std::size_t enabled_sites = 0;
  std::size_t records = 0;             ///< (probe, function instance), without those of stubs
  std::vector<std::string> rewritten;  ///< objects that changed
  std::vector<std::string> warnings;
  std::vector<std::string> notes;  ///< what is as it should be, and good to know
};

/// Errors: not_found, not_permitted, malformed (names file, section and reason), unsupported, usage,
/// limit. On an error every input is byte for byte what it was, and the output is not written.
Result<LinkReport> link(const Definition& definition, const LinkOptions& options);

}  // namespace vitrine::usdt
