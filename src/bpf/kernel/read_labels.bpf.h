// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
// Copies the labels of the thread that was interrupted: slot, set and strings, as far as they fit
// and are resident. It copies bytes and does not interpret them: decoding is user space's, with the
// decoders that serve all reading modes (docs/formats/custom-labels.md, "Reading protocol").
//
// For any program that runs in the context of a thread of the target (a sampler, a uprobe).
// Included after kernel_types.bpf.h and libbpf's helpers.
#pragma once

#include "bpf/kernel/task.bpf.h"
#include "bpf/wire/wire.h"

#define LABEL_BUFFER_BYTES 16384 /* a power of two; per-CPU maps hold at most 32 KiB */
#define LABEL_CHUNK_BYTES 4096   /* most of one string */
#define LABEL_ENTRIES 64         /* most of one set */
#define RECORD_WINDOW 1024       /* a thread record is at most 640 bytes by recommendation */

/* Abi of vitrine's writer: abi/custom_labels.hpp SerialTrailer. */
#define SERIAL_MAGIC 0x76d17e1ab315e751ULL

/// Room after LABEL_BUFFER_BYTES: lets a last piece of any size be written without a second check. A
/// program that has more to emit than labels may define more before it includes this.
#ifndef LABEL_BUFFER_TAIL
#define LABEL_BUFFER_TAIL (LABEL_CHUNK_BYTES + sizeof(struct vitrine_chunk))
#endif

/// Where a program gathers what it emits. Too large for the stack: have it in a map.
struct label_buffer {
  __u64 used;
  __u64 cut;    /* chunks that had no room */
  __u64 faults; /* chunks that were not resident */
  __u8 bytes[LABEL_BUFFER_BYTES + LABEL_BUFFER_TAIL];
};

/// How bytes of the target are read: an interrupt cannot wait for a page. A program that can may
/// define another way before it includes this.
#ifndef READ_USER
#define READ_USER(into, size, address) bpf_probe_read_user(into, size, (const void*)(address))
#endif

/// Hides a bound from the compiler, which would else prove it away and leave the verifier without.
#define bounded(value, most)           \
  ({                                   \
    __u64 bounded_ = (value);          \
    asm volatile("" : "+r"(bounded_)); \
    bounded_ &= (most)-1;              \
    bounded_;                          \
  })

static __always_inline void* piece_at(struct label_buffer* out, __u64 offset) {
  return out->bytes + bounded(offset, LABEL_BUFFER_BYTES);
}

/// Appends room for a fixed structure. Null when the buffer is full.
static __always_inline void* append(struct label_buffer* out, __u64 size) {
  const __u64 at = out->used;
  if (at + size > LABEL_BUFFER_BYTES) {
    out->cut++;
    return 0;
  }
  out->used = at + size;
  return piece_at(out, at);
}

/// Clears what pads bytes from `offset`, `length` of them, to a multiple of 8.
static __always_inline void clear_padding(struct label_buffer* out, __u64 offset, __u64 length) {
  if ((length & 7) == 0) return;
  __u64* last = piece_at(out, offset + (length & ~7ULL));
  *last &= (1ULL << (length & 7) * 8) - 1;
}

/// Appends `wanted` bytes of the target (at most LABEL_CHUNK_BYTES) as one chunk. Returns the
/// offset of its first byte in the buffer; 0 when they are not there.
VERIFIED_ALONE __u64 append_chunk(struct label_buffer* out, __u64 address, __u64 wanted) {
  if (!out) return 0;
  const __u64 at = out->used;
  if (at + sizeof(struct vitrine_chunk) + wanted > LABEL_BUFFER_BYTES ||
      wanted > LABEL_CHUNK_BYTES) {
    out->cut++;
    return 0;
  }
  struct vitrine_chunk* chunk = piece_at(out, at);
  chunk->address = address;
  chunk->wanted = wanted;
  chunk->got = 0;
  const __u64 length = bounded(wanted, 2 * LABEL_CHUNK_BYTES);
  if (length > LABEL_CHUNK_BYTES) return 0;
  if (READ_USER(chunk + 1, length, address)) {
    out->faults++;
    out->used = at + sizeof *chunk;
    return 0;
  }
  chunk->got = wanted;
  clear_padding(out, at + sizeof *chunk, wanted);
  out->used = at + sizeof *chunk + ((wanted + 7) & ~7ULL);
  return at + sizeof *chunk;
}

