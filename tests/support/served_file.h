/* A file system of one file (FUSE), whose server can stop answering. */
#ifndef VITRINE_TESTS_SUPPORT_SERVED_FILE_H
#define VITRINE_TESTS_SUPPORT_SERVED_FILE_H

#include <signal.h>
#include <sys/types.h>

#ifdef __cplusplus
extern "C" {
#endif

enum {
  SERVED_STOP = SIGUSR1,      /* sent to the server: it answers nothing any more */
  SERVED_STOP_READS = SIGUSR2 /* it answers no read of the file any more */
};

/* Mounts it at `directory`: a file `name` with the content of the file `from`. A child of ours serves
 * it and ends with us; at its end whoever waits for an answer gets an error. Nothing that the kernel
 * learns of it is good for longer than the call. Returns the child, or -errno. */
pid_t serve_file(const char* directory, const char* name, const char* from);

#ifdef __cplusplus
}
#endif
#endif
