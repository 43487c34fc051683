#include "elf/notes.hpp"

#include "base/limits.hpp"

namespace vitrine::elf {
namespace {

constexpr std::size_t notes_max = 4096;  // of one module
constexpr std::size_t name_max = 64;
constexpr std::uint32_t build_id_max = 64;

std::uint64_t aligned(std::uint64_t value, std::uint64_t to) {
  return (value + to - 1) / to * to;
}

void read_segment(Memory& memory, const Image& image, const Elf64_Phdr& segment,
                  std::vector<Note>& notes) {
  const std::uint64_t alignment = segment.p_align == 8 ? 8 : 4;
  std::uint64_t at = 0;
  while (notes.size() < notes_max && segment.p_memsz - at >= sizeof(Elf64_Nhdr)) {
    const Address base = image.bias + segment.p_vaddr + at;
    const auto header = memory.read_value<Elf64_Nhdr>(base, "a note");
    if (!header || header->n_namesz > name_max) return;
    const std::uint64_t description = aligned(sizeof(Elf64_Nhdr) + header->n_namesz, alignment);
    const std::uint64_t end = aligned(description + header->n_descsz, alignment);
    if (description + header->n_descsz > segment.p_memsz - at) return;
    std::string name(header->n_namesz, '\0');
    if (!memory.read_exact(base + sizeof(Elf64_Nhdr), std::as_writable_bytes(std::span(name)),
                           "a note's name"))
      return;
    name.resize(name.find('\0') == std::string::npos ? name.size() : name.find('\0'));
    notes.push_back({std::move(name), header->n_type, base + description, header->n_descsz});
    if (end > segment.p_memsz - at) return;
    at += end;
  }
}

}  // namespace

std::vector<Note> read_notes(Memory& memory, const Image& image) {
  std::vector<Note> notes;
  for (const Elf64_Phdr& segment : image.segments)
    if (segment.p_type == PT_NOTE) read_segment(memory, image, segment, notes);
  return notes;
}

std::optional<Note> build_id_note(Memory& memory, const Image& image) {
  for (Note& note : read_notes(memory, image))
    if (note.name == "GNU" && note.type == NT_GNU_BUILD_ID && note.size > 0 &&
        note.size <= build_id_max)
      return std::move(note);
  return std::nullopt;
}

std::vector<std::byte> build_id(Memory& memory, const Image& image) {
  const auto note = build_id_note(memory, image);
  std::vector<std::byte> id(note ? note->size : 0);
  if (!note || !memory.read_exact(note->description, id, "the build id")) id.clear();
  return id;
}

}  // namespace vitrine::elf
