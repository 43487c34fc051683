/* Processes that hold locks of the kernel for as long as they like, while who reads their files in
 * /proc waits; and what the kernel tells of a process, set by the process itself. */
#define _GNU_SOURCE
#include <elf.h>
#include <fcntl.h>
#include <linux/prctl.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/served_file.h"
#include "trick.h"

static const char* own_place(const char* name) {
  static char path[512];
  const char* directory = getenv("HOSTILE_DIRECTORY");
  must(directory != NULL, "HOSTILE_DIRECTORY");
  snprintf(path, sizeof path, "%s/%d-%s", directory, getpid(), name);
  return path;
}

/* A file on a file system of our own, open for reading and writing; who serves it in `server`. */
static int open_served(pid_t* server) {
  char path[600];
  const char* directory = own_place("held");
  if (unshare(CLONE_NEWNS) != 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0)
    cannot("no namespace of mounts");
  must(mkdir(directory, 0700) == 0, directory);
  *server = serve_file(directory, "file", "/proc/self/exe");
  if (*server < 0) cannot("no file systems in user space");
  snprintf(path, sizeof path, "%s/file", directory);
  const int file = open(path, O_RDWR | O_CLOEXEC);
  must(file >= 0, path);
  return file;
}

/* An exec closes the file while it holds exec_update_lock: whoever opens maps, auxv or mem waits. */
static void exec_closes_served(void) {
  pid_t server;
  const int file = open_served(&server);
  const pid_t target = fork();
  must(target >= 0, "fork");
  if (target == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    rest_us(20000);
    execl("/bin/true", "true", (char*)NULL);
    _exit(1);
  }
  close(file);
  must(kill(server, SERVED_STOP) == 0, "kill");
  rest_us(200000);
  ready_as(target);
  count_on();
}

/* A process that holds mmap_lock for ever (a mapping of such a file is replaced after it was written to)
 * is none of the targets: whoever enables a uprobe in a file that it maps waits for it in the kernel, and
 * with them each fork on the machine. */

/* The auxiliary vector that the kernel keeps. */
static void auxv_forged(void) {
  const uint64_t garbage[] = {AT_PHDR,
                              0xffff888000000000,
                              AT_PHNUM,
                              UINT64_MAX,
                              AT_PHENT,
                              56,
                              AT_BASE,
                              UINT64_MAX - 4095,
                              AT_ENTRY,
                              1,
                              AT_SYSINFO_EHDR,
                              8,
                              AT_RANDOM,
                              (uintptr_t)edge(1) - 16,
                              AT_PAGESZ,
                              0,
                              0,
                              0};
  if (prctl(PR_SET_MM, PR_SET_MM_AUXV, garbage, sizeof garbage, 0) != 0)
    cannot("the auxiliary vector may not be set");
}

/* Where the kernel says that stack, code and data are. */
static void places_forged(void) {
  char* memory = pages(4, PROT_READ | PROT_WRITE | PROT_EXEC);
  const int places[] = {PR_SET_MM_START_CODE, PR_SET_MM_END_CODE, PR_SET_MM_START_DATA,
                        PR_SET_MM_END_DATA, PR_SET_MM_START_STACK};
  int set = 0;
  for (size_t i = 0; i < sizeof places / sizeof *places; ++i)
    set += prctl(PR_SET_MM, places[i], memory + i * 8, 0, 0) == 0;
  if (set == 0) cannot("they may not be set");
}

/* Its program is a file in memory, whose name is no path. */
static void program_in_memory(void) {
  if (getenv("HOSTILE_AGAIN") == NULL) {
    setenv("HOSTILE_AGAIN", "1", 1);
    const int copy = memfd_create("program ) R 1\n\x1b[2J", 0);
    const int own = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
    char block[65536];
    for (ssize_t some; (some = read(own, block, sizeof block)) > 0;)
      must(write(copy, block, (size_t)some) == some, "write");
    char* const arguments[] = {(char*)"hostile_target", (char*)"program-in-memory", NULL};
    extern char** environ;
    fexecve(copy, arguments, environ);
    must(0, "fexecve");
  }
}

/* Its program is on a file system that was unmounted. */
static void program_unmounted(void) {
  const char* again = getenv("HOSTILE_AGAIN");
  if (again != NULL) {
    must(umount2(again, MNT_DETACH) == 0, "umount");
    return;
  }
  char directory[512], path[600];
  strcpy(directory, own_place("unmounted"));
  if (unshare(CLONE_NEWNS) != 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0)
    cannot("no namespace of mounts");
  must(mkdir(directory, 0700) == 0 && mount("none", directory, "tmpfs", 0, NULL) == 0, directory);
  snprintf(path, sizeof path, "%s/program", directory);
  const int own = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
  const int copy = open(path, O_CREAT | O_WRONLY, 0755);
  char block[65536];
  for (ssize_t some; (some = read(own, block, sizeof block)) > 0;)
    must(write(copy, block, (size_t)some) == some, "write");
  close(copy);
  setenv("HOSTILE_AGAIN", directory, 1);
  execl(path, path, "program-unmounted", NULL);
  must(0, path);
}

/* In its mounts, other files are where its own ones are mapped from. */
static void other_files_mounted(void) {
  if (unshare(CLONE_NEWNS) != 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0)
    cannot("no namespace of mounts");
  FILE* maps = fopen("/proc/self/maps", "r");
  char line[1024];
  int mounted = 0;
  while (maps != NULL && fgets(line, sizeof line, maps) != NULL) {
    char* path = strchr(line, '/');
    if (path == NULL) continue;
    path[strcspn(path, "\n")] = '\0';
    mounted += mount("/bin/ls", path, NULL, MS_BIND, NULL) == 0;
  }
  fclose(maps);
  if (mounted == 0) cannot("nothing can be mounted");
}

