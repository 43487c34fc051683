// Every process on this machine that publishes anything.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "base/redaction.hpp"
#include "base/result.hpp"
#include "format/label_set.hpp"

namespace vitrine::observe {

/// One process that publishes something.
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
  std::size_t cut = 0;                ///< of those, how many were looked into in part
  std::size_t unread = 0;             ///< processes that could not be read for another reason
  std::string why_unread;             ///< the first one's reason
};

/// Which processes to list.
struct ListOptions {
  bool with_probes = false;  ///< also those that offer probes and nothing else
  Redaction redaction;       ///< of what they publish
  /// What one process may cost when it is looked at first: processor time. Others follow before it
  /// is looked at again.
  std::chrono::nanoseconds first_budget = std::chrono::milliseconds(100);
  /// What all processes together may cost beyond their first budgets.
  std::chrono::nanoseconds rest_budget = std::chrono::seconds(5);
  /// Called after each process: how many are done, of how many.
  std::function<void(std::size_t done, std::size_t all)> progress;
};

/// Looks at every process of this pid namespace. Those that end meanwhile are left out. What one
/// that exceeds the budgets publishes is found in part, and its problems report it.
Result<PublisherList> list_publishers(const ListOptions& options = {});

}  // namespace vitrine::observe
