// Threads by the C library's own structures: glibc and musl.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "base/memory.hpp"
#include "target/modules.hpp"
#include "target/threads.hpp"
#include "target/tls_location.hpp"

namespace vitrine::target {

// What the modules of a process show about how its C library keeps its threads.

class Glibc;

/// All optional: it widens what ThreadPointers can find.
struct ThreadLayout {
  /// glibc on aarch64: where the thread pointer is relative to struct pthread.
  struct Glibc {
    std::uint64_t tid_offset = 0;  ///< of `tid` in struct pthread
    std::uint64_t size = 0;        ///< of struct pthread
  };
  std::optional<Glibc> glibc;
  /// Modules with thread-local storage. A thread structure of musl whose DTV knows fewer of them is
  /// one that musl used while it was starting and then left behind.
  std::uint64_t tls_modules = 0;
};

/// `glibc`: null when the process has none.
ThreadLayout thread_layout(std::span<const Module> modules, const Glibc* glibc);

// What glibc's dynamic linker knows of a module's thread-local storage.
//
// Its structures change from version to version; the target's own libc.so.6 describes them, for
// debuggers, in symbols named _thread_db_* (docs/formats/tls.md, "glibc").

/// One module's TLS, as in its link_map.
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

// glibc's struct pthread, as far as it leads to the thread pointer.

/// Where the kernel was given that `tid`'s list of robust mutexes begins; nullopt when it has none
/// (musl and Go register none) or we may not ask.
std::optional<Address> robust_list_head(pid_t tid);

struct RobustThread {
  Address head = 0;
  pid_t tid = 0;  ///< as its libc knows it
};

/// The thread pointers of threads by their robust list heads, which glibc keeps in struct pthread
/// 16 bytes past the tid (docs/formats/tls.md, "Thread pointers"); nullopt where what is around the
/// head is not that structure.
std::vector<std::optional<Address>> glibc_thread_pointers(
    Memory& memory, Machine machine, std::span<const RobustThread> threads,
    const std::optional<ThreadLayout::Glibc>& layout);

// musl's struct pthread, as far as it leads to the thread pointer (docs/formats/tls.md, "musl").

struct MuslRing {
  std::map<pid_t, Address> pointers;  ///< by tid
  bool cut = false;                   ///< it goes on
  bool closed = false;                ///< it led back to where it began
};

/// The thread pointers of the threads in musl's ring, from any one of them. Where it is broken (by a
/// thread that begins or ends meanwhile), it is read from the other side as well. It costs a read a
/// member: `reads_left` are allowed, and fewer afterwards.
MuslRing musl_ring(Memory& memory, Machine machine, Address tp, std::size_t& reads_left);

/// Part of a process's memory.
struct Range {
  Address begin = 0;
  Address end = 0;
};

/// The writable private memory of a process in which its C library may keep a thread structure:
/// stacks, heap, data of modules. Of a large mapping its first and its last part. Bounded.
std::vector<Range> thread_memory(int proc_dir);

/// The thread pointer of the first of `wanted` (by tid) whose thread structure lies in `range`:
/// recognised by its reference to itself, its tid, its place in the ring and a DTV for `tls_modules`.
/// What looks like one costs some reads: `candidates_left` may be looked at, and fewer afterwards.
std::optional<Address> musl_thread_in(Memory& memory, Machine machine, Range range,
                                      const std::map<pid_t, ThreadId>& wanted,
                                      std::uint64_t tls_modules, std::size_t& candidates_left);

}  // namespace vitrine::target
