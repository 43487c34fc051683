// Files that publish custom labels, version 0 or 1: symbols, version, access, name.
#include <elf.h>
#include <fmt/format.h>

#include "abi/custom_labels.hpp"
#include "check/rules.hpp"
#include "check/slot_questions.hpp"

namespace vitrine::check {
namespace {

constexpr std::string_view version_name = abi::custom_labels::version_symbol;

bool has_slot(const FileSubject& subject) {
  return subject.labels.slot().any() != nullptr;
}

Answer exported(const FileSubject& subject) {
  return slot_exported(subject, subject.labels.slot());
}

Answer thread_local_slot(const FileSubject& subject) {
  return slot_thread_local(subject, subject.labels.slot());
}

Answer bound(const FileSubject& subject) {
  return slot_bound(subject, subject.labels.slot());
}

Answer version_exported(const FileSubject& subject) {
  const VersionFacts& version = subject.labels.version;
  if (version.exported) return holds(fmt::format("{} is in .dynsym", version_name));
  if (!has_slot(subject)) return does_not_apply("the file has no slot");
  if (version.inside)
    return fails(fmt::format("{} is in .symtab alone: it is not exported", version_name));
  return fails(fmt::format("the file that has the slot does not define {}", version_name));
}

Answer version_object(const FileSubject& subject) {
  const elf::Symbol* symbol = subject.labels.version.any();
  if (symbol == nullptr) return does_not_apply("the file has no version");
  constexpr std::uint64_t bytes = abi::custom_labels::version_size;
  if (symbol->type == STT_OBJECT && symbol->size == bytes) return holds("an object of 4 bytes");
  return fails(symbol->type != STT_OBJECT
                   ? fmt::format("it is not an object (symbol type {})", symbol->type)
                   : fmt::format("it has {} bytes", symbol->size));
}

Answer version_value(const FileSubject& subject) {
  const VersionFacts& version = subject.labels.version;
  if (version.any() == nullptr) return does_not_apply("the file has no version");
  if (!has_slot(subject)) return does_not_apply("the file has no slot that determines the version");
  if (version.relocated)
    return undecided("a relocation writes it when the program starts",
                     "check the running process: its value is in memory then");
  if (!version.value) return fails("its address is outside the loaded segments of the file");
  const std::uint32_t wanted = subject.labels.is_v0() ? 0 : 1;
  return *version.value == wanted
             ? holds(fmt::format("it is {}", wanted))
             : fails(fmt::format("it is {}, and {} is of version {}", *version.value,
                                 subject.labels.slot().name, wanted));
}

Answer version_constant(const FileSubject& subject) {
  const VersionFacts& version = subject.labels.version;
  if (version.any() == nullptr) return does_not_apply("the file has no version");
  return version.writable ? fails("it is in memory that the program can write")
                          : holds("it is in read-only memory");
}

// A file's offset and its address differ in most segments but the first.
Answer version_at_its_offset(const FileSubject& subject) {
  const VersionFacts& version = subject.labels.version;
  if (version.any() == nullptr) return does_not_apply("the file has no version");
  const std::uint64_t address = version.any()->value;
  if (!version.file_offset)
    return fails(fmt::format("it is at {} in .bss: the file has no bytes for it", hex(address)));
  if (*version.file_offset == address) return holds(fmt::format("both are {}", hex(address)));
  return fails(fmt::format("its address is {}, its offset in the file {}", hex(address),
                           hex(*version.file_offset)));
}

Answer descriptor(const FileSubject& subject) {
  const SlotFacts& slot = subject.labels.slot();
  if (!slot.exported) return does_not_apply("it is not exported");
  if (subject.program)
    return does_not_apply("a program's own slot is at a fixed offset from the thread pointer");
  if (!slot.accesses.empty() && slot.accesses.front() == Access::descriptor)
    return holds("it is reached by TLSDESC");
  if (slot.accesses.empty())
    return fails("no relocation refers to it: no code of the library uses it");
  return fails(
      fmt::format("it is reached by {} only", access_names(slot)),
      subject.elf.machine == EM_X86_64
          ? "compile with gcc -ftls-model=global-dynamic -mtls-dialect=gnu2 -fPIC, or clang "
            "18 and later"
          : "compile with -ftls-model=global-dynamic -mtls-dialect=desc -fPIC");
}

Answer file_named(const FileSubject& subject) {
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
Answer no_gap(const FileSubject& subject) {
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

}  // namespace vitrine::check
