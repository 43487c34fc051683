// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
// Arguments of a fire: operands evaluated on the registers and the memory of the thread that fired
// (probe/operand.h; probe/evaluate.cpp is the same in user space).
#pragma once

#include "bpf/kernel/task.bpf.h"
#include "bpf/kernel/trace/trace_state.bpf.h"

#if defined(__TARGET_ARCH_x86)
/// Of a 32-bit program. Seldom: it is not beside what most fires need.
VERIFIED_ALONE __u64 short_thread_pointer(void) {
  return base_of_gs(bpf_get_current_task_btf());
}
#endif

/// Of the current thread, in user code.
static __always_inline __u64 thread_pointer_now(__u64 code_segment) {
#if defined(__TARGET_ARCH_x86)
  if (code_segment == USER32_CS) return short_thread_pointer();
#endif
  return thread_pointer_of_trusted(bpf_get_current_task_btf());
}

/// `site_behind`: how many bytes the uprobe is behind its site.
static __always_inline void take_registers(struct scratch* s, const __u64* ctx, __u64 site_behind) {
#pragma unroll
  for (int i = 0; i < REGISTER_WORDS; ++i) s->registers[i] = ctx[i];
  s->registers[VITRINE_PROBE_ADDRESS] = ctx[INSTRUCTION_POINTER] - site_behind;
  s->registers[VITRINE_THREAD_POINTER] = s->room.thread_pointer =
      thread_pointer_now(ctx[CODE_SEGMENT]);
  s->registers[VITRINE_NO_REGISTER] = 0;
  s->shown = ((1ULL << REGISTER_WORDS) - 1) | 1ULL << VITRINE_PROBE_ADDRESS |
             1ULL << VITRINE_THREAD_POINTER | 1ULL << VITRINE_NO_REGISTER;
}

static __always_inline int has_register(const struct scratch* s, __u8 number) {
  return number < 64 && (s->shown >> number & 1);
}

static __always_inline __u64 register_value(const struct scratch* s, __u8 number) {
  return s->registers[bounded(number, 64)];
}

static __always_inline __u64 effective_address(const struct scratch* s,
                                               const struct vitrine_operand* operand) {
  __u64 index = register_value(s, operand->index);
  if (operand->extend == VITRINE_EXTEND_U32) index = (__u32)index;
  if (operand->extend == VITRINE_EXTEND_S32) index = (__s64)(__s32)index;
  const __u64 address =
      register_value(s, operand->base) + (index << (operand->scale & 63)) + operand->displacement;
  return operand->flags & VITRINE_ADDRESS_32 ? (__u32)address : address;
}

/// Cut to its size, and extended.
static __always_inline __u64 fit(__u64 raw, const struct vitrine_operand* operand) {
  if (operand->size >= 8) return raw;
  const __u32 unused = 64 - operand->size * 8;
  raw <<= unused & 63;
  return operand->flags & VITRINE_SIGNED ? (__u64)((__s64)raw >> (unused & 63))
                                         : raw >> (unused & 63);
}

static __always_inline __u64 constant(const struct scratch* s,
                                      const struct vitrine_operand* operand) {
  const __u64 from =
      operand->base == VITRINE_PROBE_ADDRESS ? s->registers[VITRINE_PROBE_ADDRESS] : 0;
  return from + operand->displacement;
}

/// Two registers of a 32-bit program together.
static __always_inline int is_short_pair(const struct vitrine_operand* operand) {
  return operand->flags & VITRINE_ADDRESS_32 && operand->size > 4 &&
         operand->index < VITRINE_PROBE_ADDRESS;
}

/// What is at an address: 8 bytes at most. Returns a vitrine_captured_state; unreadable: `value` is
/// the address.
static __always_inline __u32 load(__u64 address, const struct vitrine_operand* operand,
                                  __u64* value) {
  __u64 raw = 0;
  const __u64 size = bounded(operand->size > 8 ? 8 : operand->size, 16);
  if (size == 0 || size > 8 || read_user(&raw, size, address)) {
    *value = address;
    return VITRINE_CAPTURE_UNREADABLE;
  }
  *value = fit(raw, operand);
  return VITRINE_CAPTURED;
}

