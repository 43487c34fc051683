/* customlabels.h: labels of the running thread, on display for profilers and debuggers.
 *
 *   #include <customlabels.h>                         // link with -lcustomlabels
 *
 *   custom_labels_labelset_t *set = custom_labels_new(8);
 *   custom_labels_labelset_t *before = custom_labels_replace(set);
 *   custom_labels_set(set, (custom_labels_string_t){6, (const unsigned char *)"tenant"},
 *                          (custom_labels_string_t){4, (const unsigned char *)"acme"}, NULL);
 *   …                                                 // work on behalf of the tenant
 *   custom_labels_replace(before);
 *   custom_labels_free(set);
 *
 * C99 and C++. Call-compatible with the C library of the Custom Labels ABI v1. Calls copy what they
 * are given.
 *
 * A set is a handle that stays valid while its labels change. Its labels are an immutable version;
 * each change makes another one and puts it in place by one instruction. So whoever interrupts or
 * stops the thread sees the labels from before or from after, whole, and `count` of them: no entry
 * has a null key. All functions may be called in signal handlers, also on a set that the
 * interrupted code is changing: both changes take effect. They allocate no memory with malloc,
 * except for what they hand out to be freed by the caller.
 *
 * Threads: one thread at a time changes or frees a set, which is the caller's to see to. Meanwhile
 * any others may read and clone it, have it in force, and open C++ scopes on top of it. The
 * functions that read a set hold the version they read.
 *
 * Observers that copy memory without stopping the thread must validate: storage and count may be
 * of two versions, and the memory of a version that was replaced, or of a set that was freed, is
 * used again (after some 16 others of its size, in no fixed time). A copy is whole if the threads
 * that change the set did not run between the first read, of custom_labels_current_set, and the
 * last one: the kernel counts in /proc/PID/task/TID/schedstat how often a thread was put on a CPU.
 * To read the same bytes twice is not enough. (Sets of C++ scopes carry serials, which a copy can
 * be checked by.)
 *
 * Keys and values are any bytes, up to 65,536 each. An empty value may have a null `buf`; a key may
 * not.
 *
 * int results are 0 or an errno value:
 *   EINVAL    a null set, a key with a null `buf`, a value with a null `buf` and a length, n < 0
 *   EMSGSIZE  a key or value that is too long, more than 4,096 labels, or about 250 KiB of them
 *   ENOMEM    no memory, or the thread's labels were taken down because it is exiting
 *   EROFS     the set belongs to a C++ scope (<vitrine/labels.hpp>): those never change
 * When a call fails, the set is as it was.
 *
 * Sets of C++ scopes can be read, cloned, put in force and used with custom_labels_run_with.
 *
 * OpenTelemetry: readers of thread records (OTEP-4947) see C++ scopes. They see sets of this interface
 * too if the environment has VITRINE_THREAD_CONTEXT=1 when the library is loaded, or after
 * custom_labels_publish_thread_context(1). A label `trace_id` (32 hex digits, or 16 bytes) and a label
 * `span_id` (16 hex digits, or 8 bytes) become the ids of the record; others become attributes where
 * key and value are UTF-8 and the record has room. A key's first use in the process then allocates
 * and locks: not in a signal handler. Each change costs some 100 ns more.
 */
#ifndef CUSTOMLABELS_H
#define CUSTOMLABELS_H

#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__)
#define CUSTOM_LABELS_EXPORT __attribute__((visibility("default")))
#else
#define CUSTOM_LABELS_EXPORT
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* Bytes. A null `buf`: no value. */
typedef struct {
  size_t len;
  const unsigned char* buf;
} custom_labels_string_t;

typedef struct {
  custom_labels_string_t key;
  custom_labels_string_t value;
} custom_labels_label_t;

typedef struct custom_labels_labelset custom_labels_labelset_t;

/* The ABI that the variables below follow. */
CUSTOM_LABELS_EXPORT extern const uint32_t custom_labels_abi_version;

/* The set in force on this thread, or null. Programs may assign to it: a set of this interface,
 * what they found there, or null. Another thread's set counts as in force, and stays when it is
 * freed, from the next call of any of these functions on this thread; custom_labels_replace counts
 * it at once. Until then, too, the OpenTelemetry record may be that of the set before. */
CUSTOM_LABELS_EXPORT extern __thread custom_labels_labelset_t* custom_labels_current_set;

/* The set in force on this thread, or null. */
CUSTOM_LABELS_EXPORT custom_labels_labelset_t* custom_labels_current(void);

