// The object step, what `dtrace -G` does: takes the probes' calls out of objects, and writes the
// object that says where they were (dof.md 3).
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "usdt/definition.hpp"

namespace vitrine::usdt {

struct LinkOptions {
  std::vector<std::string> objects;  ///< ET_REL files, rewritten in place (temporary file, rename)
  std::string output;                ///< the object to write
  bool strict = false;               ///< no site for a declared probe is an error
  bool registration = false;         ///< add the constructor for hosts with a DTrace helper device
  bool long_nop = false;             ///< one 5-byte nop in place of five of one byte
  /// Calls of __dtraceenabled_p___n take a pointer (EnabledProtocol::pointer, DOF version 3) instead
  /// of returning their answer: an object does not say which header it was compiled with.
  bool enabled_by_pointer = false;
};

struct LinkReport {
  std::size_t sites = 0;
  std::size_t enabled_sites = 0;
  std::size_t records = 0;             ///< (probe, function instance)
  std::vector<std::string> rewritten;  ///< objects that changed
  std::vector<std::string> warnings;
};

/// Errors: not_found, not_permitted, malformed (names file, section and reason), usage, limit. On an
/// error every input is byte for byte what it was, and the output is not written.
Result<LinkReport> link(const Definition& definition, const LinkOptions& options);

}  // namespace vitrine::usdt
