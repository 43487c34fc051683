/* Programs and libraries whose files are gone, changed, or called what no file should be. The
 * directory HOSTILE_DIRECTORY is ours; HOSTILE_LIBRARIES has libraries to load. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <unistd.h>

#include "support/served_file.h"
#include "trick.h"

static const char* in_directory(const char* name) {
  static char path[512];
  const char* directory = getenv("HOSTILE_DIRECTORY");
  must(directory != NULL, "HOSTILE_DIRECTORY");
  snprintf(path, sizeof path, "%s/%d-%s", directory, getpid(), name);
  return path;
}

static void copy(const char* from, const char* to) {
  const int in = open(from, O_RDONLY | O_CLOEXEC);
  const int out = open(to, O_CREAT | O_WRONLY | O_TRUNC | O_CLOEXEC, 0755);
  struct stat size;
  must(in >= 0 && out >= 0 && fstat(in, &size) == 0, from);
  for (off_t done = 0; done < size.st_size;) {
    const ssize_t some = sendfile(out, in, NULL, (size_t)(size.st_size - done));
    must(some > 0, "sendfile");
    done += some;
  }
  close(in);
  close(out);
}

/* The trick is played again by a copy of this program, of that name. */
static int is_copy(const char* trick, const char* name) {
  if (getenv("HOSTILE_AGAIN") != NULL) return 1;
  setenv("HOSTILE_AGAIN", "1", 1);
  const char* path = in_directory(name);
  copy("/proc/self/exe", path);
  execl(path, path, trick, NULL);
  must(0, path);
  return 0;
}

static void deleted(void) {
  if (is_copy("program-deleted", "deleted")) unlink(in_directory("deleted"));
}

static void replaced(void) {
  if (!is_copy("program-replaced", "replaced")) return;
  unlink(in_directory("replaced"));
  copy("/bin/ls", in_directory("replaced"));
}

static void replaced_by_fifo(void) {
  if (!is_copy("program-replaced-by-fifo", "fifo")) return;
  unlink(in_directory("fifo"));
  must(mkfifo(in_directory("fifo"), 0700) == 0, "mkfifo");
}

static void odd_path(void) {
  is_copy("program-path-odd",
          "a\nb\n7fff0000-7fffffff r-xp 00000000 00:00 0 [vdso] \x1b[2J (deleted)");
}

static const char* library(const char* name) {
  static char path[512];
  const char* directory = getenv("HOSTILE_LIBRARIES");
  must(directory != NULL, "HOSTILE_LIBRARIES");
  snprintf(path, sizeof path, "%s/%s", directory, name);
  return path;
}

/* The file under a library that nobody executes: emptied, filled with garbage, whole, in turn. */
static void rewrite(void* path) {
  const int file = open(path, O_RDWR | O_CLOEXEC);
  struct stat size;
  must(file >= 0 && fstat(file, &size) == 0, path);
  char* whole = malloc((size_t)size.st_size);
  must(whole != NULL && pread(file, whole, (size_t)size.st_size, 0) == size.st_size, path);
  char* other = malloc((size_t)size.st_size);
  must(other != NULL, "malloc");
  for (unsigned turn = 0;; ++turn) {
    memcpy(other, whole, (size_t)size.st_size);
    for (off_t i = turn % 61; i < size.st_size; i += 61) other[i] = (char)turn;
    must(pwrite(file, other, (size_t)size.st_size, 0) > 0, "pwrite");
    must(ftruncate(file, turn % 3 ? size.st_size / 2 : 0) == 0, "ftruncate");
    must(pwrite(file, whole, (size_t)size.st_size, 0) > 0, "pwrite");
  }
}

static void rewritten(void) {
  static char path[512];
  strcpy(path, in_directory("rewritten.so"));
  copy(library("libhostile_probes.so"), path);
  must(dlopen(path, RTLD_NOW) != NULL, dlerror());
  in_thread(rewrite, path);
}

/* As many mappings as a process may have. */
static void many_mappings(void) {
  enum { most = 64000 };
  char* memory = pages(most, PROT_READ);
  for (size_t i = 0; i < most; i += 2)
    if (mprotect(memory + i * page, page, PROT_READ | PROT_WRITE) != 0) break;
}