/// The lowest 8 bytes at most. Returns a vitrine_captured_state; unreadable: `value` is where.
static __always_inline __u32 evaluate(const struct scratch* s,
                                      const struct vitrine_operand* operand, __u64* value) {
  *value = 0;
  if (operand->kind == VITRINE_NO_OPERAND) return VITRINE_CAPTURE_NO_OPERAND;
  if (operand->kind == VITRINE_CONSTANT) {
    *value = fit(constant(s, operand), operand);
    return VITRINE_CAPTURED;
  }
  if (!has_register(s, operand->base)) return VITRINE_CAPTURE_UNAVAILABLE;
  if (operand->kind == VITRINE_REGISTER) {
    __u64 raw = register_value(s, operand->base) >> (operand->shift & 63);
    if (is_short_pair(operand)) raw = (__u32)raw | register_value(s, operand->index) << 32;
    *value = fit(raw, operand);
    return VITRINE_CAPTURED;
  }
  if (!has_register(s, operand->index)) return VITRINE_CAPTURE_UNAVAILABLE;
  return load(effective_address(s, operand), operand, value);
}

struct calculation_walk {
  struct scratch* s;
  const struct vitrine_site_program* program;
};

static __always_inline void calculation_failed(struct scratch* s, __u32 state, __u64 address) {
  if (s->failure != VITRINE_CAPTURED) return;
  s->failure = state;
  s->failed = address;
}

static __always_inline __u64* operand_at(struct scratch* s, __u32 place) {
  return &s->operands[place & (VITRINE_CALCULATION_DEPTH - 1)];
}

VERIFIED_ALONE __u64 calculate_one(__u32 kind, __u32 is_signed, __u64 left, __u64 right) {
  __u64 result = 0;
  vitrine_calculate(kind, is_signed, left, right, &result);
  return result;
}

VERIFIED_ALONE int calculation_step(struct scratch* s,
                                    const struct vitrine_calculation_step* step) {
  if (!s || !step) return 0;
  const __u32 kind = step->kind;
  const __u32 depth = s->depth;
  __u64 value = 0;
  if (kind == VITRINE_CALCULATE_PUSH) {
    const __u32 state = evaluate(s, &step->operand, &value);
    if (state != VITRINE_CAPTURED) calculation_failed(s, state, value);
    *operand_at(s, depth) = value;
    s->depth = depth + 1;
    return 0;
  }
  __u64* top = operand_at(s, depth - 1);
  const __u64 right = *top;
  if (kind == VITRINE_CALCULATE_STORE) {
    const __u32 slot = step->capture & 31;
    s->calculated[slot] = s->failure == VITRINE_CAPTURED ? right : s->failed;
    s->calculated_state[slot] = s->failure;
    s->depth = 0;
    s->failure = VITRINE_CAPTURED;
    return 0;
  }
  if (kind == VITRINE_CALCULATE_LOAD) {
    // Not of the address that a step before has failed to find.
    if (s->failure == VITRINE_CAPTURED && load(right, &step->operand, &value)) {
      calculation_failed(s, VITRINE_CAPTURE_UNREADABLE, value);
      value = 0;
    }
    *top = value;
    return 0;
  }
  if ((kind == VITRINE_CALCULATE_DIVIDE || kind == VITRINE_CALCULATE_REMAINDER) && right == 0)
    calculation_failed(s, VITRINE_CAPTURE_DIVIDED_BY_0, 0);
  const int is_binary = kind >= VITRINE_CALCULATE_ADD;
  __u64* into = is_binary ? operand_at(s, depth - 2) : top;
  *into = calculate_one(kind, step->is_signed, *into, right);
  s->depth = depth - is_binary;
  return 0;
}

static long calculate_next(__u32 index, void* context) {
  struct calculation_walk* walk = context;
  if (index >= VITRINE_CALCULATION_STEPS) return 1;
  calculation_step(walk->s, &walk->program->step[index]);
  return 0;
}

/// Puts the results of the program's arithmetic into s->calculated.
VERIFIED_ALONE int calculate(struct scratch* s, const struct vitrine_site_program* program) {
  if (!s || !program) return 0;
  struct calculation_walk walk = {.s = s, .program = program};
  s->depth = 0;
  s->failure = VITRINE_CAPTURED;
  bpf_loop(program->steps, calculate_next, &walk, 0);
  return 0;
}

