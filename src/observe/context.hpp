// Reading the process context of a live process (OTEP-4719).
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/memory.hpp"
#include "base/result.hpp"
#include "format/process_context.hpp"

namespace vitrine::observe {

/// What a process has on display now.
struct ContextState {
  format::ProcessContext context;
  Address header = 0;   ///< of the mapping it was read from
  std::string mapping;  ///< its name in /proc/PID/maps
  /// Not empty: this is the last good reading, because the present one could not be finished; why.
  std::string stale;
  std::vector<std::string> notes;  ///< other contexts that were passed over, and why
};

/// Reads one process's context again and again. Finding it costs a search of the mappings;
/// afterwards an unchanged context costs one read of 32 bytes.
class ContextReader {
 public:
  /// Opens a live process. Errors: not_found (no such process), not_permitted.
  static Result<std::unique_ptr<ContextReader>> open(int pid);

  virtual ~ContextReader() = default;

  /// The context now. `nullptr`: the process publishes none (it may later). Valid until the next
  /// call. Errors: not_permitted; not_found, the process is gone; interrupted, it is being updated
  /// and there is no earlier reading; malformed, unsupported or limit, by its publisher's fault.
  virtual Result<const ContextState*> refresh() = 0;
};

}  // namespace vitrine::observe
