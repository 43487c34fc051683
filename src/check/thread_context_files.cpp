// Files that publish the OpenTelemetry thread context.
#include <elf.h>
#include <fmt/format.h>

#include "check/rules.hpp"
#include "check/slot_questions.hpp"

namespace vitrine::check {
namespace {

const SlotFacts& slot_of(const FileSubject& subject) {
  return subject.labels.thread_context;
}

Answer record_exported(const FileSubject& subject) {
  return slot_exported(subject, slot_of(subject));
}

Answer record_thread_local_slot(const FileSubject& subject) {
  return slot_thread_local(subject, slot_of(subject));
}

Answer record_bound(const FileSubject& subject) {
  return slot_bound(subject, slot_of(subject));
}

Answer record_reachable(const FileSubject& subject) {
  const SlotFacts& slot = slot_of(subject);
  if (!slot.exported) return does_not_apply("it is not exported");
  if (!slot.accesses.empty()) return holds(fmt::format("it is reached by {}", access_names(slot)));
  if (subject.program) return holds("it is at a fixed offset from the thread pointer (LE)");
  return fails("no relocation refers to it: no code of the library uses it");
}

Answer record_descriptor(const FileSubject& subject) {
  const SlotFacts& slot = slot_of(subject);
  if (!slot.exported) return does_not_apply("it is not exported");
  if (subject.program) return does_not_apply("it belongs to a program");
  if (!slot.accesses.empty() && slot.accesses.front() == Access::descriptor)
    return holds("it is reached by TLSDESC");
  return fails(fmt::format("it is reached by {}", access_names(slot)));
}

constexpr Rule<FileSubject> thread_context_table[] = {
    {{"otep-4947.slot-exported", otep_4947, required,
      "otel_thread_ctx_v1 is a dynamic symbol of the file, even of a static program",
      "OTEP-4947: TLS symbol", "export it: -Wl,--export-dynamic-symbol=otel_thread_ctx_v1", "all"},
     record_exported},
    {{"otep-4947.slot-thread-local", otep_4947, required,
      "The slot is a thread-local pointer of 8 bytes", "OTEP-4947: TLS symbol",
      "declare it as the specification does", "all"},
     record_thread_local_slot},
    {{"otep-4947.slot-visible", otep_4947, required,
      "The slot is bound globally or weakly, with default or protected visibility",
      "OTEP-4947: TLS symbol", "give it __attribute__((visibility(\"default\")))", "all"},
     record_bound},
    {{"otep-4947.tls-model", otep_4947, required,
      "The slot is reached by TLSDESC, GD (DTPMOD and DTPOFF), IE or LE",
      "OTEP-4947: TLS access models that readers support",
      "use the variable in code of the library", "all"},
     record_reachable},
    {{"otep-4947.tlsdesc", otep_4947, Weight::advised,
      "A library's slot is reached through TLS descriptors (TLSDESC)",
      "no specification: readers look for nothing else",
      "compile with -ftls-model=global-dynamic and -mtls-dialect=gnu2 (x86-64) or desc (aarch64)",
      "context-reader (without --tolerate-gd-tls), OpenTelemetry eBPF profiler"},
     record_descriptor},
};

}  // namespace

std::span<const Rule<FileSubject>> thread_context_file_rules() {
  return thread_context_table;
}

}  // namespace vitrine::check
