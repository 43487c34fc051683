// The mapping that readers look for: a page named OTEL_CTX that begins with the header.
// Source: ../shared/spec/labels.md 2.1 to 2.3.
#pragma once

#include <memory>
#include <string>

#include "abi/process_context.hpp"
#include "vitrine/context.hpp"

namespace vitrine::context {

/// One writer at a time: the caller serialises all calls.
class Mapping {
 public:
  bool present() const { return header_ != nullptr; }

  /// Puts `payload` on display: in a new mapping, or in place of the payload before.
  Status show(std::string payload);

  /// Unmaps it.
  void remove();

  /// Whether this process still has the mapping it made: a fork child does not, a vfork child,
  /// which lives in its parent's memory, does.
  bool mapped() const;

  /// In a fork child: the mapping stayed with the parent.
  void forget();

 private:
  using Header = abi::process_context::Header;

  Status create();
  void write(std::uint64_t published_at_ns);

  Header* header_ = nullptr;
  std::unique_ptr<const std::string> payload_;   ///< on display
  std::unique_ptr<const std::string> previous_;  ///< kept for readers that are still copying it
};

}  // namespace vitrine::context
