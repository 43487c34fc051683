/* Registers the probes of this program or library with the DTrace helper device of its host, as the
 * constructor of `dtrace -G` does: for Oracle's DTrace (dtprobed). vitrine needs no registration.
 *
 *   vitrine usdt link --registration -s shop.d -o shop_probes.o OBJECTS
 *   cc -c usdt_register.c
 *   cc -o shop OBJECTS shop_probes.o usdt_register.o
 *
 * Once in each program and each library, however many probe objects it has. Any C from C99 on.
 *
 * The device's readers do not know how our DOF writes addresses (relative to the word that holds
 * them), so that they are given a copy that has them relative to where the file was loaded. The
 * copy is in a private mapping of the file itself, for the readers know by the mapping which file
 * the DOF is of; the program's own memory is not changed. Sources: docs/formats/object-step.md.
 *
 * DTRACE_DOF_INIT_DISABLE  does nothing if set
 * DTRACE_DOF_INIT_DEBUG    prints on standard error what fails
 * DTRACE_DOF_INIT_DEVNAME  is the device in place of /dev/dtrace/helper */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <link.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#define HIDDEN __attribute__((visibility("hidden")))

/* What a probe object refers to, so that no link goes without this file. */
extern HIDDEN const char vitrine_usdt_register;
HIDDEN const char vitrine_usdt_register = 0;

/* Where the DOFs of this module are, each relative to its word. */
extern HIDDEN const uint64_t dof_words[] __asm__("__start_vitrine_usdt_dofs");
extern HIDDEN const uint64_t dof_words_end[] __asm__("__stop_vitrine_usdt_dofs");

enum { max_dofs = 64 };
enum { section_load = 1 };
enum { section_probes = 16, section_urelhdr = 12, relocate_setx = 1, relocate_dofrel = 2 };

struct helper {
  char module[64];
  uint64_t base;
  uint64_t dof;
};
#define HELPER_ADD _IOW(0xd8, 3, struct helper)
#define HELPER_REMOVE _IOW(0xd8, 2, int)

struct header {
  uint8_t ident[16];
  uint32_t flags, header_size, section_size, section_count;
  uint64_t section_offset, loadable_size, file_size, pad;
};
struct section {
  uint32_t type, alignment, flags, entry_size;
  uint64_t offset, size;
};
struct probe {
  uint64_t address;
  uint8_t rest[40];
};
struct relocation {
  uint32_t name, type;
  uint64_t offset, data;
};

/* Found out before main(): a child of fork() may not ask the dynamic linker. */
static struct {
  uintptr_t base;
  uintptr_t segment, segment_end; /* the part of the file that holds the DOFs */
  uint64_t segment_offset;
  char path[PATH_MAX];
  char module[64];
  int generations[max_dofs];
  size_t registered;
} state;

static void complain(const char* what, const char* name) {
  if (secure_getenv("DTRACE_DOF_INIT_DEBUG"))
    fprintf(stderr, "vitrine: %s %s: %s\n", what, name, strerror(errno));
}

static const char* device(void) {
  const char* name = secure_getenv("DTRACE_DOF_INIT_DEVNAME");
  return name ? name : "/dev/dtrace/helper";
}

static int find_module(struct dl_phdr_info* info, size_t size, void* address) {
  const uintptr_t wanted = (uintptr_t)address;
  (void)size;
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const ElfW(Phdr)* part = &info->dlpi_phdr[i];
    const uintptr_t start = info->dlpi_addr + part->p_vaddr;
    if (part->p_type != PT_LOAD || wanted < start || wanted - start >= part->p_filesz) continue;
    state.base = info->dlpi_addr;
    state.segment = start;
    state.segment_end = start + part->p_filesz;
    state.segment_offset = part->p_offset;
    const ssize_t length = readlink("/proc/self/exe", state.path, sizeof state.path - 1);
    state.path[length < 0 ? 0 : length] = '\0';
    if (info->dlpi_name && info->dlpi_name[0])
      snprintf(state.path, sizeof state.path, "%s", info->dlpi_name);
    const char* slash = strrchr(state.path, '/');
    snprintf(state.module, sizeof state.module, "%.63s", slash ? slash + 1 : state.path);
    return 1;
  }
  return 0;
}

struct copy {
  void* mapping; /* MAP_FAILED: none */
  size_t length;
  char* dof;
};