/* One library a thousand times, under as many names: each is a file of its own. */
static void many_modules(void) {
  for (int i = 0; i < 300; ++i) {
    char name[40];
    snprintf(name, sizeof name, "module-%d.so", i);
    const char* path = in_directory(name);
    copy(library("libhostile_probes.so"), path);
    must(dlopen(path, RTLD_NOW) != NULL, dlerror());
    unlink(path);
  }
}

static void reload(void* path) {
  for (;;) {
    void* loaded = dlopen(path, RTLD_NOW);
    if (loaded != NULL) dlclose(loaded);
  }
}

static void reloaded(void) {
  static char path[512];
  strcpy(path, library("libhostile_probes.so"));
  in_thread(reload, path);
}

/* What is executed of a file whose server will stop: all of it is to be there before. */
static void touch_mapped(const char* path) {
  FILE* maps = fopen("/proc/self/maps", "r");
  char line[1024];
  unsigned long start, end;
  char rights[5];
  must(maps != NULL, "/proc/self/maps");
  while (fgets(line, sizeof line, maps) != NULL) {
    line[strcspn(line, "\n")] = '\0';
    if (sscanf(line, "%lx-%lx %4s", &start, &end, rights) != 3 || rights[0] != 'r' ||
        strstr(line, path) == NULL)
      continue;
    for (volatile const char* at = (const char*)start; at < (const char*)end; at += page) (void)*at;
  }
  fclose(maps);
}

static const char* mount_served(const char* name, const char* from, pid_t* server) {
  static char path[512];
  const char* directory = in_directory("served");
  if (unshare(CLONE_NEWNS) != 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0)
    cannot("no namespace of mounts");
  must(mkdir(directory, 0700) == 0, directory);
  *server = serve_file(directory, name, from);
  if (*server < 0) cannot("no file systems in user space");
  snprintf(path, sizeof path, "%s/%s", directory, name);
  return path;
}

/* Who opens a file of the library's file system, or looks it up, waits for ever. */
static void library_served(void) {
  pid_t server;
  const char* path = mount_served("served.so", library("libhostile_probes.so"), &server);
  must(dlopen(path, RTLD_NOW) != NULL, "dlopen");
  touch_mapped(path);
  must(kill(server, SERVED_STOP) == 0, "kill");
}

static void library_half_served(void) {
  pid_t server;
  const char* path = mount_served("served.so", library("libhostile_probes.so"), &server);
  must(dlopen(path, RTLD_NOW) != NULL, "dlopen");
  must(kill(server, SERVED_STOP_READS) == 0, "kill");
}

static void program_served(void) {
  const char* again = getenv("HOSTILE_AGAIN");
  if (again == NULL) {
    pid_t server;
    char number[20];
    const char* path = mount_served("served", "/proc/self/exe", &server);
    snprintf(number, sizeof number, "%d", (int)server);
    setenv("HOSTILE_AGAIN", number, 1);
    execl(path, path, "program-served-by-nobody", NULL);
    must(0, path);
  }
  touch_mapped("/served");
  must(kill(atoi(again), SERVED_STOP) == 0, "kill");
}

static void spin(void* function) {
  void (*const turn)(uint64_t) = (void (*)(uint64_t))function;
  for (;;) {
    turn(1000000);
    rest_us(20000);
  }
}

/* Ten libraries that run, and whose functions take long to name. */
static void stalling_names(void) {
  for (int i = 0; i < 10; ++i) {
    char name[40];
    snprintf(name, sizeof name, "names-%d.so", i);
    const char* path = in_directory(name);
    copy(library("libhostile_names.so"), path);
    void* loaded = dlopen(path, RTLD_NOW);
    must(loaded != NULL, dlerror());
    in_thread(spin, dlsym(loaded, "hostile_spin"));
    unlink(path);
  }
}

const struct trick file_tricks[] = {{"program-deleted", deleted},
                                    {"program-replaced", replaced},
                                    {"program-replaced-by-fifo", replaced_by_fifo},
                                    {"program-path-odd", odd_path},
                                    {"library-rewritten", rewritten},
                                    {"library-reloaded", reloaded},
                                    {"library-served-by-nobody", library_served},
                                    {"library-reads-never-end", library_half_served},
                                    {"program-served-by-nobody", program_served},
                                    {"mappings-many", many_mappings},
                                    {"modules-many", many_modules},
                                    {"names-stall", stalling_names},
                                    {NULL, NULL}};
