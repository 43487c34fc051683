// What glibc's dynamic linker knows of a module's thread-local storage.
//
// Its structures change from version to version; the target's own libc.so.6 describes them, for
// debuggers, in symbols named _thread_db_* (docs/formats/tls.md, "glibc").
#pragma once

#include <optional>
#include <span>

#include "target/modules.hpp"
#include "target/thread_layout.hpp"

namespace vitrine::target {

/// One module's TLS, as its link_map says.
struct GlibcTls {
  std::uint64_t module_id = 0;  ///< l_tls_modid; 0: the module has no TLS
  /// Distance of its block from the thread pointer, the same in all threads: subtracted on x86-64,
  /// added on aarch64. nullopt: none was reserved (yet), or it was decided that none ever is.
  std::optional<std::uint64_t> static_offset;
};

class Glibc {
 public:
  /// nullopt when no module is glibc's libc (libpthread before 2.34), or it lacks the descriptors.
  static std::optional<Glibc> find(Memory& memory, std::span<const Module> modules);

  /// Errors: malformed (the link_map is not readable).
  Result<GlibcTls> tls_of(Memory& memory, const Module& module) const;

  /// Where l_tls_offset of a module is: its value may change while the process runs.
  [[nodiscard]] Address tls_offset_address(const Module& module) const {
    return module.link_map + link_map_tls_offset_;
  }

  /// A module's entry in the dynamic linker's list of TLS modules.
  struct Slot {
    std::uint64_t generation = 0;  ///< of the DTV, from which on it holds this module's block
    Address generation_address = 0;
    Address link_map = 0;  ///< the module that has this id now
  };
  /// Errors: malformed; not_found (no such entry, or ld.so does not export _rtld_global).
  Result<Slot> slot(Memory& memory, std::uint64_t module_id) const;

  [[nodiscard]] const ThreadLayout::Glibc& thread() const { return thread_; }

 private:
  Glibc() = default;

  std::uint64_t link_map_tls_id_ = 0;
  std::uint64_t link_map_tls_offset_ = 0;
  ThreadLayout::Glibc thread_;

  Address slots_ = 0;  ///< _rtld_global._dl_tls_dtv_slotinfo_list
  std::uint64_t list_length_ = 0, list_next_ = 0, list_slots_ = 0;
  std::uint64_t slot_size_ = 0, slot_generation_ = 0, slot_map_ = 0;
};

}  // namespace vitrine::target
