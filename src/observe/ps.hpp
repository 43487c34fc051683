// Every process on this machine that publishes anything.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "base/redaction.hpp"
#include "base/result.hpp"
#include "format/label_set.hpp"

namespace vitrine::observe {

/// One process with something on display.
struct Publisher {
  int pid = 0;
  std::string comm;
  std::size_t threads = 0;
  std::vector<format::Format> formats;  ///< label formats it defines, in order of Format, each once
  bool has_context = false;
  std::size_t probes = 0;             ///< static probes in what it executes, by name
  std::string service;                ///< service.name of its process context, or empty
  std::vector<std::string> problems;  ///< what of it could not be read
};

struct PublisherList {
  std::vector<Publisher> publishers;  ///< by pid
  std::size_t looked_at = 0;          ///< processes, kernel threads not counted
  std::size_t not_permitted = 0;      ///< of those, how many we may not look into
};

/// Which processes to list.
struct ListOptions {
  bool with_probes = false;  ///< also those that offer probes and nothing else
  Redaction redaction;       ///< of what they publish
};

/// Looks at every process of this pid namespace. Those that end meanwhile are left out.
Result<PublisherList> list_publishers(const ListOptions& options = {});

}  // namespace vitrine::observe