/// One value of the target, kept nowhere.
static __always_inline int peek(__u64* into, __u64 address) {
  return READ_USER(into, sizeof *into, address);
}

/// The slot's address in the thread whose thread pointer is `tp`: target/tls_location.cpp, in the
/// kernel. Returns a vitrine_slot_state.
static __always_inline __u32 locate_slot(const struct vitrine_definition* definition, __u32 machine,
                                         __u64 tp, __u64* address) {
  if (definition->tls_kind == VITRINE_TLS_STATIC) {
    *address = tp + definition->tls_offset;
    return VITRINE_SLOT_READ;
  }
  const int musl = definition->tls_kind == VITRINE_TLS_MUSL_DTV;
  const __u64 dtv_pointer = machine == VITRINE_X86_64 ? tp + 8 : musl ? tp - 8 : tp;
  const __u64 entry_bytes = musl ? 8 : 16;  // glibc: {block, what to free}
  const __u64 module = definition->tls_module_id;
  __u64 dtv = 0, count = 0, generation = 0, block = 0;
  if (peek(&dtv, dtv_pointer)) return VITRINE_SLOT_UNREADABLE;
  if (!dtv) return VITRINE_SLOT_UNALLOCATED;
  // musl counts in entry 0. glibc counts in entry -1 and has the thread's generation in entry 0.
  if (peek(&count, musl ? dtv : dtv - entry_bytes)) return VITRINE_SLOT_UNREADABLE;
  if (!musl && peek(&generation, dtv)) return VITRINE_SLOT_UNREADABLE;
  if (module > count || (!musl && generation < definition->tls_need_generation))
    return VITRINE_SLOT_UNALLOCATED;
  if (peek(&block, dtv + module * entry_bytes)) return VITRINE_SLOT_UNREADABLE;
  if (block == 0 || block == ~0ULL) return VITRINE_SLOT_UNALLOCATED;
  *address = block + definition->tls_offset;
  return VITRINE_SLOT_READ;
}

struct label_entry {
  __u64 key_length, key;
  __u64 value_length, value;
};

struct entry_walk {
  struct label_buffer* out;
  __u64 entries; /* offset of the array's copy in the buffer */
  __u64 address_mask;
};

static long copy_entry(__u32 index, void* context) {
  struct entry_walk* walk = context;
  const struct label_entry* entry =
      piece_at(walk->out, walk->entries + index * sizeof(struct label_entry));
  if (!entry->key) return 0;
  const __u64 value_length = entry->value_length;
  const __u64 value = entry->value;
  if (entry->key_length)
    append_chunk(walk->out, entry->key & walk->address_mask, entry->key_length);
  // A null value hides later ones of its key.
  if (value && value_length) append_chunk(walk->out, value & walk->address_mask, value_length);
  return 0;
}

/// The array and its strings, each where its writer put it.
static __always_inline void copy_entries(struct label_buffer* out, __u64 storage, __u64 count,
                                         __u64 address_mask) {
  if (count > LABEL_ENTRIES) {
    out->cut++;
    count = LABEL_ENTRIES;
  }
  if (count == 0) return;
  struct entry_walk walk = {.out = out, .address_mask = address_mask};
  walk.entries = append_chunk(out, storage & address_mask, count * sizeof(struct label_entry));
  if (walk.entries) bpf_loop(count, copy_entry, &walk, 0);
}

/// The start of a v1 set of vitrine's writer (abi/custom_labels.hpp SerialSet).
struct serial_head {
  __u64 storage, count, capacity;
  __u64 magic, serial;
  __u32 total_bytes, flags;
  __u64 self;
};

/// False when the set at this address is a foreign writer's, or is being rewritten.
static __always_inline int is_serial_head(const struct serial_head* head, __u64 set) {
  return head->magic == SERIAL_MAGIC && head->self == set && head->serial != 0 &&
         head->total_bytes >= sizeof *head;
}

static __always_inline int read_serial_head(struct serial_head* head, __u64 set) {
  return !READ_USER(head, sizeof *head, set) && is_serial_head(head, set);
}

