/* What the dynamic linker left in memory for debuggers, tampered with. */
#define _GNU_SOURCE
#include <elf.h>
#include <link.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "trick.h"

static struct link_map* last_module(void) {
  struct link_map* module = _r_debug.r_map;
  while (module->l_next != NULL) module = module->l_next;
  return module;
}

static void cyclic(void) {
  last_module()->l_next = _r_debug.r_map;
}

static void its_own_next(void) {
  _r_debug.r_map->l_next = _r_debug.r_map;
}

/* A million modules, none of which is there. */
static void endless(void) {
  enum { count = 1 << 20 };
  struct link_map* nodes = calloc(count, sizeof *nodes);
  must(nodes != NULL, "calloc");
  for (size_t i = 0; i < count; ++i)
    nodes[i] = (struct link_map){0x10000 * i, (char*)"/lib/none.so", (ElfW(Dyn)*)nodes,
                                 i + 1 < count ? &nodes[i + 1] : nodes, NULL};
  last_module()->l_next = nodes;
}

static void wild(void) {
  static struct link_map nodes[8];
  void* const names[] = {pages_that_never_come(1), (void*)0x10,         edge(1) - 1,
                         (void*)UINTPTR_MAX,       pages(1, PROT_NONE), (void*)0xffff888000000000};
  for (size_t i = 0; i < 6; ++i)
    nodes[i] =
        (struct link_map){(uintptr_t)names[i], names[i], names[(i + 1) % 6], &nodes[i + 1], NULL};
  nodes[5].l_next = (struct link_map*)0xffff888000000000;
  last_module()->l_next = nodes;
}

static void never_comes(void) {
  last_module()->l_next = (struct link_map*)pages_that_never_come(1);
}

static void long_names(void) {
  enum { size = 1 << 20 };
  char* name = pages(size / page, PROT_READ | PROT_WRITE);
  memset(name, '\x1b', size);
  for (struct link_map* module = _r_debug.r_map; module != NULL; module = module->l_next)
    module->l_name = name;
}

static void list_flips(void* argument) {
  struct link_map* first = argument;
  struct link_map* second = first->l_next;
  for (;;) {
    first->l_next = first;
    first->l_next = (struct link_map*)0x900000000000;
    first->l_next = second;
    _r_debug.r_map = (struct link_map*)8;
    _r_debug.r_map = first;
  }
}

static void flips(void) {
  in_thread(list_flips, _r_debug.r_map);
}

/* The headers of the program itself, writable. */
static ElfW(Ehdr) * own_headers(void) {
  extern const ElfW(Ehdr) __ehdr_start;
  ElfW(Ehdr)* header = (ElfW(Ehdr)*)(uintptr_t)&__ehdr_start;
  must(mprotect(header, page, PROT_READ | PROT_WRITE) == 0, "mprotect");
  return header;
}

static void headers_lie(void) {
  ElfW(Ehdr)* header = own_headers();
  ElfW(Phdr)* program = (ElfW(Phdr)*)((char*)header + header->e_phoff);
  for (int i = 0; i < header->e_phnum; ++i) {
    program[i].p_memsz = UINT64_MAX;
    program[i].p_filesz = UINT64_MAX;
  }
  header->e_phnum = 0xffff;
  header->e_phentsize = 1;
}

static void rewrite_headers(void* argument) {
  ElfW(Ehdr)* header = argument;
  ElfW(Phdr)* program = (ElfW(Phdr)*)((char*)header + header->e_phoff);
  const ElfW(Half) count = header->e_phnum;
  for (uint64_t turn = 0;; ++turn) {
    const ElfW(Phdr) before = program[turn % count];
    header->e_phnum = 0xffff;
    program[turn % count].p_vaddr = UINT64_MAX - turn % 64;
    program[turn % count].p_memsz = UINT64_C(1) << turn % 64;
    program[turn % count].p_type = PT_DYNAMIC;
    header->e_phoff = turn % 64;
    header->e_phoff = sizeof *header;
    program[turn % count] = before;
    header->e_phnum = count;
  }
}

static void headers_change(void) {
  in_thread(rewrite_headers, own_headers());
}

/* The dynamic section is in memory that was made read-only. */
static ElfW(Dyn) * own_dynamic(void) {
  ElfW(Dyn)* dynamic = _r_debug.r_map->l_ld;
  char* begin = (char*)((uintptr_t)dynamic & ~(uintptr_t)(page - 1));
  must(mprotect(begin, 2 * page, PROT_READ | PROT_WRITE) == 0, "mprotect");
  return dynamic;
}

static ElfW(Dyn) * entry_of(ElfW(Dyn) * dynamic, ElfW(Sxword) tag) {
  for (; dynamic->d_tag != DT_NULL; ++dynamic)
    if (dynamic->d_tag == tag) return dynamic;
  return NULL;
}

static void no_end(void) {
  enum { count = 8 << 20 };
  ElfW(Dyn)* entries = (ElfW(Dyn)*)pages(count / page * sizeof *entries, PROT_READ | PROT_WRITE);
  for (size_t i = 0; i < count; ++i) entries[i].d_tag = DT_NEEDED;
  _r_debug.r_map->l_ld = entries;
}

