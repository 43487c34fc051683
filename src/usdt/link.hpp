// The object step, what `dtrace -G` does: one object rewritten, and all of a link.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "usdt/definition.hpp"
#include "usdt/find_sites.hpp"
#include "usdt/header.hpp"

namespace vitrine::usdt {

// One object: takes the calls of probes out, names the functions that they were in
// (docs/formats/object-step.md, "Calls and functions" and "Aliases"). Bytes in, bytes out.

/// The sites of one probe in one function.
struct FunctionSites {
  std::uint32_t provider = 0, probe = 0;  ///< as in ProbeUse
  std::string function;
  std::string alias;                   ///< the symbol at the function's start
  std::vector<std::uint32_t> offsets;  ///< from there, to where a uprobe goes
  std::vector<std::uint8_t> jumps;     ///< one an offset: 1 where it was a jump, no call
  std::vector<std::string> at_sites;   ///< one an offset: the symbol there, for notes; none without
  std::vector<std::uint32_t> enabled_offsets;
};

struct RewrittenObject {
  const ObjectMachine* machine = nullptr;  ///< null: bitcode without a target triple
  std::vector<std::byte> bytes;            ///< what it becomes; none: it is as it should be
  std::vector<FunctionSites> functions;    ///< by probe, then by place
  std::uint32_t features = ~0U;            ///< GNU property bits that it claims (CET, BTI)
  bool register_protocol = false;          ///< it asks by return_value
  bool pointer_protocol = false;           ///< it asks by pointer
  bool only_lto = false;                   ///< -flto: no machine code yet; the linker makes it
  bool fat_lto = false;                    ///< code that -flto at link time throws away
  std::vector<ProbeUse> left_to_stubs;     ///< one a use that is no direct call
  std::vector<std::string> undeclared;     ///< symbols of probes that are not declared here
};

/// `salt` distinguishes objects of equal bytes: it goes into the key of their aliases. Errors as
/// ObjectFile::read and find_sites; limit (an alias or an offset that the format cannot hold).
Result<RewrittenObject> rewrite(std::span<const std::byte> object, const DeclaredProbes& declared,
                                const SiteRules& rules, std::string_view salt);

// The object step, what `dtrace -G` does: takes the probes' calls out of objects, and writes the
// object that records where they were (docs/formats/object-step.md).

struct LinkOptions {
  std::vector<std::string> objects;  ///< ET_REL files, rewritten in place (temporary file, rename)
  std::string output;                ///< the object to write
  /// The machine of a probe object that is made of no objects, for probes that all fire in its
  /// functions; null: objects are required.
  const ObjectMachine* without_objects = nullptr;
  bool strict = false;        ///< a declared probe without a site is an error
  bool registration = false;  ///< for hosts with a DTrace helper: vitrine/usdt_register.c
  bool sdt = true;            ///< notes of SystemTap beside the DOF, for other tools
  bool long_nop = false;      ///< one 5-byte nop in place of five of one byte

  /// The objects are linked by lld 15 or later, which refuses a reference to a function whose copy
  /// in this object it discarded, unless the symbol is weak where it is defined; gold refuses just
  /// that. bfd and mold take both.
  bool lld = false;

  /// The one that the header was written with: an object does not record whether its checks are
  /// calls that return the result (DOF version 2) or that store it (version 3). The semaphore, which
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