/// A v1 set of any writer, each piece from where it is.
static __always_inline void copy_foreign_array(struct label_buffer* out, __u64 set,
                                               __u64 address_mask) {
  const __u64 at = append_chunk(out, set, 24);
  if (!at) return;
  const __u64* copy = piece_at(out, at);
  copy_entries(out, copy[0], copy[1], address_mask);
}

/// A v1 set. That of vitrine's writer is one block, which its trailer measures; it comes in one piece.
static __always_inline void copy_label_array(struct label_buffer* out, __u64 set,
                                             __u64 address_mask) {
  struct serial_head head = {};
  if (read_serial_head(&head, set) && append_chunk(out, set, head.total_bytes)) return;
  copy_foreign_array(out, set, address_mask);
}

/// A record whose attributes follow it: as much as can be of what they may be.
static __always_inline void copy_counted_record(struct label_buffer* out, __u64 record) {
  const __u64 in_page = 4096 - (record & 4095);
  if (in_page >= RECORD_WINDOW) {
    append_chunk(out, record, RECORD_WINDOW);
    return;
  }
  append_chunk(out, record, in_page);
  append_chunk(out, record + in_page, RECORD_WINDOW - in_page);
}

static __always_inline void copy_sized_record(struct label_buffer* out, __u64 record) {
  const __u64 header = 28;
  __u16 attributes = 0;
  if (READ_USER(&attributes, sizeof attributes, record + 26)) {
    append_chunk(out, record, header);
    return;
  }
  __u64 size = header + attributes;
  if (size > LABEL_CHUNK_BYTES) {
    out->cut++;
    size = LABEL_CHUNK_BYTES;
  }
  append_chunk(out, record, size);
}

/// Where one definition's slot leads in one thread.
struct slot_place {
  __u32 state;   /* enum vitrine_slot_state */
  __u64 address; /* of the slot */
  __u64 slot;    /* its first 8 bytes */
  __u64 record;  /* what it points to, as an address */
};

/// The word before the slot that was read last: vitrine's writer has its two slots adjacent, and
/// one look at both costs half of two.
struct slot_before {
  __u64 address; /* 0: not read */
  __u64 word;
};

static __always_inline long read_slot(__u64* slot, __u64 address, struct slot_before* before) {
  if (before && address && address == before->address) {
    *slot = before->word;
    return 0;
  }
  __u64 words[2];
  if (before && (address & 4095) >= 8 && !READ_USER(words, sizeof words, address - 8)) {
    before->address = address - 8;
    before->word = words[0];
    *slot = words[1];
    return 0;
  }
  return peek(slot, address);
}

/// `before` may be null.
static __always_inline void find_slot(struct slot_place* place,
                                      const struct vitrine_definition* definition,
                                      const struct vitrine_target* target, __u64 tp,
                                      struct slot_before* before) {
  const __u64 mask = target->address_mask;
  __u64 address = 0, slot = 0;
  __u32 state = locate_slot(definition, target->machine, tp & mask, &address);
  address &= mask;
  if (state == VITRINE_SLOT_READ && read_slot(&slot, address, before))
    state = VITRINE_SLOT_UNREADABLE;
  place->state = state;
  place->address = address;
  place->slot = slot;
  place->record = slot & mask;
}

/// Copies the set that a slot of this shape leads to.
static __always_inline void copy_set(struct label_buffer* out, __u32 shape,
                                     const struct slot_place* place, __u64 mask) {
  if (shape == VITRINE_LABEL_ARRAY_IN_SLOT) {
    const __u64 at = append_chunk(out, place->address, 16);
    const __u64* copy = at ? piece_at(out, at) : 0;
    if (copy) copy_entries(out, copy[0], copy[1], mask);
  } else if (!place->record) {
  } else if (shape == VITRINE_LABEL_ARRAY) {
    copy_label_array(out, place->record, mask);
  } else if (shape == VITRINE_SIZED_RECORD) {
    copy_sized_record(out, place->record);
  } else if (shape == VITRINE_COUNTED_RECORD) {
    copy_counted_record(out, place->record);
  } else {
    append_chunk(out, place->record, 37);
  }
}
