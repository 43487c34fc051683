#define _GNU_SOURCE
#include "support/served_file.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fuse.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

enum { node_of_file = 2, request_bytes = 256 * 1024, write_bytes = 128 * 1024 };

static volatile sig_atomic_t stopped, reads_stopped;

static void stop(int number) {
  if (number == SERVED_STOP) stopped = 1;
  reads_stopped = 1;
}

struct served {
  int device;
  const char* name;
  const char* content;
  size_t size;
};

static void answer(const struct served* served, const struct fuse_in_header* request, int error,
                   const void* bytes, size_t size) {
  struct fuse_out_header head = {(uint32_t)(sizeof head + size), error, request->unique};
  struct iovec parts[] = {{&head, sizeof head}, {(void*)bytes, size}};
  if (writev(served->device, parts, size == 0 ? 1 : 2) < 0 && errno == ENODEV) _exit(0);
}

static struct fuse_attr attributes(const struct served* served, uint64_t node) {
  struct fuse_attr attr = {.ino = node, .nlink = 1, .blksize = 4096};
  attr.mode = node == node_of_file ? S_IFREG | 0755 : S_IFDIR | 0755;
  attr.size = node == node_of_file ? served->size : 0;
  return attr;
}

static void serve(const struct served* served, const struct fuse_in_header* request,
                  const char* body) {
  switch (request->opcode) {
    case FUSE_INIT: {
      const struct fuse_init_in* in = (const void*)body;
      struct fuse_init_out out = {
          .major = FUSE_KERNEL_VERSION,
          .minor = in->minor < FUSE_KERNEL_MINOR_VERSION ? in->minor : FUSE_KERNEL_MINOR_VERSION,
          .max_readahead = in->max_readahead,
          .max_background = 16,
          .congestion_threshold = 12,
          .max_write = write_bytes,
          .time_gran = 1};
      return answer(served, request, 0, &out, sizeof out);
    }
    case FUSE_LOOKUP: {
      struct fuse_entry_out out = {.nodeid = node_of_file,
                                   .attr = attributes(served, node_of_file)};
      if (strcmp(body, served->name) != 0) return answer(served, request, -ENOENT, NULL, 0);
      return answer(served, request, 0, &out, sizeof out);
    }
    case FUSE_GETATTR: {
      struct fuse_attr_out out = {.attr = attributes(served, request->nodeid)};
      return answer(served, request, 0, &out, sizeof out);
    }
    case FUSE_OPEN:
    case FUSE_OPENDIR: {
      struct fuse_open_out out = {0}; /* nothing is kept from one open to the next */
      return answer(served, request, 0, &out, sizeof out);
    }
    case FUSE_READ: {
      const struct fuse_read_in* in = (const void*)body;
      const size_t at = in->offset < served->size ? in->offset : served->size;
      const size_t rest = served->size - at;
      if (reads_stopped) return;
      return answer(served, request, 0, served->content + at, rest < in->size ? rest : in->size);
    }
    case FUSE_STATFS: {
      struct fuse_statfs_out out = {.st = {.bsize = 4096, .namelen = 255}};
      return answer(served, request, 0, &out, sizeof out);
    }
    case FUSE_FLUSH:
    case FUSE_RELEASE:
    case FUSE_RELEASEDIR:
      return answer(served, request, 0, NULL, 0);
    case FUSE_FORGET:
    case FUSE_BATCH_FORGET:
    case FUSE_INTERRUPT:
      return;
    default:
      return answer(served, request, -ENOSYS, NULL, 0);
  }
}

static void serve_for_ever(const struct served* served) {
  struct sigaction action = {.sa_handler = stop};
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, NULL);
  sigaction(SERVED_STOP, &action, NULL);
  sigaction(SERVED_STOP_READS, &action, NULL);
  char* bytes = malloc(request_bytes);
  while (bytes != NULL) {
    const ssize_t size = read(served->device, bytes, request_bytes);
    if (size < 0 && (errno == EINTR || errno == EAGAIN || errno == ENOENT)) continue;
    if (size < (ssize_t)sizeof(struct fuse_in_header)) break;
    /* What has been taken, and is not answered, cannot even be given up by who is killed. */
    if (!stopped) serve(served, (const void*)bytes, bytes + sizeof(struct fuse_in_header));
  }
  _exit(0);
}

static char* content_of(const char* path, size_t* size) {
  struct stat status;
  const int file = open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0 || fstat(file, &status) != 0) return NULL;
  *size = (size_t)status.st_size;
  char* bytes = malloc(*size);
  if (bytes != NULL && read(file, bytes, *size) != (ssize_t)*size) bytes = NULL;
  close(file);
  return bytes;
}

pid_t serve_file(const char* directory, const char* name, const char* from) {
  struct served served = {.name = name};
  served.content = content_of(from, &served.size);
  if (served.content == NULL) return -ENOENT;
  served.device = open("/dev/fuse", O_RDWR | O_CLOEXEC);
  if (served.device < 0) return -errno;
  char options[128];
  snprintf(options, sizeof options, "fd=%d,rootmode=40000,user_id=0,group_id=0,allow_other",
           served.device);
  if (mount("served", directory, "fuse", MS_NOSUID | MS_NODEV, options) != 0) return -errno;
  const pid_t child = fork();
  if (child == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    serve_for_ever(&served);
  }
  const int error = errno;
  close(served.device);
  free((void*)served.content);
  return child < 0 ? -error : child;
}
