// Slabs: the address space that the memory of all threads is cut from.
//
// A thread that publishes labels needs memory in a few places: an arena, and chunks of cells. A mapping for each
// would count against the kernel's limit of mappings (vm.max_map_count, 65,530 for a process), of which a thread's
// stack needs two already. So the library maps slabs of up to 8 MiB, and cuts from them what threads need: the number
// of mappings grows with the memory, by one for each 8 MiB, and not with the threads.
//
// What is cut never goes back to a slab, and no slab is unmapped once it is in use: a pointer that an observer
// still follows leads to memory of label sets, or to zeroes. What a thread leaves is used again as what it was: an
// arena as an arena (acquire_arena), a cell as a cell of its class. So the memory of a peak stays: 5,000 threads with
// a scope at the same time leave 60 MB, 12 KiB each, for those that come later. Giving pages back
// (MADV_DONTNEED) would need to know of each page that nothing refers to a set in it, and its header, which is in a queue, to be
// elsewhere.
//
// Ownership and order. One word has the whole state: where the free part of the slab in use begins, and how many
// pages it has. A thread that changes the word by a compare-exchange owns the bytes that the change passed over; there is
// no other record of owners. So
// - no lock is held, and no thread and no signal handler ever waits for another;
// - a handler that interrupts a cut has cut by itself when it returns: the interrupted compare-exchange fails,
//   and starts again. If it had mapped a slab meanwhile, that goes back to the system, unseen. So do the slabs of
//   all but one of several threads that map at the same time;
// - the word never has the same value for two states: a value describes the free part completely, and memory that
//   was passed over is not free again;
// - a forked child starts with a slab of its own. The system copies a process page by page, while its other threads
//   run: the word may be older in the child than what those threads have written to memory that they cut since. The
//   rest of the parent's slab is lost to the child: address space, not memory;
// - the order of the word and of other memory does not matter: cut memory holds the kernel's zeroes, which no
//   thread stored. The mapping is there for every CPU before its address is in the word.
//
// The rest of a slab that is too small for a request is lost: less than the request, and never touched.
//
// Untouched parts cost nothing but addresses: slabs are not reserved (MAP_NORESERVE), and never backed by huge
// pages (MADV_NOHUGEPAGE), of which one would hold the first pages of eight arenas and make their other 2 MiB resident.
// Slabs begin at 512 KiB, and each is twice as large as the one before: a program of few threads maps little. If
// the system refuses a slab, as by RLIMIT_AS, a request has a mapping of its own; null, if that is refused, too.
#pragma once

#include <cstddef>

namespace vitrine::publish {

inline constexpr std::size_t max_cut_bytes = 256 * 1024;
/// The most that an alignment may be.
inline constexpr std::size_t slab_alignment = 256 * 1024;

/// `bytes` (at most max_cut_bytes) of zeroes that nothing has touched, for good. Aligned to `alignment`, a power of
/// two, and to 4 KiB. Null: none. Safe in signal handlers.
char* cut_memory(std::size_t bytes, std::size_t alignment) noexcept;
/// In a forked child: see forget_shared_memory (arena.hpp).
void forget_slab() noexcept;

}  // namespace vitrine::publish
