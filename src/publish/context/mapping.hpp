// The mapping that readers look for: a page named OTEL_CTX that begins with the header.
// Source: docs/formats/process-context.md, "Mapping" and "Publishing".
#pragma once

#include <cstdint>

#include "abi/process_context.hpp"
#include "publish/context/encoder.hpp"
#include "vitrine/context.hpp"

namespace vitrine::context {

using publish::Buffer;

/// A context that another library, or another copy of this one, publishes in this process. 0: there is none, or
/// /proc is not readable. `own`: of this copy, or null.
std::uintptr_t find_other_context(const void* own) noexcept;
/// Whether one that was found there is still there.
bool is_context(std::uintptr_t address) noexcept;

/// Of several contexts of a process readers take the one with the newest stamp.
enum class Age : std::uint8_t {
  now,
  /// As old as it can be: that of the application, which may be another library's, is then newer. A new context is a
  /// little older than now, for those that a fork makes publish again follow one another; an update is just newer
  /// than what was before.
  yielding,
};

/// One writer at a time: the caller serialises all calls.
class Mapping {
 public:
  [[nodiscard]] bool present() const noexcept { return header_ != nullptr; }
  [[nodiscard]] const void* address() const noexcept { return header_; }

  /// Publishes `payload`: in a new mapping, or in place of the payload before.
  Status show(Buffer payload, Age age) noexcept;

  /// Unmaps it.
  void remove() noexcept;

  /// Whether the mapping that was made here is there: not in a fork child, which does not inherit
  /// it, whatever else it has at that address; but in a vfork child, which lives in its parent's
  /// memory.
  [[nodiscard]] bool mapped() const noexcept;

  /// In a fork child: the mapping stayed with the parent.
  void forget() noexcept;

 private:
  using Header = abi::process_context::Header;

  /// A page that is mapped, but not published: the future mapping, or one that the kernel
  /// refused to unmap. (Another page of that name beside it could confuse readers.)
  struct Spare {
    Header* page = nullptr;
    int memfd_error = 0;    ///< 0: its name is that of a memfd
    bool inherited = true;  ///< by fork children: it is not marked MADV_DONTFORK yet
  };

  Status create(Buffer payload, Age age) noexcept;
  void unmap(Spare page) noexcept;
  void clear() noexcept;
  void write(std::uint64_t published_at_ns) noexcept;

  Header* header_ = nullptr;
  Spare spare_;
  int memfd_error_ = 0;  ///< of `header_`, as for a spare page
  Header shown_{};       ///< what `header_` holds, in memory that a fork child inherits
  Buffer payload_;       ///< the published one
  Buffer previous_;      ///< kept for readers that are still copying it
};

}  // namespace vitrine::context