static struct copy copy_of(const char* dof, size_t size) {
  const uintptr_t at = (uintptr_t)dof;
  struct copy copy = {MAP_FAILED, 0, 0};
  if (at >= state.segment && at + size <= state.segment_end) {
    const uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    const uint64_t offset = state.segment_offset + (at - state.segment);
    const uint64_t before = offset % page;
    const int file = open(state.path, O_RDONLY | O_CLOEXEC);
    copy.length = (size_t)(size + before);
    if (file >= 0) {
      copy.mapping =
          mmap(0, copy.length, PROT_READ | PROT_WRITE, MAP_PRIVATE, file, (off_t)(offset - before));
      close(file);
    }
    if (copy.mapping != MAP_FAILED) {
      copy.dof = (char*)copy.mapping + before;
      if (memcmp(copy.dof, dof, size) == 0) return copy;
      munmap(copy.mapping, copy.length); /* another file is there by now */
    }
  }
  copy.length = size;
  copy.mapping = mmap(0, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  copy.dof = (char*)copy.mapping;
  if (copy.mapping != MAP_FAILED) memcpy(copy.dof, dof, size);
  return copy;
}

/* Addresses relative to the load base; without the functions that the link left out, whose records
 * point to the DOF itself, and without the parts that only vitrine reads. */
static void rewrite(struct copy copy, uintptr_t dof) {
  struct header* header = (struct header*)copy.dof;
  struct section* sections = (struct section*)(copy.dof + header->section_offset);
  header->file_size = header->loadable_size;
  for (uint32_t i = 0; i < header->section_count; ++i) {
    if (!(sections[i].flags & section_load)) memset(&sections[i], 0, sizeof sections[i]);
    if (sections[i].type != section_urelhdr) continue;
    const uint32_t* links = (const uint32_t*)(copy.dof + sections[i].offset);
    struct section *table = &sections[links[1]], *target = &sections[links[2]];
    if (target->type != section_probes) continue;
    struct relocation* relocations = (struct relocation*)(copy.dof + table->offset);
    struct probe* probes = (struct probe*)(copy.dof + target->offset);
    const size_t count = table->size / sizeof *relocations;
    size_t kept = 0;
    for (size_t r = 0; r < count; ++r) { /* the writer makes one of each record, in order */
      if (relocations[r].type != relocate_dofrel) return;
      const uintptr_t word = dof + (uintptr_t)(target->offset + relocations[r].offset);
      const uintptr_t function = word + (uintptr_t)probes[r].address;
      if (function == dof) continue;
      probes[kept] = probes[r];
      probes[kept].address = function - state.base;
      relocations[kept].name = relocations[r].name;
      relocations[kept].type = relocate_setx;
      relocations[kept].offset = kept * sizeof *probes;
      ++kept;
    }
    table->size = kept * sizeof *relocations;
    target->size = kept * sizeof *probes;
  }
}

static void add(int file, const char* dof) {
  static const char magic[4] = {0x7f, 'D', 'O', 'F'};
  struct header header;
  memcpy(&header, dof, sizeof header);
  if (memcmp(header.ident, magic, sizeof magic) != 0 || state.registered == max_dofs) return;
  struct copy copy = copy_of(dof, (size_t)header.file_size);
  if (copy.mapping == MAP_FAILED) return;
  rewrite(copy, (uintptr_t)dof);
  struct helper helper;
  memset(&helper, 0, sizeof helper);
  memcpy(helper.module, state.module, sizeof helper.module);
  helper.base = state.base;
  helper.dof = (uintptr_t)copy.dof;
  const int generation = ioctl(file, HELPER_ADD, &helper);
  if (generation < 0)
    complain("cannot register with", device());
  else
    state.generations[state.registered++] = generation;
  munmap(copy.mapping, copy.length);
}

static void register_all(void) {
  const int error = errno;
  const int file = open(device(), O_RDWR | O_CLOEXEC);
  state.registered = 0;
  if (file < 0) complain("cannot open", device());
  for (const uint64_t* word = dof_words; file >= 0 && word < dof_words_end; ++word)
    add(file, (const char*)((uintptr_t)word + (uintptr_t)*word));
  if (file >= 0) close(file);
  errno = error;
}

__attribute__((constructor)) static void start(void) {
  if (secure_getenv("DTRACE_DOF_INIT_DISABLE")) return;
  const uintptr_t dof = (uintptr_t)dof_words + (uintptr_t)*dof_words;
  if (!dl_iterate_phdr(find_module, (void*)dof)) return;
  register_all();
  pthread_atfork(0, 0, register_all);
}

__attribute__((destructor)) static void finish(void) {
  if (state.registered == 0) return;
  const int file = open(device(), O_RDWR | O_CLOEXEC);
  for (size_t i = 0; file >= 0 && i < state.registered; ++i)
    ioctl(file, HELPER_REMOVE, (uintptr_t)state.generations[i]);
  if (file >= 0) close(file);
}