/* The directory that is its root is gone. */
static void root_gone(void) {
  char directory[512];
  strcpy(directory, own_place("root"));
  must(mkdir(directory, 0700) == 0, directory);
  const pid_t remover = fork();
  if (remover == 0) {
    rest_us(50000);
    _exit(rmdir(directory) == 0 ? 0 : 1);
  }
  must(chroot(directory) == 0 && chdir("/") == 0, "chroot");
  int status = 1;
  waitpid(remover, &status, 0);
  must(status == 0, "rmdir");
}

/* All that it can read, it can execute: each mapping looks like code. */
static void all_executable(void) {
  if (getenv("HOSTILE_AGAIN") == NULL) {
    setenv("HOSTILE_AGAIN", "1", 1);
    must(personality(READ_IMPLIES_EXEC | ADDR_NO_RANDOMIZE) >= 0, "personality");
    execl("/proc/self/exe", "hostile_target", "everything-executable", NULL);
    must(0, "execl");
  }
  for (int i = 0; i < 20000; ++i) {
    char* memory =
        mmap(NULL, page, PROT_READ | (i % 2 ? PROT_WRITE : 0), MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) break;
  }
}

/* One file mapped as code at thousands of places. */
static void one_file_everywhere(void) {
  const int file = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
  must(file >= 0, "/proc/self/exe");
  for (int i = 0; i < 10000; ++i)
    if (mmap(NULL, page, PROT_READ | PROT_EXEC, MAP_PRIVATE, file, i % 4 * page) == MAP_FAILED)
      break;
  close(file);
}

/* Frozen by its control group (version 2): it lives, and nothing of it runs. */
static void frozen(void) {
  char group[200], file[300];
  const pid_t target = fork();
  must(target >= 0, "fork");
  if (target == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    count_on();
  }
  const char* roots[] = {"/sys/fs/cgroup/unified", "/sys/fs/cgroup"};
  for (int i = 0; i < 2; ++i) {
    snprintf(group, sizeof group, "%s/hostile-%d", roots[i], (int)target);
    if (mkdir(group, 0755) != 0) continue;
    snprintf(file, sizeof file, "%s/cgroup.procs", group);
    FILE* members = fopen(file, "w");
    snprintf(file, sizeof file, "%s/cgroup.freeze", group);
    FILE* freeze = fopen(file, "w");
    if (members == NULL || freeze == NULL) {
      rmdir(group);
      continue;
    }
    fprintf(members, "%d\n", (int)target);
    const int in = fclose(members) == 0;
    fprintf(freeze, "1\n");
    if (fclose(freeze) == 0 && in) {
      rest_us(100000);
      ready_as(target);
      for (;;) syscall(SYS_pause);
    }
  }
  cannot("no control groups that freeze");
}

/* A thread whose system call another process is asked about, which says nothing. */
static void wait_for_notice(void* unused) {
  (void)unused;
  struct {
    unsigned short code;
    unsigned char jt, jf;
    unsigned k;
  } program[] = {{0x20, 0, 0, 0},
                 {0x15, 0, 1, SYS_getppid},
                 {0x06, 0, 0, 0x7fc00000},
                 {0x06, 0, 0, 0x7fff0000}};
  struct {
    unsigned short length;
    void* program;
  } filter = {4, program};
  prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
  syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_NEW_LISTENER, &filter);
  syscall(SYS_getppid);
  for (;;) rest_us(1000);
}

static void notified(void) {
  in_thread(wait_for_notice, NULL);
  rest_us(10000);
}

/* Threads that share no descriptors, directories or users with each other. */
static void live_apart(void* number) {
  unshare(CLONE_FILES | CLONE_FS);
  const long user = 60000 + (long)(intptr_t)number;
  syscall(SYS_setresuid, user, user, user);
  custom_labels_current_set = set_of_one(text("tenant"), text("apart"));
  for (;;) rest_us(1000);
}

static void apart(void) {
  for (intptr_t i = 0; i < 8; ++i) in_thread(live_apart, (void*)i);
  rest_us(10000);
}

/* Processes that share its memory and are none of its threads. */
static int live_in_memory(void* unused) {
  (void)unused;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  for (;;) syscall(SYS_pause);
  return 0;
}

static void memory_shared(void) {
  for (int i = 0; i < 20; ++i)
    clone(live_in_memory, pages(4, PROT_READ | PROT_WRITE) + 4 * page, CLONE_VM | SIGCHLD, NULL);
}

const struct trick held_tricks[] = {{"exec-closes-served", exec_closes_served},
                                    {"auxv-forged", auxv_forged},
                                    {"places-forged", places_forged},
                                    {"program-in-memory", program_in_memory},
                                    {"program-unmounted", program_unmounted},
                                    {"other-files-mounted", other_files_mounted},
                                    {"root-gone", root_gone},
                                    {"everything-executable", all_executable},
                                    {"one-file-everywhere", one_file_everywhere},
                                    {"frozen-control-group", frozen},
                                    {"seccomp-notified", notified},
                                    {"threads-apart", apart},
                                    {"memory-shared-by-processes", memory_shared},
                                    {NULL, NULL}};
