// Attachment: uprobes in force, and what they are asked for by.
//
// Where uprobes go away, be it that a link ends or that the kernel refuses one in part, the kernel waits for
// a grace period of RCU tasks trace: tens of milliseconds, and more on a busy machine. Calls that
// wait at the same time share one, so links are made and closed in many threads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "probe/probe.hpp"

namespace vitrine::bpf {

/// One place to attach to.
struct AttachSite {
  std::uint64_t file_offset = 0;       ///< of the site itself
  std::uint64_t semaphore_offset = 0;  ///< in the file; 0: none
  std::uint32_t program = 0;           ///< index given to set_program; below 2^31
  std::uint32_t site = 0;              ///< the caller's number, in each fire
  unsigned skip = 0;                   ///< SitePlan::skip
  /// Is-enabled checks become true, and are no fires.
  probe::SiteUse use = probe::SiteUse::fire;
  bool at_return = false;  ///< of a function, which begins there
  /// Of enabled_pointer: argument 0 is on the stack (i386), so far above the stack pointer.
  std::optional<std::uint8_t> pointer_on_stack;
};

/// Sites of one file.
struct FileSites {
  /// Any descriptor of it, opened with O_RDONLY: the kernel's uprobes are of its inode.
  int file = -1;
  std::string_view path;  ///< what errors call it
  std::span<const AttachSite> sites;
};

struct AttachFailure {
  std::size_t file = 0;  ///< index in the span given to attach()
  std::size_t site = 0;  ///< index in its sites
  Error error;
};

/// Uprobes in force. Destroying it takes them away; so does the end of this process, however it
/// ends. Semaphores are counted up and down by the kernel alone.
class Attachment {
 public:
  Attachment() = default;
  Attachment(Attachment&& other) noexcept { *this = std::move(other); }
  Attachment& operator=(Attachment&& other) noexcept;
  Attachment(const Attachment&) = delete;
  Attachment& operator=(const Attachment&) = delete;
  ~Attachment() { detach(); }

  /// As one.
  void add(Attachment other);

  void detach();

  std::vector<int> links;               ///< file descriptors; the caller closes them
  std::vector<AttachFailure> failures;  ///< sites that were left out; the others are attached
};

/// Calls `job` with each number below `count`, many at a time, in threads that end before this
/// returns; where the system gives no thread, in the caller's alone. Rethrows the first exception.
void parallel_for(std::size_t count, const std::function<void(std::size_t)>& job);

}  // namespace vitrine::bpf