/* A table of symbols in which each chain is a circle, and there are four thousand million. */
static void hash_circles(void) {
  static uint32_t circle[] = {1, 4, 1, 1, 2, 3, 1};
  static uint32_t gnu[16] = {1, 1, UINT32_MAX, 31, 0xffffffff, 0xffffffff, 1, 0, 0, 0};
  ElfW(Dyn)* dynamic = own_dynamic();
  ElfW(Dyn)* hash = entry_of(dynamic, DT_GNU_HASH);
  if (hash != NULL) {
    hash->d_tag = DT_HASH;
    hash->d_un.d_ptr = (uintptr_t)circle;
  }
  ElfW(Dyn)* other = entry_of(dynamic, DT_VERNEEDNUM);
  if (other != NULL) {
    other->d_tag = DT_GNU_HASH;
    other->d_un.d_ptr = (uintptr_t)gnu;
  }
}

static void gnu_hash_wild(void) {
  static uint32_t tables[4][8] = {{UINT32_MAX, 1, 1, 0},
                                  {1, 0, UINT32_MAX, 0},
                                  {1, UINT32_MAX, 1, 0},
                                  {1, 1, 1, 0, 0xffffffff, 0xffffffff, 1, 2}};
  ElfW(Dyn)* hash = entry_of(own_dynamic(), DT_GNU_HASH);
  if (hash == NULL) cannot("no DT_GNU_HASH");
  hash->d_un.d_ptr = (uintptr_t)tables[getpid() % 4];
}

static void dynamic_without_end(void* argument) {
  ElfW(Dyn)* dynamic = argument;
  size_t count = 0;
  while (dynamic[count].d_tag != DT_NULL) ++count;
  for (uint64_t turn = 0;; ++turn) {
    ElfW(Dyn)* entry = &dynamic[turn % count];
    const ElfW(Dyn) before = *entry;
    entry->d_un.d_val = turn % 2 ? UINT64_MAX : 0xffff888000000000 + turn;
    *entry = before;
  }
}

static void dynamic_changes(void) {
  in_thread(dynamic_without_end, own_dynamic());
}

/* Threads that destroy what their thread-local variables are found by. They may use none of them
 * afterwards, nor the C library: raw calls only. */
static long raw_rest(long microseconds) {
  const long time[2] = {0, microseconds * 1000};
  long result;
  __asm__ volatile("syscall"
                   : "=a"(result)
                   : "0"(SYS_nanosleep), "D"(time), "S"(0)
                   : "rcx", "r11", "memory");
  return result;
}

__attribute__((noinline)) static void rest_raw_for_ever(void) {
  for (;;) {
    for (volatile int i = 0; i < 100000; ++i) {
    }
    raw_rest(5000);
  }
}

__attribute__((optimize("no-stack-protector"))) static void lose_thread_pointer(void* to) {
  long result;
  __asm__ volatile("syscall"
                   : "=a"(result)
                   : "0"(SYS_arch_prctl), "D"(0x1002 /* ARCH_SET_FS */), "S"(to)
                   : "rcx", "r11", "memory");
  rest_raw_for_ever();
}

static void thread_pointers(void) {
  in_thread(lose_thread_pointer, NULL);
  in_thread(lose_thread_pointer, (void*)0x10);
  in_thread(lose_thread_pointer, (void*)0x7fffffffe000);
  in_thread(lose_thread_pointer, edge(1));
  in_thread(lose_thread_pointer, edge(1) - 4);
  in_thread(lose_thread_pointer, pages_that_never_come(1) + 2048);
  in_thread(lose_thread_pointer, device_page());
}

__attribute__((optimize("no-stack-protector"))) static void tamper_with_vector(void* to) {
  __asm__ volatile("movq %0, %%fs:8" : : "r"(to) : "memory");
  rest_raw_for_ever();
}

static void vectors(void) {
  static uintptr_t generations[64];
  generations[0] = UINTPTR_MAX;
  for (int i = 1; i < 64; ++i) generations[i] = (uintptr_t)generations;
  in_thread(tamper_with_vector, NULL);
  in_thread(tamper_with_vector, (void*)0xffff888000000000);
  in_thread(tamper_with_vector, edge(1) - 8);
  in_thread(tamper_with_vector, pages_that_never_come(1));
  in_thread(tamper_with_vector, &generations[2]);
}

const struct trick linker_tricks[] = {{"modules-cyclic", cyclic},
                                      {"module-its-own-next", its_own_next},
                                      {"modules-endless", endless},
                                      {"modules-wild", wild},
                                      {"module-never-comes", never_comes},
                                      {"module-names-long", long_names},
                                      {"modules-flip", flips},
                                      {"headers-lie", headers_lie},
                                      {"headers-change", headers_change},
                                      {"dynamic-section-endless", no_end},
                                      {"hash-circles", hash_circles},
                                      {"gnu-hash-wild", gnu_hash_wild},
                                      {"dynamic-section-changes", dynamic_changes},
                                      {"thread-pointers", thread_pointers},
                                      {"thread-vectors", vectors},
                                      {NULL, NULL}};
