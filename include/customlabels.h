/* customlabels.h: publishes labels of the running thread for profilers and debuggers.
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
 * C99 and C++. Call-compatible with the C library of the Custom Labels ABI v1. Calls copy their
 * arguments.
 *
 * A set is a handle that stays valid while its labels change. Its labels are an immutable version;
 * each change builds another version and installs it by one instruction. So an observer that
 * interrupts or stops the thread sees the complete labels from before or from after the change, and
 * `count` of them: no entry has a null key. All functions may be called in signal handlers, also on
 * a set that the interrupted code is changing: both changes take effect. They allocate no memory
 * with malloc and take no lock, except:
 *   - results that the caller must free
 *   - a thread's first use, where libc allocates room for the library's thread-specific key
 *   - custom_labels_run_with on NULL or on the set of a C++ scope: each key that is new to the process
 *     is kept for the life of the process, with a lock, as those of <vitrine/labels.hpp> are
 *
 * A handler must return to the code that it interrupted: if it leaves by siglongjmp, or the thread is
 * cancelled asynchronously, in the midst of a call of this interface, then what is published stays
 * right, but the thread may use no memory again from then on, and grow.
 *
 * Threads: only one thread at a time may change or free a set; the caller must ensure this.
 * Meanwhile any other thread may read and clone it, have it in force, and open C++ scopes on top of
 * it. The functions that read a set hold the version they read.
 *
 * Fork: the child starts without labels: custom_labels_current() returns null there, and the parent's
 * stay. Sets stay valid; the child may put one in force again by custom_labels_replace. A child that
 * shares its parent's memory (vfork, posix_spawn) shows the labels of its parent until it executes a
 * program; so does a child of the bare system call, which runs no fork handlers, until it changes them.
 *
 * Observers that copy memory without stopping the thread must validate: storage and count may be
 * of two versions, and the memory of a replaced version, or of a freed set, is reused (after about
 * 16 more sets of its size, or 2 of more than 4,096 bytes, in no fixed time). A copy is consistent if
 * the threads that change the set did not run between the first read, of custom_labels_current_set,
 * and the last one: the kernel counts in /proc/PID/task/TID/schedstat how often a thread was put on a
 * CPU. Reading the same bytes twice is not sufficient. (Sets of C++ scopes have serial numbers to
 * validate a copy.)
 *
 * Keys and values are any bytes, up to 65,536 each. An empty value may have a null `buf`; a key may
 * not. (Keys for custom_labels_run_with on NULL or on the set of a C++ scope: up to 1,024 bytes.)
 *
 * int results are 0 or an errno value:
 *   EINVAL    a null set, a key with a null `buf`, a value with a null `buf` and a length, n < 0
 *   EMSGSIZE  a key or value that is too long, more than 4,096 labels, or about 250 KiB of them
 *   ENOMEM    no memory, or the thread's labels are removed because it is exiting
 *   EROFS     the set belongs to a C++ scope (<vitrine/labels.hpp>): such sets never change
 * If a call fails, the set is unchanged.
 *
 * Sets of C++ scopes can be read, cloned, put in force and used with custom_labels_run_with.
 *
 * OpenTelemetry: readers of thread records (OTEP-4947) see C++ scopes. They see sets of this interface
 * too if the environment has VITRINE_THREAD_CONTEXT=1 when the library is loaded, or after
 * custom_labels_publish_thread_context(1). A label `trace_id` (32 hex digits, or 16 bytes) and a label
 * `span_id` (16 hex digits, or 8 bytes) become the ids of the record (as many hex digits as bytes are the
 * text of a shorter id, and are left out); other labels become attributes where
 * key and value are UTF-8 and the record has room. A key's first use in the process then allocates
 * and locks: not in a signal handler.
 */
#ifndef CUSTOMLABELS_H
#define CUSTOMLABELS_H

#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__)
#define CUSTOM_LABELS_EXPORT __attribute__((__visibility__("default")))
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
 * the previous value, or null. Another thread's set counts as in force, and survives being freed,
 * from the next call of any of these functions on this thread; custom_labels_replace counts it at
 * once. Until then the OpenTelemetry record may also be that of the previous set. */
CUSTOM_LABELS_EXPORT extern __thread custom_labels_labelset_t* custom_labels_current_set;

/* The set in force on this thread, or null. */
CUSTOM_LABELS_EXPORT custom_labels_labelset_t* custom_labels_current(void);

/* The label with this key, or null. Valid until the set changes; and, if another thread changes it,
 * until this thread's next call of this function. */
CUSTOM_LABELS_EXPORT const custom_labels_label_t* custom_labels_get(custom_labels_labelset_t* set,
                                                                    custom_labels_string_t key);

/* Adds a label or replaces its value. If `old_value_out` is not null it gets a copy of the previous
 * value, which the caller frees with free(old_value_out->buf); `buf` is null if there was none. */
CUSTOM_LABELS_EXPORT int custom_labels_set(custom_labels_labelset_t* set,
                                           custom_labels_string_t key, custom_labels_string_t value,
                                           custom_labels_string_t* old_value_out);

/* Removes the label with this key, if there is one. A set that cannot be changed stays as it is,
 * with the reason in errno. */
CUSTOM_LABELS_EXPORT void custom_labels_delete(custom_labels_labelset_t* set,
                                               custom_labels_string_t key);

/* A new, empty set. `capacity` is the expected number of labels, up to 4,096; 0 is valid, and the
 * set may grow beyond it. Null, with the reason in errno, if memory runs out. */
CUSTOM_LABELS_EXPORT custom_labels_labelset_t* custom_labels_new(size_t capacity);

/* Frees a set of custom_labels_new or a clone; null is ignored. The set should not be in force. If
 * it is in force on this thread it is removed first; if on another, its labels stay until that
 * thread replaces the set or ends. The thread that created the set reuses its memory. */
CUSTOM_LABELS_EXPORT void custom_labels_free(custom_labels_labelset_t* set);

/* Puts a set, or null, in force on this thread. Returns the previous one. One store for sets that
 * this thread created. */
CUSTOM_LABELS_EXPORT custom_labels_labelset_t* custom_labels_replace(custom_labels_labelset_t* set);

/* A copy; `capacity` as for custom_labels_new. Of null: an empty set. Null, with the reason in
 * errno, if memory runs out. */
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
 * this addition: previous labels get their old values, new labels are removed. Other labels that
 * the callback changed stay changed. `*out`, if `out` is not null, gets the result of the callback.
 * If the set cannot be changed the callback is not called.
 *
 * `set` may belong to a C++ scope, or be null, if it is in force on this thread (the callback then
 * runs in its own scope on top of it). */
CUSTOM_LABELS_EXPORT int custom_labels_run_with(custom_labels_labelset_t* set,
                                                custom_labels_label_t* labels, int n,
                                                void* (*callback)(void*), void* data, void** out);

/* A text of the form {key: value, key: value}, with a NUL after its `len` bytes. The caller frees
 * out->buf. */
CUSTOM_LABELS_EXPORT int custom_labels_debug_string(const custom_labels_labelset_t* set,
                                                    custom_labels_string_t* out);

/* For a set in force. In this library they are equivalent to the functions above. */
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
