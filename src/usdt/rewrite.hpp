// One object: takes the calls of probes out, names the functions that they were in
// (docs/formats/object-step.md, "Calls and functions" and "Aliases"). Bytes in, bytes out.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "usdt/find_sites.hpp"

namespace vitrine::usdt {

/// The sites of one probe in one function.
struct FunctionSites {
  std::uint32_t provider = 0, probe = 0;  ///< as in ProbeUse
  std::string function;
  std::string alias;                   ///< the symbol at the function's start
  std::vector<std::uint32_t> offsets;  ///< from there, to where a uprobe goes
  std::vector<std::uint32_t> enabled_offsets;
};

struct RewrittenObject {
  const ObjectMachine* machine = nullptr;  ///< null: bitcode that does not tell
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

/// `salt` tells apart objects of equal bytes: it goes into the key of their aliases. Errors as
/// ObjectFile::read and find_sites; limit (an alias or an offset that the format cannot hold).
Result<RewrittenObject> rewrite(std::span<const std::byte> object, const DeclaredProbes& declared,
                                const SiteRules& rules, std::string_view salt);

}  // namespace vitrine::usdt
