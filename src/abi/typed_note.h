/* SPDX-License-Identifier: Apache-2.0 */
/* The notes by which a probe describes itself: what its arguments are called and what they are.
 * Layout: docs/typed-probes.md, which is the definition; this header has its constants, no more. */
#pragma once

/* Where: SHT_NOTE, no flags (never loaded); in the group of the code that it describes, if any.
 * Owner and both types share the section, with any number of notes in any order. */
#define VITRINE_NOTE_SECTION ".note.vitrine.probes"
#define VITRINE_NOTE_OWNER "vitrine" /* n_namesz 8: with its NUL */

enum vitrine_note_type {
  /* desc: pc (A bytes: 4 or 8, by the file's class) · u8 count · provider NUL · name NUL
   *       · count x { u8 kind · name NUL · type NUL } */
  VITRINE_NOTE_PROBE = 1,
  /* desc: i64 value · type NUL · name NUL */
  VITRINE_NOTE_ENUMERATOR = 2,
};

/* What an argument is. Its size and sign are those of the v3 note's argument. */
enum vitrine_note_kind {
  VITRINE_KIND_UNKNOWN = 0,     /* not described further */
  VITRINE_KIND_INTEGER = 1,     /* characters included */
  VITRINE_KIND_FLOATING = 2,    /* IEEE, or x87 where the v3 size is 12 or 16 on x86 */
  VITRINE_KIND_BOOLEAN = 3,     /* false is 0 */
  VITRINE_KIND_POINTER = 4,     /* an address, for its own sake */
  VITRINE_KIND_C_STRING = 5,    /* the address of NUL-terminated bytes */
  VITRINE_KIND_ENUMERATION = 6, /* an integer; `type` finds its enumerators */
  VITRINE_KIND_TEXT = 8,        /* two v3 arguments: the address of bytes, their number */
  VITRINE_KIND_BYTES = 9,       /* as TEXT, but not characters */
};

/* A kind with this bit takes two v3 arguments (address, length), every other kind takes one: so a
 * reader stays in step over kinds that it does not know. Kinds are below 16. */
#define VITRINE_KIND_HAS_LENGTH 8

#define VITRINE_NOTE_MAX_ARGUMENTS 12 /* most that our header writes */
