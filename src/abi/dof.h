/* The DTrace object format (DOF): the bytes of a `.SUNW_dof` section.
 *
 * Source of the layout: docs/formats/dof.md; FreeBSD review D9374 for the PC-relative relocation,
 * DOFREL. All numbers are little-endian; a big-endian DOF is refused. */
#ifndef VITRINE_ABI_DOF_H
#define VITRINE_ABI_DOF_H

#include <stdint.h>

enum {
  VITRINE_DOF_MODEL_ILP32 = 1,
  VITRINE_DOF_MODEL_LP64 = 2,
  VITRINE_DOF_LITTLE_ENDIAN = 1,
  VITRINE_DOF_BIG_ENDIAN = 2,
  VITRINE_DOF_DIF_VERSION = 2,
  VITRINE_DOF_REGISTERS = 8,
};

/* dofh_version: how is-enabled checks get their results. */
enum {
  VITRINE_DOF_VERSION_PLAIN = 1,
  VITRINE_DOF_VERSION_ENABLED_REGISTER = 2, /* the tracer makes the call return 1 */
  VITRINE_DOF_VERSION_ENABLED_POINTER = 3,  /* the tracer stores 1 where argument 0 points */
};

struct vitrine_dof_header {
  uint8_t magic[4]; /* 7f 'D' 'O' 'F' */
  uint8_t model;
  uint8_t encoding;
  uint8_t version;
  uint8_t dif_version;
  uint8_t dif_int_registers;
  uint8_t dif_tuple_registers;
  uint8_t pad[6];
  uint32_t flags;
  uint32_t header_size;
  uint32_t section_size;
  uint32_t section_count;
  uint64_t section_offset;
  uint64_t loadable_size;
  uint64_t file_size;
  uint64_t pad2;
};

enum { VITRINE_DOF_SECTION_LOAD = 1 };

enum {
  VITRINE_DOF_SECTION_NONE = 0,
  VITRINE_DOF_SECTION_COMMENTS = 1,
  VITRINE_DOF_SECTION_SOURCE = 2,
  VITRINE_DOF_SECTION_STRTAB = 8,
  VITRINE_DOF_SECTION_RELTAB = 10,
  VITRINE_DOF_SECTION_URELHDR = 12,
  VITRINE_DOF_SECTION_PROVIDER = 15,
  VITRINE_DOF_SECTION_PROBES = 16,
  VITRINE_DOF_SECTION_PRARGS = 17,
  VITRINE_DOF_SECTION_PROFFS = 18,
  VITRINE_DOF_SECTION_UTSNAME = 20,
  VITRINE_DOF_SECTION_PRENOFFS = 26,
  /* vitrine's own section, never loadable, so that other readers pass it over: vitrine_dof_semaphore records. */
  VITRINE_DOF_SECTION_SEMAPHORES = 0x76747273,
};

struct vitrine_dof_section {
  uint32_t type;
  uint32_t alignment;
  uint32_t flags;
  uint32_t entry_size;
  uint64_t offset; /* from the header */
  uint64_t size;
};

struct vitrine_dof_provider {
  uint32_t strings; /* section indices */
  uint32_t probes;
  uint32_t arguments;
  uint32_t offsets;
  uint32_t name; /* string offset */
  uint32_t provider_attributes;
  uint32_t module_attributes;
  uint32_t function_attributes;
  uint32_t name_attributes;
  uint32_t args_attributes;
  uint32_t enabled_offsets; /* section index; 0: none */
};

struct vitrine_dof_probe {
  uint64_t address; /* see the relocations */
  uint32_t function;
  uint32_t name;
  uint32_t native_types;
  uint32_t translated_types;
  uint32_t argument_index;
  uint32_t offset_index;
  uint8_t native_count;
  uint8_t translated_count;
  uint16_t offset_count;
  uint32_t enabled_offset_index;
  uint16_t enabled_offset_count;
  uint16_t pad;
  uint32_t pad2;
};

enum {
  VITRINE_DOF_RELOCATE_NONE = 0,
  VITRINE_DOF_RELOCATE_SETX = 1,   /* word += load base */
  VITRINE_DOF_RELOCATE_DOFREL = 2, /* word += address of the word itself */
};

struct vitrine_dof_relocation_header {
  uint32_t strings;
  uint32_t relocations;
  uint32_t target;
};

struct vitrine_dof_relocation {
  uint32_t name;
  uint32_t type;
  uint64_t offset; /* in the target section */
  uint64_t data;
};

/* Records that a probe has a 16-bit counter of its observers, as SystemTap's semaphores are: at
 * `word` + address of `word` (mod 2^32 in ILP32). */
struct vitrine_dof_semaphore {
  uint64_t word;
  uint32_t provider; /* section index */
  uint32_t name;     /* string offset, in the provider's table: the probe's name */
};

#ifdef __cplusplus
static_assert(sizeof(vitrine_dof_header) == 64);
static_assert(sizeof(vitrine_dof_section) == 32);
static_assert(sizeof(vitrine_dof_provider) == 44);
static_assert(sizeof(vitrine_dof_probe) == 48);
static_assert(sizeof(vitrine_dof_relocation_header) == 12);
static_assert(sizeof(vitrine_dof_relocation) == 24);
static_assert(sizeof(vitrine_dof_semaphore) == 16);
#endif

#endif
