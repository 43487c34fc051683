// Files that publish custom labels, version 0 or 1: symbols, version, access, name.

#include <elf.h>
#include <fmt/format.h>

#include "abi/custom_labels.hpp"
#include "check/file_facts.hpp"
#include "check/rule.hpp"

namespace vitrine::check {
namespace {

const char* binding_name(std::uint8_t binding) {
  switch (binding) {
    case STB_LOCAL:
      return "local";
    case STB_GLOBAL:
      return "global";
    case STB_WEAK:
      return "weak";
    case STB_GNU_UNIQUE:
      return "unique";
    default:
      return "of an unknown binding";
  }
}

const char* visibility_name(std::uint8_t visibility) {
  switch (visibility) {
    case STV_INTERNAL:
      return "internal";
    case STV_HIDDEN:
      return "hidden";
    case STV_PROTECTED:
      return "protected";
    default:
      return "default";
  }
}

/// "TLSDESC and GD"; "none".
std::string access_names(const SlotFacts& slot) {
  std::string text;
  for (const Access access : slot.accesses)
    text += (text.empty() ? "" : " and ") + std::string(name(access));
  return text.empty() ? "none" : text;
}

/// Of a symbol that is in .symtab alone. No option of the linker exports one that a version script or --exclude-libs
/// has made local.
std::string how_to_export(std::string_view name, const elf::Symbol& symbol) {
  auto option =
      fmt::format("give it default visibility, and link with -Wl,--export-dynamic-symbol={}", name);
  if (symbol.binding != STB_LOCAL) return option;
  return option +
         "; list it under global: in the version script, if there is one, and leave its archive "
         "out of "
         "--exclude-libs";
}

Outcome slot_exported(const FileSubject& subject, const SlotFacts& slot) {
  const LabelFacts& labels = subject.labels;
  if (subject.relocatable) return does_not_apply("it is an object, not linked yet");
  if (!labels.unsupported.empty())
    return fails(labels.unsupported, "the format is for 64-bit x86-64 and aarch64");
  if (slot.exported) return holds(fmt::format("{} is in .dynsym", slot.name));
  if (slot.inside)
    return fails(
        fmt::format(
            "{} is in .symtab only, {}: strip removes it, and most readers do not search there",
            slot.name,
            labels.exports ? fmt::format("{} and {}", binding_name(slot.inside->binding),
                                         visibility_name(slot.inside->visibility))
                           : "for the program is static"),
        labels.exports
            ? how_to_export(slot.name, *slot.inside)
            : fmt::format("link it -static-pie with -Wl,--export-dynamic-symbol={}", slot.name));
  if (!labels.broken.empty()) return undecided(labels.broken);
  if (subject.nameless())
    return fails(
        "it is static and stripped: it has no symbol table",
        fmt::format(
            "link it -static-pie with -Wl,--export-dynamic-symbol={}: strip keeps that symbol",
            slot.name));
  return fails(fmt::format("the file does not define {}", slot.name));
}

Outcome slot_thread_local(const FileSubject&, const SlotFacts& slot) {
  const elf::Symbol* symbol = slot.any();
  if (symbol == nullptr) return does_not_apply("the file has no slot");
  if (symbol->type != STT_TLS)
    return fails(
        fmt::format("{} is not a thread-local variable (symbol type {})", slot.name, symbol->type),
        "declare it __thread or thread_local");
  if (symbol->size != slot.bytes)
    return fails(fmt::format("{} has {} bytes, not {}", slot.name, symbol->size, slot.bytes));
  return holds(fmt::format("{} is thread-local, of {} bytes", slot.name, slot.bytes));
}

Outcome slot_bound(const FileSubject&, const SlotFacts& slot) {
  if (!slot.exported) return does_not_apply("it is not exported");
  const bool seen =
      slot.exported->binding != STB_LOCAL &&
      (slot.exported->visibility == STV_DEFAULT || slot.exported->visibility == STV_PROTECTED);
  auto text =
      fmt::format("{} is {}, its visibility {}", slot.name, binding_name(slot.exported->binding),
                  visibility_name(slot.exported->visibility));
  return seen ? holds(std::move(text)) : fails(std::move(text));
}

constexpr std::string_view version_name = abi::custom_labels::version_symbol;

bool has_slot(const FileSubject& subject) {
  return subject.labels.slot().any() != nullptr;
}

Outcome exported(const FileSubject& subject) {
  return slot_exported(subject, subject.labels.slot());
}

Outcome thread_local_slot(const FileSubject& subject) {
  return slot_thread_local(subject, subject.labels.slot());
}

Outcome bound(const FileSubject& subject) {
  return slot_bound(subject, subject.labels.slot());
}

Outcome version_exported(const FileSubject& subject) {
  const VersionFacts& version = subject.labels.version;
  if (version.exported) return holds(fmt::format("{} is in .dynsym", version_name));
  if (!has_slot(subject)) return does_not_apply("the file has no slot");
  if (version.inside)
    return fails(fmt::format("{} is in .symtab alone: it is not exported", version_name),
                 how_to_export(version_name, *version.inside));
  return fails(fmt::format("the file that has the slot does not define {}", version_name));
}

Outcome version_object(const FileSubject& subject) {
  const elf::Symbol* symbol = subject.labels.version.any();
  if (symbol == nullptr) return does_not_apply("the file has no version");
  constexpr std::uint64_t bytes = abi::custom_labels::version_size;
  if (symbol->type == STT_OBJECT && symbol->size == bytes) return holds("an object of 4 bytes");
  return fails(symbol->type != STT_OBJECT
                   ? fmt::format("it is not an object (symbol type {})", symbol->type)
                   : fmt::format("it has {} bytes", symbol->size));
}

Outcome version_value(const FileSubject& subject) {
  const VersionFacts& version = subject.labels.version;
  if (version.any() == nullptr) return does_not_apply("the file has no version");
  if (!has_slot(subject)) return does_not_apply("the file has no slot that determines the version");
  if (version.relocated)
    return undecided("a relocation writes it when the program starts",
                     "check the running process: its value is in memory then");
  if (!version.value) return fails("its address is outside the loaded segments of the file");
  const LabelFacts& labels = subject.labels;
  if (labels.v0.there() && labels.v1.there() && !labels.asked_v0)
    return fails(fmt::format("it is {}, and the file has the slots of both versions, {} and {}",
                             *version.value, labels.v0.name, labels.v1.name),
                 "define the slot of one version in a file");
  const std::uint32_t wanted = labels.is_v0() ? 0 : 1;
  return *version.value == wanted
             ? holds(fmt::format("it is {}", wanted))
             : fails(fmt::format("it is {}, and {} is of version {}", *version.value,
                                 subject.labels.slot().name, wanted));
}

Outcome version_constant(const FileSubject& subject) {
  const VersionFacts& version = subject.labels.version;
  if (version.any() == nullptr) return does_not_apply("the file has no version");
  return version.writable ? fails("it is in memory that the program can write")
                          : holds("it is in read-only memory");
}

// A file's offset and its address differ in most segments but the first. In a program that is not
// position-independent (ET_EXEC) they always differ: its first segment is at 0x400000 or so.
Outcome version_at_its_offset(const FileSubject& subject) {
  const VersionFacts& version = subject.labels.version;
  if (version.any() == nullptr) return does_not_apply("the file has no version");
  const std::uint64_t address = version.any()->value;
  if (!version.file_offset)
    return fails(fmt::format("it is at {} in .bss: the file has no bytes for it", hex(address)));
  if (*version.file_offset == address) return holds(fmt::format("both are {}", hex(address)));
  const auto text = fmt::format("its address is {}, its offset in the file {}", hex(address),
                                hex(*version.file_offset));
  if (subject.elf.type != ET_EXEC) return fails(text);
  return fails(
      text + ": the program has fixed addresses (ET_EXEC)",
      "link it with -pie, a static program with -static-pie, and declare the version const");
}

Outcome descriptor(const FileSubject& subject) {
  const SlotFacts& slot = subject.labels.slot();
  if (!slot.exported) return does_not_apply("it is not exported");
  if (subject.program)
    return does_not_apply("a program's own slot is at a fixed offset from the thread pointer");
  if (!slot.accesses.empty() && slot.accesses.front() == Access::descriptor)
    return holds("it is reached by TLSDESC");
  if (slot.accesses.empty())
    return fails(
        "no relocation refers to it: no code of the library uses it",
        "use the variable in code of the library that is compiled for TLS descriptors; a "
        "library with vitrine's labels links libcustomlabels.so, no copy of the publisher");
  return fails(
      fmt::format("it is reached by {} only", access_names(slot)),
      subject.elf.machine == EM_X86_64
          ? "compile with gcc -ftls-model=global-dynamic -mtls-dialect=gnu2 -fPIC, or clang "
            "18 and later"
          : "compile with -ftls-model=global-dynamic -mtls-dialect=desc -fPIC");
}

/// Readers that look for the slot's symbol among the relocations.
Outcome descriptor_named(const FileSubject& subject, const SlotFacts& slot) {
  if (!slot.exported) return does_not_apply("it is not exported");
  if (subject.program)
    return does_not_apply("a program's own slot is at a fixed offset from the thread pointer");
  if (slot.accesses.empty() || slot.accesses.front() != Access::descriptor)
    return does_not_apply("it is not reached by TLSDESC");
  if (slot.named_descriptor) return holds("the relocation has the symbol");
  return fails("the relocation has an offset, and no symbol");
}

Outcome slot_descriptor_named(const FileSubject& subject) {
  return descriptor_named(subject, subject.labels.slot());
}

Outcome file_named(const FileSubject& subject) {
  if (subject.program) return does_not_apply("it is a program");
  if (!has_slot(subject) && subject.labels.version.any() == nullptr)
    return does_not_apply("the file has no slot");
  const bool v0 = subject.labels.is_v0();
  const bool good =
      v0 ? is_v0_library_name(subject.file_name) : is_v1_library_name(subject.file_name);
  return good ? holds(fmt::format("its name is {}", subject.file_name))
              : fails(fmt::format("its name is {}", subject.file_name));
}

// Where the block's size is no multiple of its alignment, the linkers leave a gap that some readers
// do not know of (docs/formats/tls.md, "Executables").
Outcome no_gap(const FileSubject& subject) {
  const auto& block = subject.labels.block;
  if (!subject.program || !has_slot(subject) || !block)
    return does_not_apply("the rule applies to slots of programs");
  const bool gap = subject.elf.machine == EM_X86_64 ? block->size % block->alignment != 0
                                                    : block->alignment > 16;
  const auto text = fmt::format("the thread-local block has {} bytes, aligned to {}", block->size,
                                block->alignment);
  return gap ? fails(text) : holds(text);
}

constexpr Profiles v0_and_v1 = labels_profiles;
constexpr std::string_view document = "custom-labels-v0.md, custom-labels-v1.md: Exposed symbols";
constexpr std::string_view ebpf_readers = "Parca's eBPF profiler, context-reader";
/// For lld, a symbol that no other module can replace is known by its offset.
constexpr std::string_view named_by_linker =
    "link with ld.bfd, gold or mold; with lld, without -Bsymbolic and with default visibility";

constexpr Rule<FileSubject> label_file_table[] = {
    {{"labels.slot-exported", v0_and_v1, required, "The slot is a dynamic symbol of the file",
      document,
      "define custom_labels_current_set (v1) in a library, or export it from the program "
      "with -Wl,--export-dynamic-symbol",
      every_reader},
     exported},
    {{"labels.slot-thread-local", v0_and_v1, required,
      "The slot is a thread-local variable of its format's size: v0 16 bytes, v1 8", document,
      "declare it as the specification does", every_reader},
     thread_local_slot},
    {{"labels.slot-visible", v0_and_v1, required,
      "The slot is bound globally or weakly, with default or protected visibility", document,
      "give it __attribute__((visibility(\"default\")))", every_reader},
     bound},
    {{"labels.version-exported", v0_and_v1, required,
      "custom_labels_abi_version is a dynamic symbol of the same file", document,
      "export it like the slot, from the same file", every_reader},
     version_exported},
    {{"labels.version-object", v0_and_v1, required, "The version is a data object of 4 bytes",
      document, "declare it uint32_t", every_reader},
     version_object},
    {{"labels.version-value", v0_and_v1, required, "The version matches the slot: 0 or 1", document,
      "set custom_labels_abi_version to the version of the slot in the file", every_reader},
     version_value},
    {{"labels.version-constant", v0_and_v1, advised,
      "The version is constant: in memory that is read-only at run time",
      "custom-labels-v1.md: has the constant value 1", "declare it const", ""},
     version_constant},
    {{"labels.version-at-its-offset",
      {Profile::custom_labels_v1},
      advised,
      "The version's offset in the file equals its address",
      "no specification: a reader requires it",
      "declare it const: ld.bfd puts it in .rodata there; lld does not",
      "context-reader"},
     version_at_its_offset},
    {{"labels.tlsdesc", v0_and_v1, required,
      "A library's slot is reached through TLS descriptors (TLSDESC)", document,
      "compile the library for TLS descriptors", ebpf_readers},
     descriptor},
    {{"labels.tlsdesc-symbol", v0_and_v1, advised,
      "The relocation of a library's TLS descriptor has the symbol of the slot",
      "no specification: a reader looks for the symbol", named_by_linker, "Parca's eBPF profiler"},
     slot_descriptor_named},
    {{"labels.file-name", v0_and_v1, required,
      "The file name of a library is libcustomlabels*.so (v1 also customlabels.node)", document,
      "rename the file itself: a symbolic link of that name does not help, nor does "
      "libcustomlabels.so.1",
      ebpf_readers},
     file_named},
    {{"labels.no-gap", v0_and_v1, advised,
      "A program's thread-local block fills its alignment, so that the slot's offset needs no "
      "rounding",
      "no specification: a reader does not round",
      "align no thread-local variable beyond 8 bytes, or pad the block", "context-reader"},
     no_gap},
};

}  // namespace

std::span<const Rule<FileSubject>> label_file_rules() {
  return label_file_table;
}

namespace {

// Files that publish the OpenTelemetry thread context.

const SlotFacts& slot_of(const FileSubject& subject) {
  return subject.labels.thread_context;
}

Outcome record_exported(const FileSubject& subject) {
  return slot_exported(subject, slot_of(subject));
}

Outcome record_thread_local_slot(const FileSubject& subject) {
  return slot_thread_local(subject, slot_of(subject));
}

Outcome record_bound(const FileSubject& subject) {
  return slot_bound(subject, slot_of(subject));
}

Outcome record_reachable(const FileSubject& subject) {
  const SlotFacts& slot = slot_of(subject);
  if (!slot.exported) return does_not_apply("it is not exported");
  if (!slot.accesses.empty()) return holds(fmt::format("it is reached by {}", access_names(slot)));
  if (subject.program) return holds("it is at a fixed offset from the thread pointer (LE)");
  return fails("no relocation refers to it: no code of the library uses it");
}

Outcome record_descriptor(const FileSubject& subject) {
  const SlotFacts& slot = slot_of(subject);
  if (!slot.exported) return does_not_apply("it is not exported");
  if (subject.program) return does_not_apply("it belongs to a program");
  if (!slot.accesses.empty() && slot.accesses.front() == Access::descriptor)
    return holds("it is reached by TLSDESC");
  return fails(fmt::format("it is reached by {}", access_names(slot)));
}

Outcome record_descriptor_named(const FileSubject& subject) {
  return descriptor_named(subject, slot_of(subject));
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
    {{"otep-4947.tlsdesc-symbol", otep_4947, Weight::advised,
      "The relocation of a library's TLS descriptor has the symbol of the slot",
      "no specification: a reader looks for the symbol", named_by_linker,
      "OpenTelemetry eBPF profiler"},
     record_descriptor_named},
};

}  // namespace

std::span<const Rule<FileSubject>> thread_context_file_rules() {
  return thread_context_table;
}

}  // namespace vitrine::check
