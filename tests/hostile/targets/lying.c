/* More lies: of label sets in memory of other kinds, of contexts, of the dynamic linker's tables, of
 * stacks, of maps of JIT code. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "trick.h"

static void show(void* set) {
  custom_labels_current_set = set;
  for (;;) rest_us(100000);
}

static void show_both(void* record) {
  otel_thread_ctx_v1 = record;
  for (;;) rest_us(1000);
}

/* Keys and values that are all the same, empty at wild addresses, or no text. */
static void keys_odd(void) {
  struct label* labels = calloc(600, sizeof *labels);
  must(labels != NULL, "calloc");
  for (int i = 0; i < 300; ++i)
    labels[i] = (struct label){text("tenant"), text("\xff\xfe\x1b[31m")};
  for (int i = 300; i < 600; ++i)
    labels[i] = (struct label){{0, (void*)(UINTPTR_MAX - (unsigned)i)}, {0, NULL}};
  in_thread(show, set_of(labels, 600));
  static struct label nul = {{5, "a\0b\0c"}, {3, "\0\0\0"}};
  in_thread(show, set_of(&nul, 1));
  static struct label marks = {{6, "\u202e\u2066"}, {9, "\u2028\u2029\ufeff"}};
  in_thread(show, set_of(&marks, 1));
}

/* Keys that lie in the values of others, labels in the table of their set, sets in each other. */
static void sets_overlap(void) {
  struct overlap {
    struct set set;
    struct label labels[3];
  }* two = calloc(2, sizeof *two);
  must(two != NULL, "calloc");
  for (int i = 0; i < 2; ++i) {
    two[i].set = (struct set){(struct label*)&two[1 - i].set, 4, 4};
    for (int j = 0; j < 3; ++j)
      two[i].labels[j] =
          (struct label){{sizeof *two, &two[1 - i]}, {16, &two[i].labels[(j + 1) % 3].value}};
    in_thread(show, &two[i]);
    in_thread(show, &two[i].labels[1]);
  }
}

/* What one thread shows is the thread-local storage and the stack of another. */
static void* volatile other_slot;
static void offer_slot(void* unused) {
  struct label on_stack = {text("stack"), text("of another")};
  struct set set = {&on_stack, 1, 1};
  (void)unused;
  custom_labels_current_set = &set;
  other_slot = (void*)&custom_labels_current_set;
  for (;;) rest_us(100);
}

static void of_another(void) {
  in_thread(offer_slot, NULL);
  while (other_slot == NULL) rest_us(100);
  in_thread(show, other_slot);
  in_thread(show, *(void**)other_slot);
  in_thread(show_both, other_slot);
}

