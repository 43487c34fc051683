// What is said of the probes of a file: by us, and by readelf.
#pragma once

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <set>
#include <sstream>
#include <string>

#include "observe/probes/probes.hpp"
#include "support/child.hpp"

namespace vitrine::test {

/// One a site: "provider:name @address semaphore [arguments]".
using Listing = std::multiset<std::string>;

inline std::string listed(const std::string& provider, const std::string& name, Address address,
                          Address semaphore, const std::string& arguments) {
  return fmt::format("{}:{} @{:#x} {:#x} [{}]", provider, name, address, semaphore, arguments);
}

inline Listing listing(const observe::ProbeFile& file) {
  Listing out;
  for (const probe::Probe& probe : file.probes)
    for (const probe::Site& site : probe.sites)
      out.insert(listed(probe.provider, probe.name, site.address, site.semaphore,
                        fmt::format("{}", fmt::join(site.arguments, " "))));
  return out;
}

/// The same by `readelf -nW`, for files that nothing has moved since they were linked.
inline Listing readelf_listing(const std::string& path) {
  const Outcome outcome = run({"readelf", "-nW", path});
  Listing out;
  std::istringstream lines(outcome.out);
  std::string provider, name;
  unsigned long long address = 0, base = 0, semaphore = 0;
  const auto after = [](const std::string& line, const std::string& key) -> const char* {
    const auto at = line.find(key);
    return at == line.npos ? nullptr : line.c_str() + at + key.size();
  };
  for (std::string line; std::getline(lines, line);) {
    if (const char* text = after(line, "Provider: ")) provider = text;
    if (const char* text = after(line, "    Name: ")) name = text;
    if (const char* text = after(line, "    Location: "))
      std::sscanf(text, "%llx, Base: %llx, Semaphore: %llx", &address, &base, &semaphore);
    if (const char* text = after(line, "    Arguments: "))
      out.insert(listed(provider, name, address, semaphore, text));
  }
  return out;
}

}  // namespace vitrine::test
