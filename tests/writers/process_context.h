/* Publishes a process context (OTEP-4719) that describes the thread records of a format. */
#ifndef VITRINE_TESTS_PROCESS_CONTEXT_H
#define VITRINE_TESTS_PROCESS_CONTEXT_H

#include <stddef.h>

/* Does nothing for a format that has no need of one, and the second time. 0, or -1. */
int publish_process_context(const char* format, const char* const* keys, size_t count);

/* The same with resource attributes of any text in place of service.name. */
struct context_attribute {
  const char* key;
  const char* value;
};
int publish_process_context_with(const char* format, const char* const* keys, size_t count,
                                 const struct context_attribute* attributes,
                                 size_t attribute_count);

#endif
