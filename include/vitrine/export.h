/* What the headers of the publishing side share with the libraries: which symbols are visible, and the
 * number of the binary interface.
 *
 * VITRINE_EXPORT: visible from outside the shared library that the code is built into.
 *
 * VITRINE_DETAIL_ABI counts the layouts and functions that programs inline: Thread, Segment, Recall,
 * Links (detail/slot.hpp, detail/memo.hpp), and the C++ types that cross the boundary. It is raised
 * when one of them changes. A program and a library of different numbers do not go together, and that
 * shows before the program runs:
 * - C++ names are in an inline namespace of that number (abi_1);
 * - the thread's state, which inlined code refers to, is the symbol vitrine_labels_thread_1;
 * - in shared libraries these have a symbol version (VITRINE_LABELS_1, with the format v0
 *   VITRINE_LABELS_V0_1), as the names of the libraries cannot carry one: readers look for
 *   libcustomlabels*.so.
 * Names that readers look for (custom_labels_…, otel_thread_ctx_v1) and the C interface have none. */
#ifndef VITRINE_EXPORT_H
#define VITRINE_EXPORT_H

#define VITRINE_EXPORT __attribute__((__visibility__("default")))

#ifndef VITRINE_DETAIL_ABI
#define VITRINE_DETAIL_ABI 1
#endif
#define VITRINE_DETAIL_ABI_PASTE_(prefix, number) prefix##number
#define VITRINE_DETAIL_ABI_PASTE(prefix, number) VITRINE_DETAIL_ABI_PASTE_(prefix, number)
#define VITRINE_DETAIL_ABI_STRING_(text) #text
#define VITRINE_DETAIL_ABI_STRING(text) VITRINE_DETAIL_ABI_STRING_(text)
#define VITRINE_DETAIL_ABI_NAMESPACE VITRINE_DETAIL_ABI_PASTE(abi_, VITRINE_DETAIL_ABI)
#define VITRINE_DETAIL_THREAD_SYMBOL \
  "vitrine_labels_thread_" VITRINE_DETAIL_ABI_STRING(VITRINE_DETAIL_ABI)

#endif
