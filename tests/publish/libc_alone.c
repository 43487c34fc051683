/* Publishes tenant=acme and, while a callback runs, inner=deep, by the library: linked, or loaded from
 * argv[1]. Says "ready", or what failed. */
#include <customlabels.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#ifdef BY_DLOPEN
#include <dlfcn.h>
static void* library;
#define CALL(name) ((__typeof__(&(name)))dlsym(library, #name))
#else
#define CALL(name) name
#endif

static custom_labels_string_t text(const char* from) {
  custom_labels_string_t string = {strlen(from), (const unsigned char*)from};
  return string;
}

static int say(const char* what) {
  puts(what);
  fflush(stdout);
  return 1;
}

static void* wait_for_reader(void* data) {
  say("ready");
  pause();
  return data;
}

int main(int argc, char** argv) {
  if (argc < 2) return 2;
#ifdef BY_DLOPEN
  library = dlopen(argv[1], RTLD_NOW);
  if (library == NULL) {
    printf("dlopen: %s\n", dlerror());
    return 1;
  }
#else
  (void)argv;
#endif
  custom_labels_labelset_t* set = CALL(custom_labels_new)(4);
  if (set == NULL || CALL(custom_labels_set)(set, text("tenant"), text("acme"), NULL) != 0)
    return say("no set could be made");
  CALL(custom_labels_replace)(set);
  custom_labels_label_t inner = {text("inner"), text("deep")};
  void* out = NULL;
  if (CALL(custom_labels_run_with)(set, &inner, 1, wait_for_reader, NULL, &out) != 0)
    return say("the callback was not called");
  return 0;
}
