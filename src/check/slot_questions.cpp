#include "check/slot_questions.hpp"

#include <elf.h>
#include <fmt/format.h>

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

}  // namespace

std::string access_names(const SlotFacts& slot) {
  std::string text;
  for (const Access access : slot.accesses)
    text += (text.empty() ? "" : " and ") + std::string(name(access));
  return text.empty() ? "none" : text;
}

Answer slot_exported(const FileSubject& subject, const SlotFacts& slot) {
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
            ? fmt::format("give it default visibility, and link with "
                          "-Wl,--export-dynamic-symbol={}",
                          slot.name)
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

Answer slot_thread_local(const FileSubject&, const SlotFacts& slot) {
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

Answer slot_bound(const FileSubject&, const SlotFacts& slot) {
  if (!slot.exported) return does_not_apply("it is not exported");
  const bool seen =
      slot.exported->binding != STB_LOCAL &&
      (slot.exported->visibility == STV_DEFAULT || slot.exported->visibility == STV_PROTECTED);
  auto text =
      fmt::format("{} is {}, its visibility {}", slot.name, binding_name(slot.exported->binding),
                  visibility_name(slot.exported->visibility));
  return seen ? holds(std::move(text)) : fails(std::move(text));
}

}  // namespace vitrine::check
