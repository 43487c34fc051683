// Reading the process context of a live process (docs/formats/process-context.md,
// "Mapping" and "Reading").
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/memory.hpp"
#include "base/result.hpp"
#include "format/process_context.hpp"
#include "target/maps.hpp"
#include "target/process.hpp"

namespace vitrine::observe {

/// What a process has on display now.
struct ContextState {
  format::ProcessContext context;
  Address header = 0;   ///< where it was read
  std::string mapping;  ///< the name of that mapping in /proc/PID/maps
  /// Not empty: this is the last good reading, because the present one could not be finished; why.
  std::string stale;
  std::vector<std::string> notes;  ///< other mappings that were passed over, and why
};

/// Where a ContextReader looks.
class ContextSource {
 public:
  virtual ~ContextSource() = default;
  virtual Memory& memory() = 0;
  /// The mappings that may hold a context.
  virtual Result<target::ContextMappings> mappings() = 0;
  /// Whether what is read still belongs to what was opened.
  virtual Result<void> verify() = 0;
  /// What is known of why something could not be read, added to what could not.
  virtual Error explain(Error error) { return error; }
};

/// Reads one process's context again and again. Finding it costs a search of the mappings;
/// afterwards an unchanged context costs one read of 32 bytes.
class ContextReader {
 public:
  /// Opens a live process. Errors: not_found (no such process), not_permitted, unsupported.
  static Result<std::unique_ptr<ContextReader>> open(int pid);

  /// The same for a process that is open; it must outlive the reader.
  static std::unique_ptr<ContextReader> of(target::Process& process);

  explicit ContextReader(std::unique_ptr<ContextSource> source) : source_(std::move(source)) {}

  /// The context now. `nullptr`: the process publishes none (it may later). Valid until the next
  /// call. Errors: not_permitted; not_found, the process is gone; interrupted, it executed another
  /// program (open it again), or its context is being updated and there is no earlier reading;
  /// malformed, unsupported or limit, by its publisher's fault.
  Result<const ContextState*> refresh();

 private:
  struct Place {
    Address header = 0;
    std::string mapping;
  };

  Result<void> locate();
  Result<void> read();
  Result<const ContextState*> stale_or(Error problem);

  std::unique_ptr<ContextSource> source_;
  std::optional<Place> place_;
  std::vector<std::string> notes_;     ///< of the search that found `place_`
  std::optional<ContextState> state_;  ///< the last good reading
};

}  // namespace vitrine::observe
