/* A program for the C library of the ABI, as it was written before vitrine: built as C, linked to
 * libcustomlabels.so. Prints what it finds; c_interface_test.cpp compares. */
#include <customlabels.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static custom_labels_string_t string(const char* text) {
  custom_labels_string_t s = {strlen(text), (const unsigned char*)text};
  return s;
}

static void show(const char* what, custom_labels_labelset_t* set) {
  custom_labels_string_t text = {0, NULL};
  if (custom_labels_debug_string(set, &text) != 0) exit(1);
  printf("%s %.*s\n", what, (int)text.len, (const char*)text.buf);
  free((void*)text.buf);
}

static void* inside(void* data) {
  show("inside", custom_labels_current_set);
  return data;
}

int main(void) {
  custom_labels_labelset_t* set = custom_labels_new(0);
  custom_labels_labelset_t* before = custom_labels_replace(set);
  printf("before %s\n", before == NULL ? "none" : "some");
  custom_labels_set(custom_labels_current(), string("tenant"), string("acme"), NULL);
  show("set", set);
  custom_labels_string_t old = {0, NULL};
  custom_labels_set(set, string("tenant"), string("umbrella"), &old);
  printf("old %.*s\n", (int)old.len, (const char*)old.buf);
  free((void*)old.buf);
  custom_labels_label_t route = {string("route"), string("/cart")};
  int token = 0;
  void* out = NULL;
  int error = custom_labels_run_with(set, &route, 1, inside, &token, &out);
  printf("run_with %d %s\n", error, out == &token ? "same" : "different");
  show("after", set);
  custom_labels_labelset_t* copy = custom_labels_clone(set);
  custom_labels_delete(set, string("tenant"));
  show("deleted", set);
  show("copy", copy);
  printf("count %zu %zu\n", custom_labels_count(set), custom_labels_count(copy));
  const custom_labels_label_t* found = custom_labels_get(copy, string("tenant"));
  printf("get %.*s\n", (int)found->value.len, (const char*)found->value.buf);
  custom_labels_careful_set(set, string("a"), string("b"), NULL);
  custom_labels_careful_delete(set, string("a"));
  show("careful", set);
  printf("back %s\n", custom_labels_replace(before) == set ? "same" : "different");
  custom_labels_free(set);
  custom_labels_free(copy);
  printf("version %u\n", custom_labels_abi_version);
  return 0;
}