/// Room for up to `most` bytes behind what is in the record, without taking it: 0 when it is full.
static __always_inline __u64 room_for(const struct label_buffer* out, __u64 most) {
  const __u64 used = out->used;
  if (used >= LABEL_BUFFER_BYTES) return 0;
  const __u64 left = LABEL_BUFFER_BYTES - used;
  return left < most ? left : most;
}

/// Takes `length` bytes that were written behind what is in the record.
static __always_inline void take_text(struct scratch* s, __u32 capture, __u64 length) {
  const __u64 at = s->room.out.used;
  clear_padding(&s->room.out, at, length);
  s->text_at[capture & 31] = at;
  s->text_length[capture & 31] = length;
  s->room.out.used = at + ((length + 7) & ~7ULL);
}

/// Makes the page of an address resident.
static __always_inline void touch(__u64 address) {
  __u8 byte;
  copy_from_user(&byte, 1, address);
}

/// A NUL-terminated string at `address`, without its NUL.
static __always_inline void capture_string(struct scratch* s, __u32 capture, __u64 address,
                                           __u64 most, struct vitrine_captured* head) {
  const __u64 room =
      room_for(&s->room.out, most + 2);  // its NUL, and one more to see that there is more
  __u64 size = bounded(room, 2 * LABEL_CHUNK_BYTES);
  if (size < 2 || size > LABEL_CHUNK_BYTES + 2) {
    head->state = VITRINE_CAPTURE_NO_ROOM;
    return;
  }
  void* into = piece_at(&s->room.out, s->room.out.used);
  long got = bpf_probe_read_user_str(into, size, (const void*)address);
  if (got < 0) {  // it may begin in a page that is not resident, or go on in one
    touch(address);
    touch((address | 4095) + 1);
    got = bpf_probe_read_user_str(into, size, (const void*)address);
  }
  if (got <= 0) {
    head->state = VITRINE_CAPTURE_UNREADABLE;
    return;
  }
  __u64 length = got - 1;
  if (length > size - 2) {
    length = size - 2;
    head->cut = 1;
  }
  head->bytes = length;
  take_text(s, capture, length);
}

/// `length` bytes at `address`; no more than `most`.
static __always_inline void capture_bytes(struct scratch* s, __u32 capture, __u64 address,
                                          __u64 length, __u64 most, struct vitrine_captured* head) {
  const __u64 room = room_for(&s->room.out, most);
  if (length > room) {
    length = room;
    head->cut = 1;
  }
  const __u64 size = bounded(length, 2 * LABEL_CHUNK_BYTES);
  if (size > LABEL_CHUNK_BYTES) return;
  if (size && read_user(piece_at(&s->room.out, s->room.out.used), size, address)) {
    head->state = VITRINE_CAPTURE_UNREADABLE;
    return;
  }
  head->bytes = size;
  take_text(s, capture, size);
}

/// As capture_bytes(), but a NUL ends it. The last byte is read by itself: a string is read with a
/// byte more, which may be on a page that is not there.
static __always_inline void capture_string_at(struct scratch* s, __u32 capture, __u64 address,
                                              __u64 length, __u64 most,
                                              struct vitrine_captured* head) {
  const __u64 room = room_for(&s->room.out, most);
  const int more = length > room;
  const __u64 size = bounded(more ? room : length, 2 * LABEL_CHUNK_BYTES);
  if (size > LABEL_CHUNK_BYTES) return;
  __u64 got = 0;
  if (size) {
    void* into = piece_at(&s->room.out, s->room.out.used);
    long read = bpf_probe_read_user_str(into, size, (const void*)address);
    if (read < 0) {
      touch(address);
      touch((address | 4095) + 1);
      read = bpf_probe_read_user_str(into, size, (const void*)address);
    }
    if (read <= 0) {
      head->state = VITRINE_CAPTURE_UNREADABLE;
      return;
    }
    got = read - 1;
    if (got >= size - 1) {
      __u8 last = 0;
      if (read_user(&last, 1, address + size - 1)) {
        head->state = VITRINE_CAPTURE_UNREADABLE;
        return;
      }
      *(__u8*)piece_at(&s->room.out, s->room.out.used + size - 1) = last;
      got = last ? size : size - 1;
    }
  }
  head->bytes = got;
  head->cut = more && got == size;
  take_text(s, capture, got);
}