/* The label with this key, or null. Valid until the set changes; and, if another thread changes it,
 * until this thread's next call of this function. */
CUSTOM_LABELS_EXPORT const custom_labels_label_t* custom_labels_get(custom_labels_labelset_t* set,
                                                                    custom_labels_string_t key);

/* Adds a label or replaces its value. If `old_value_out` is not null it gets a copy of the value
 * from before, which the caller frees with free(old_value_out->buf); a null `buf` if there was
 * none. */
CUSTOM_LABELS_EXPORT int custom_labels_set(custom_labels_labelset_t* set,
                                           custom_labels_string_t key, custom_labels_string_t value,
                                           custom_labels_string_t* old_value_out);

/* Removes the label with this key, if there is one. A set that cannot be changed stays as it is,
 * with the reason in errno. */
CUSTOM_LABELS_EXPORT void custom_labels_delete(custom_labels_labelset_t* set,
                                               custom_labels_string_t key);

/* A new, empty set. `capacity` says how many labels are expected, up to 4,096; 0 will do, and any
 * number of labels may follow. Null, with the reason in errno, when there is no memory for it. */
CUSTOM_LABELS_EXPORT custom_labels_labelset_t* custom_labels_new(size_t capacity);

/* Ends a set made by custom_labels_new or a clone; null is ignored. It should not be in force. If
 * it is in force on this thread it is taken out of force first; if on another, its labels stay
 * until that thread replaces it or ends. Its memory is used again by the thread that made it. */
CUSTOM_LABELS_EXPORT void custom_labels_free(custom_labels_labelset_t* set);

/* Puts a set, or null, in force on this thread. Returns the one before. One store for sets that
 * this thread made. */
CUSTOM_LABELS_EXPORT custom_labels_labelset_t* custom_labels_replace(custom_labels_labelset_t* set);

/* A copy; `capacity` as for custom_labels_new. Of null: an empty set. Null, with the reason in
 * errno, when there is no memory for it. */
CUSTOM_LABELS_EXPORT custom_labels_labelset_t* custom_labels_clone(
    const custom_labels_labelset_t* set);
CUSTOM_LABELS_EXPORT custom_labels_labelset_t* custom_labels_clone_with_capacity(
    const custom_labels_labelset_t* set, size_t capacity);

/* Sets made from now on have an OpenTelemetry thread record (`on` is not 0), or have none. To be called
 * before other threads use this interface. 0, or ENOTSUP if the library was built without records. */
CUSTOM_LABELS_EXPORT int custom_labels_publish_thread_context(int on);

/* Number of labels. Of null: 0. */
CUSTOM_LABELS_EXPORT size_t custom_labels_count(custom_labels_labelset_t* set);

/* Calls `callback(data)` with `n` labels added to the set, all at once, and then undoes exactly
 * that: labels that were there have their old values, the others are gone. Other labels that the
 * callback changed stay changed. `*out`, if `out` is not null, gets what the callback returned. If
 * the set cannot be changed the callback is not called.
 *
 * `set` may belong to a C++ scope, or be null, if it is what is in force on this thread (then the
 * callback runs in a scope of its own on top of it). */
CUSTOM_LABELS_EXPORT int custom_labels_run_with(custom_labels_labelset_t* set,
                                                custom_labels_label_t* labels, int n,
                                                void* (*callback)(void*), void* data, void** out);

/* A text of the form {key: value, key: value}, with a NUL after its `len` bytes. The caller frees
 * out->buf. */
CUSTOM_LABELS_EXPORT int custom_labels_debug_string(const custom_labels_labelset_t* set,
                                                    custom_labels_string_t* out);

/* For a set in force. Here there is no difference: every change is careful. */
CUSTOM_LABELS_EXPORT int custom_labels_careful_set(custom_labels_labelset_t* set,
                                                   custom_labels_string_t key,
                                                   custom_labels_string_t value,
                                                   custom_labels_string_t* old_value_out);
CUSTOM_LABELS_EXPORT void custom_labels_careful_delete(custom_labels_labelset_t* set,
                                                       custom_labels_string_t key);
CUSTOM_LABELS_EXPORT int custom_labels_careful_run_with(custom_labels_labelset_t* set,
                                                        custom_labels_label_t* labels, int n,
                                                        void* (*callback)(void*), void* data,
                                                        void** out);

#ifdef __cplusplus
}
#endif

#endif
