// Reading one slot of one thread by itself: for threads that are stopped, or that a batched reading
// could not prove.
#pragma once

#include <cstddef>

#include "observe/subject.hpp"

namespace vitrine::observe {

/// The labels that `definition` has in the thread whose thread pointer is `thread_pointer`, as its
/// memory is now. Reads the key map again when a record needs it.
Result<format::LabelSet> read_directly(Subject& subject, const Definition& definition,
                                       Address thread_pointer, std::size_t* bytes_left);

/// The slot's address; nullopt when that thread has not allocated it.
Result<std::optional<Address>> slot_address(Subject& subject, const Definition& definition,
                                            Address thread_pointer);

}  // namespace vitrine::observe