/* A file that ends before its mapping does: SIGBUS for whoever touches the rest. */
static char* cut_file(size_t whole, size_t left) {
  const int file = memfd_create("cut", MFD_CLOEXEC);
  must(file >= 0 && ftruncate(file, (off_t)(whole * page)) == 0, "memfd");
  char* memory = mmap(NULL, whole * page, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  must(memory != MAP_FAILED, "mmap");
  memset(memory, 'x', whole * page);
  must(ftruncate(file, (off_t)(left * page)) == 0, "ftruncate");
  close(file);
  return memory;
}

static void in_cut_file(void) {
  char* memory = cut_file(4, 1);
  struct label* labels = (struct label*)(memory + page - sizeof *labels);
  *labels = (struct label){text("k"), {2 * page, memory + page - 64}};
  in_thread(show, set_of(labels, 3));
  in_thread(show, memory + page);
  in_thread(show_both, memory + page - 28);
}

/* Memory that no other process may read. */
static void in_secret(void) {
#ifdef SYS_memfd_secret
  const int file = (int)syscall(SYS_memfd_secret, 0);
  if (file < 0 || ftruncate(file, page) != 0) cannot("no secret memory");
  char* memory = mmap(NULL, page, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  if (memory == MAP_FAILED) cannot("no secret memory");
  struct set* set = (struct set*)memory;
  *set = (struct set){(struct label*)(memory + 64), 1, 1};
  *(struct label*)(memory + 64) = (struct label){text("k"), text("v")};
  in_thread(show, set);
  in_thread(show_both, memory + 128);
#else
  cannot("no secret memory");
#endif
}

static void flip_valid(void* record) {
  volatile unsigned char* valid = (unsigned char*)record + 24;
  volatile uint16_t* size = (uint16_t*)((char*)record + 26);
  for (unsigned turn = 0;; ++turn) {
    *valid = (unsigned char)turn;
    *size = (uint16_t)(turn * 77);
    ((volatile unsigned char*)record)[turn % 24] = (unsigned char)turn;
  }
}

static void record_flips(void) {
  char* record = pages(1, PROT_READ | PROT_WRITE);
  memset(record, 1, page);
  in_thread(show_both, record);
  in_thread(flip_valid, record);
}

/* Contexts. */
static void publish(const void* payload, size_t size) {
  unsigned char* copy = malloc(size + 1);
  must(copy != NULL, "malloc");
  memcpy(copy, payload, size);
  fill_context(map_context(), copy, size);
}

/* Numbers of more than ten bytes, of ten that say more than 64 bits, and that do not end. */
static void varints(void) {
  unsigned char bytes[2000];
  memset(bytes, 0xff, sizeof bytes);
  publish(bytes, sizeof bytes);
  bytes[0] = 0x0a;
  publish(bytes, sizeof bytes);
  memset(bytes + 1, 0x80, 1000);
  bytes[1001] = 0;
  publish(bytes, sizeof bytes);
  publish(bytes, 1);
  memset(bytes + 1, 0xff, 9);
  bytes[10] = 0x7f;
  publish(bytes, 12);
}

/* Groups (wire type 3) in groups, none of which ends; wire types that there are not. */
static void groups(void) {
  enum { size = 200000 };
  unsigned char* bytes = malloc(size);
  must(bytes != NULL, "malloc");
  memset(bytes, 0x0b, size);
  publish(bytes, size);
  memset(bytes, 0x0c, size);
  publish(bytes, size);
  memset(bytes, 0x0f, size);
  publish(bytes, 64);
  memset(bytes, 0x00, size);
  publish(bytes, size);
}

/* Each inner length is a little more than what is left of the outer one. */
static void lengths(void) {
  unsigned char inner[300], outer[400];
  unsigned char* end = put_bytes(inner, 1, "key", 3);
  *end++ = 0x12;
  *end++ = 0x7f;
  memset(end, 'v', 20);
  end += 20;
  unsigned char* whole = put_bytes(outer, 1, inner, (size_t)(end - inner));
  publish(outer, (size_t)(whole - outer));
  outer[1] = 0x7f;
  publish(outer, (size_t)(whole - outer));
  end = put_bytes(inner, 1, "\xff\xfe\x1b]0;x\x07", 9);
  end = put_bytes(end, 2, "\x0a\x03\xe2\x80\xae", 5);
  whole = put_bytes(outer, 1, inner, (size_t)(end - inner));
  publish(outer, (size_t)(whole - outer));
}

/* Its file is shorter than its mapping by now. */
static void context_cut(void) {
  const int file = memfd_create("OTEL_CTX", MFD_CLOEXEC);
  must(file >= 0 && ftruncate(file, page) == 0, "memfd");
  struct context* context = mmap(NULL, page, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  must(context != MAP_FAILED, "mmap");
  fill_context(context, "\x0a\x00", 2);
  must(ftruncate(file, 0) == 0, "ftruncate");
  char* payload = cut_file(3, 1);
  fill_context(map_context(), payload + page - 10, 2 * page);
}

static void context_huge_pages(void) {
  const int file = memfd_create("OTEL_CTX", MFD_CLOEXEC | MFD_HUGETLB);
  if (file < 0 || ftruncate(file, 2 << 20) != 0) cannot("no huge pages");
  /* None may be reserved on this machine: then the header never comes, which is the point, too. */
  struct context* context =
      mmap(NULL, 2 << 20, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, file, 0);
  if (context == MAP_FAILED) cannot("no huge pages");
}

/* Versions of the future, signatures that nearly fit, stamps that are none. */
static void versions(void) {
  for (uint32_t i = 0; i < 40; ++i) {
    struct context* context = map_context();
    fill_context(context, "\x0a\x00", 2);
    context->version = i * 0x7fffffff;
    context->stamp = i % 3 ? UINT64_MAX - i : 0;
    if (i % 5 == 0) context->signature[7] = 0;
  }
}

/* The dynamic linker's tables. */
static ElfW(Dyn) * dynamic_of_program(void) {
  ElfW(Dyn)* dynamic = _r_debug.r_map->l_ld;
  char* begin = (char*)((uintptr_t)dynamic & ~(uintptr_t)(page - 1));
  must(mprotect(begin, 2 * page, PROT_READ | PROT_WRITE) == 0, "mprotect");
  return dynamic;
}

static void set_entry(ElfW(Sxword) tag, uint64_t value) {
  for (ElfW(Dyn)* entry = dynamic_of_program(); entry->d_tag != DT_NULL; ++entry)
    if (entry->d_tag == tag) entry->d_un.d_val = value;
}

/* Thread-local symbols at negative, unaligned and endless places, of every name that is looked for. */
static void symbols_forged(void) {
  static const char names[] =
      "\0custom_labels_current_set\0custom_labels_abi_version\0otel_thread_ctx_v1\0main";
  static ElfW(Sym) symbols[64];
  static uint32_t hash[2 + 1 + 64];
  const uint64_t values[] = {
      UINT64_MAX - 7, UINT64_C(1) << 63, UINT64_MAX, 1, 0x7fffffff00000000, 3};
  hash[0] = 1;
  hash[1] = 64;
  hash[2] = 1;
  for (unsigned i = 1; i < 64; ++i) {
    static const unsigned at[] = {1, 27, 53, 72};
    symbols[i] = (ElfW(Sym)){at[i % 4],
                             ELF64_ST_INFO(STB_GLOBAL, i % 3 ? STT_TLS : STT_OBJECT),
                             0,
                             (ElfW(Half))(i % 5 ? 1 : SHN_UNDEF),
                             values[i % 6],
                             UINT64_MAX};
    hash[2 + i] = i + 1 < 64 ? i + 1 : 1;
  }
  set_entry(DT_STRTAB, (uintptr_t)names);
  set_entry(DT_SYMTAB, (uintptr_t)symbols);
  set_entry(DT_STRSZ, UINT64_MAX);
  for (ElfW(Dyn)* entry = dynamic_of_program(); entry->d_tag != DT_NULL; ++entry)
    if (entry->d_tag == DT_GNU_HASH) *entry = (ElfW(Dyn)){DT_HASH, {(uintptr_t)hash}};
}

static void strings_forged(void) {
  char* no_end = edge(16) - 16 * page;
  memset(no_end, 'c', 16 * page);
  set_entry(DT_STRTAB, (uintptr_t)no_end);
  set_entry(DT_STRSZ, 16 * page);
}

static void tables_never_come(void) {
  char* memory = pages_that_never_come(8);
  set_entry(DT_SYMTAB, (uintptr_t)memory);
  set_entry(DT_STRTAB, (uintptr_t)memory + 2 * page);
}

static void versions_circle(void) {
  static uint32_t need[8] = {0xffff0001, 1, 0, 0, 0, 0, 0, 0}; /* vn_next: 0, without an end */
  set_entry(DT_VERNEED, (uintptr_t)need);
  set_entry(DT_VERNEEDNUM, UINT64_MAX);
  set_entry(DT_VERSYM, (uintptr_t)edge(1) - 2);
  set_entry(DT_SYMENT, 0);
  set_entry(DT_RELAENT, 0);
  set_entry(DT_RELASZ, UINT64_MAX);
  set_entry(DT_PLTRELSZ, UINT64_MAX);
}

/* Namespaces of the dynamic linker, the last of which is the first again. */
static void namespaces(void) {
  struct extended {
    struct r_debug base;
    struct extended* next;
  };
  static struct extended own[2];
  for (int i = 0; i < 2; ++i) {
    own[i].base = _r_debug;
    own[i].base.r_version = 2;
    own[i].base.r_state = 1;
    own[i].base.r_brk = UINT64_MAX - 3;
    own[i].next = &own[1 - i];
  }
  set_entry(DT_DEBUG, (uintptr_t)own);
}

static void opened_namespaces(void) {
  char path[512];
  const char* directory = getenv("HOSTILE_LIBRARIES");
  must(directory != NULL, "HOSTILE_LIBRARIES");
  snprintf(path, sizeof path, "%s/libhostile_probes.so", directory);
  int opened = 0;
  for (int i = 0; i < 14; ++i) opened += dlmopen(LM_ID_NEWLM, path, RTLD_NOW) != NULL;
  if (opened == 0) cannot("no namespaces of the dynamic linker");
}

static void map_moved(void) {
  set_entry(DT_DEBUG, (uintptr_t)_r_debug.r_map);
}

static void program_headers_gone(void) {
  extern const ElfW(Ehdr) __ehdr_start;
  must(munmap((void*)(uintptr_t)&__ehdr_start, page) == 0, "munmap");
}

/* Stacks. */
static void spin_and_rest(void* unused) {
  (void)unused;
  for (;;) {
    for (volatile int i = 0; i < 300000; ++i) {
    }
    rest_us(4000);
  }
}

static void nest_signals(int number) {
  static __thread int depth;
  if (++depth < 200) syscall(SYS_tgkill, getpid(), syscall(SYS_gettid), number);
  spin_and_rest(NULL);
}

static void in_signals(void* unused) {
  (void)unused;
  const struct sigaction action = {.sa_handler = nest_signals, .sa_flags = SA_NODEFER | SA_ONSTACK};
  const stack_t stack = {.ss_sp = pages(256, PROT_READ | PROT_WRITE), .ss_size = 256 * page};
  sigaltstack(&stack, NULL);
  sigaction(SIGUSR1, &action, NULL);
  syscall(SYS_tgkill, getpid(), syscall(SYS_gettid), SIGUSR1);
}

static void signal_frames(void) {
  in_thread(in_signals, NULL);
}

__attribute__((noinline)) static void switch_to(void* stack) {
  __asm__ volatile(
      "mov %0, %%rsp\n"
      "xor %%ebp, %%ebp\n"
      "call *%1\n"
      :
      : "r"(stack), "r"(spin_and_rest)
      : "memory");
}

/* On stacks that are files, and whose return addresses are of every kind of memory but code. */
static void on_file(void* unused) {
  (void)unused;
  const int file = memfd_create("stack", MFD_CLOEXEC);
  must(file >= 0 && ftruncate(file, 64 * page) == 0, "memfd");
  char* memory = mmap(NULL, 64 * page, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  const uintptr_t kinds[] = {0xffffffffff600000,
                             0xffffffff81000000,
                             (uintptr_t)memory,
                             (uintptr_t)edge(1),
                             0x7ffffffff000,
                             UINTPTR_MAX,
                             1,
                             (uintptr_t)device_page()};
  for (int i = 0; i < 64 * page / 8; ++i) ((uintptr_t*)memory)[i] = kinds[i % 8];
  switch_to(memory + 32 * page - 8);
}

static void stacks_odd(void) {
  for (int i = 0; i < 3; ++i) in_thread(on_file, NULL);
}

/* The vdso is a page of ours, and what it says of itself leads nowhere. */
static void vdso_forged(void) {
  char* vdso = NULL;
  FILE* maps = fopen("/proc/self/maps", "r");
  char line[512];
  unsigned long start = 0, end = 0;
  while (maps != NULL && fgets(line, sizeof line, maps) != NULL)
    if (strstr(line, "[vdso]") != NULL && sscanf(line, "%lx-%lx", &start, &end) == 2)
      vdso = (char*)start;
  if (maps != NULL) fclose(maps);
  if (vdso == NULL) cannot("no vdso");
  char* copy = pages((end - start) / page, PROT_READ | PROT_WRITE | PROT_EXEC);
  memcpy(copy, vdso, end - start);
  ElfW(Ehdr)* header = (ElfW(Ehdr)*)copy;
  header->e_phnum = 0xffff;
  header->e_shoff = UINT64_MAX;
  must(mremap(copy, end - start, end - start, MREMAP_MAYMOVE | MREMAP_FIXED, vdso) == vdso,
       "mremap");
}

/* Code that was made at run time. */
static const unsigned char spin_code[] = {0xb9, 0xe0, 0x93, 0x04, 0, 0xff, 0xc9, 0x75, 0xfc, 0xc3};

static void spin_in(void* code) {
  for (;;) {
    ((void (*)(void))(uintptr_t)code)();
    rest_us(4000);
  }
}

static char* code_page(void) {
  char* code = pages(1, PROT_READ | PROT_WRITE | PROT_EXEC);
  memcpy(code, spin_code, sizeof spin_code);
  return code;
}

static FILE* new_map(void) {
  char path[64];
  snprintf(path, sizeof path, "/tmp/perf-%d.map", getpid());
  unlink(path);
  FILE* file = fopen(path, "w");
  must(file != NULL, path);
  return file;
}

/* 300,000 functions around each other. */
static void map_overlaps(void) {
  char* code = code_page();
  FILE* map = new_map();
  for (unsigned long i = 0; i < 300000; ++i)
    fprintf(map, "%lx %lx around_%lu\n", (unsigned long)(uintptr_t)code - i, 2 * i + 64, i);
  must(fclose(map) == 0, "perf map");
  in_thread(spin_in, code);
}

static void map_binary(void) {
  char* code = code_page();
  FILE* map = new_map();
  for (int i = 0; i < 100000; ++i) fputc(i * 7919 % 256, map);
  fprintf(map, "\n%lx 1000 a%cb%c", (unsigned long)(uintptr_t)code, 0, 0);
  must(fclose(map) == 0, "perf map"); /* and no end of line */
  in_thread(spin_in, code);
}

static void map_socket_like(void) {
  char path[64];
  char* code = code_page();
  snprintf(path, sizeof path, "/tmp/perf-%d.map", getpid());
  unlink(path);
  must(symlink(path, path) == 0, path);
  in_thread(spin_in, code);
}

static void move_code(void* at) {
  char* code = at;
  char* away = pages(1, PROT_NONE);
  for (;;) {
    ((void (*)(void))(uintptr_t)code)();
    must(mremap(code, page, page, MREMAP_MAYMOVE | MREMAP_FIXED, away) == away, "mremap");
    char* other = code;
    code = away;
    away = other;
    must(mmap(away, page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == away,
         "mmap");
    rest_us(500);
  }
}

static void code_moves(void) {
  in_thread(move_code, code_page());
}

static void code_in_memory_files(void) {
  const char* const names[] = {"", "/lib/libc.so.6", "[vdso]", "a\nb (deleted)", "jit-cache"};
  for (size_t i = 0; i < sizeof names / sizeof *names; ++i) {
    const int file = memfd_create(names[i], MFD_CLOEXEC);
    must(file >= 0 && ftruncate(file, page) == 0, "memfd");
    char* code = mmap(NULL, page, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_SHARED, file, 0);
    must(code != MAP_FAILED, "mmap");
    memcpy(code, spin_code, sizeof spin_code);
    close(file);
    in_thread(spin_in, code);
  }
}

const struct trick lying_tricks[] = {{"label-keys-odd", keys_odd},
                                     {"label-sets-overlap", sets_overlap},
                                     {"label-of-another-thread", of_another},
                                     {"label-in-cut-file", in_cut_file},
                                     {"label-in-secret-memory", in_secret},
                                     {"record-flips", record_flips},
                                     {"context-varints", varints},
                                     {"context-groups", groups},
                                     {"context-lengths-lie", lengths},
                                     {"context-cut-file", context_cut},
                                     {"context-huge-pages", context_huge_pages},
                                     {"context-versions", versions},
                                     {"dynamic-symbols-forged", symbols_forged},
                                     {"dynamic-strings-endless", strings_forged},
                                     {"dynamic-tables-never-come", tables_never_come},
                                     {"dynamic-versions-circle", versions_circle},
                                     {"linker-namespaces-circle", namespaces},
                                     {"linker-namespaces", opened_namespaces},
                                     {"linker-state-forged", map_moved},
                                     {"program-headers-gone", program_headers_gone},
                                     {"signal-frames-nested", signal_frames},
                                     {"stacks-in-files", stacks_odd},
                                     {"vdso-forged", vdso_forged},
                                     {"jit-map-overlaps", map_overlaps},
                                     {"jit-map-binary", map_binary},
                                     {"jit-map-link-to-itself", map_socket_like},
                                     {"jit-code-moves", code_moves},
                                     {"jit-code-in-memory-files", code_in_memory_files},
                                     {NULL, NULL}};