/// A value of more than 8 bytes: a structure in memory, or two registers.
static __always_inline void capture_wide(struct scratch* s, __u32 capture,
                                         const struct vitrine_operand* operand,
                                         struct vitrine_captured* head) {
  if (operand->kind == VITRINE_MEMORY) {
    const __u64 address = effective_address(s, operand);
    head->value = address;
    capture_bytes(s, capture, address, operand->size, VITRINE_OPERAND_BYTES, head);
    return;
  }
  const int is_constant = operand->kind == VITRINE_CONSTANT;
  const __u64 low = is_constant ? constant(s, operand) : register_value(s, operand->base);
  const __u64 high = is_constant ? (__u64)((__s64)low >> 63) : register_value(s, operand->index);
  if (operand->kind == VITRINE_REGISTER && !has_register(s, operand->index)) {
    head->state = VITRINE_CAPTURE_UNAVAILABLE;
    return;
  }
  if (room_for(&s->room.out, 16) < 16) {
    head->state = VITRINE_CAPTURE_NO_ROOM;
    return;
  }
  __u64* words = piece_at(&s->room.out, s->room.out.used);
  words[0] = low;
  words[1] = high;
  head->value = low;
  head->bytes = operand->size > 16 ? 16 : operand->size;
  head->cut |= operand->size > 16;
  take_text(s, capture, head->bytes);
}

struct capture_walk {
  struct scratch* s;
  const struct vitrine_site_program* program;
  __u32 from;
  __u32 done;
};

static long capture_next(__u32 step, void* context) {
  struct capture_walk* walk = context;
  struct scratch* s = walk->s;
  const __u32 index = walk->from + step;
  if (index >= VITRINE_CAPTURES) return 1;
  const struct vitrine_capture* capture = &walk->program->capture[index];
  const __u64 head_at = s->room.out.used;
  if (!append(&s->room.out, sizeof(struct vitrine_captured))) return 1;
  struct vitrine_captured head = {};
  __u64 value = 0;
  if (capture->calculated) {
    head.state = s->calculated_state[index & 31];
    value = s->calculated[index & 31];
  } else {
    head.state = evaluate(s, &capture->operand, &value);
  }
  head.value = value;
  s->text_at[index & 31] = 0;
  s->text_length[index & 31] = 0;
  const __u64 most = capture->most > VITRINE_CAPTURE_BYTES ? VITRINE_CAPTURE_BYTES : capture->most;
  if (head.state == VITRINE_CAPTURED) {
    if (capture->form == VITRINE_CAPTURE_STRING) {
      capture_string(s, index, value, most, &head);
    } else if (capture->form != VITRINE_CAPTURE_VALUE) {
      __u64 length = 0;
      head.state = evaluate(s, &capture->length, &length);
      if (head.state == VITRINE_CAPTURED && capture->form == VITRINE_CAPTURE_BYTES_AT)
        capture_bytes(s, index, value, length, most, &head);
      else if (head.state == VITRINE_CAPTURED)
        capture_string_at(s, index, value, length, most, &head);
    } else if (capture->operand.size > 8) {
      capture_wide(s, index, &capture->operand, &head);
      head.cut |= capture->operand.flags & VITRINE_CUT ? 1 : 0;
    }
  }
  s->value[index & 31] = value;
  s->state[index & 31] = head.state;
  s->cut[index & 31] = head.cut;
  struct vitrine_captured* out = piece_at(&s->room.out, head_at);
  *out = head;
  walk->done++;
  return 0;
}

/// Appends a vitrine_captured for `count` captures from `from` on. Returns how many had room. The
/// first call for a fire is from 0.
VERIFIED_ALONE __u32 capture_some(struct scratch* s, const struct vitrine_site_program* program,
                                  __u32 from, __u32 count) {
  if (!s || !program) return 0;
  struct capture_walk walk = {.s = s, .program = program, .from = from};
  __u64* states = (__u64*)s->state;
  if (!from)
#pragma unroll
    for (int i = 0; i < 4; ++i) states[i] = 0x0101010101010101ULL * VITRINE_CAPTURE_NO_ROOM;
  bpf_loop(count, capture_next, &walk, 0);
  return walk.done;
}
