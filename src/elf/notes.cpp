#include "elf/notes.hpp"

#include <algorithm>

#include "base/limits.hpp"
#include "base/memory.hpp"

namespace vitrine::elf {
namespace {

constexpr std::size_t notes_max = 4096;           // of one module
constexpr std::uint64_t notes_bytes = 64 * 1024;  // of one segment or section
constexpr std::size_t name_max = 64;
constexpr std::uint32_t build_id_max = 64;

bool is_build_id(std::string_view name, std::uint32_t type, std::uint32_t size) {
  return name == "GNU" && type == NT_GNU_BUILD_ID && size > 0 && size <= build_id_max;
}

std::vector<std::byte> read_up_to(Memory& memory, Address at, std::uint64_t size) {
  std::vector<std::byte> bytes(static_cast<std::size_t>(std::min(size, notes_bytes)));
  bytes.resize(memory.read_some(at, bytes));
  return bytes;
}

std::vector<std::byte> build_id_in(Memory& file, const Encoding& encoding, std::uint64_t offset,
                                   std::uint64_t size, std::uint64_t alignment) {
  return build_id(read_up_to(file, offset, size), encoding, alignment);
}

}  // namespace

std::vector<NoteView> walk_notes(std::span<const std::byte> bytes, const Encoding& encoding,
                                 std::uint64_t alignment) {
  if (alignment != 8) alignment = 4;
  std::vector<NoteView> notes;
  std::size_t at = 0;
  while (notes.size() < notes_max && bytes.size() - at >= sizeof(Elf64_Nhdr)) {
    const std::byte* header = bytes.data() + at;
    const std::uint32_t name_size = encoding.u32(header);
    const std::uint32_t size = encoding.u32(header + 4);
    const std::uint64_t left = bytes.size() - at;
    if (name_size > name_max) break;
    const std::uint64_t description = align_up(sizeof(Elf64_Nhdr) + name_size, alignment);
    if (description + size > left) break;
    std::string_view name(reinterpret_cast<const char*>(header) + sizeof(Elf64_Nhdr), name_size);
    notes.push_back({name.substr(0, name.find('\0')), encoding.u32(header + 8),
                     at + static_cast<std::size_t>(description), size});
    const std::uint64_t end = align_up(description + size, alignment);
    if (end > left) break;
    at += static_cast<std::size_t>(end);
  }
  return notes;
}

std::vector<Note> read_notes(Memory& memory, const Image& image) {
  std::vector<Note> notes;
  for (const Elf64_Phdr& segment : image.segments) {
    if (segment.p_type != PT_NOTE || notes.size() >= notes_max) continue;
    const Address at = image.bias + segment.p_vaddr;
    const auto bytes = read_up_to(memory, at, segment.p_memsz);
    for (const NoteView& note : walk_notes(bytes, Encoding{}, segment.p_align))
      notes.push_back({std::string(note.name), note.type, at + note.description, note.size});
  }
  return notes;
}

std::optional<Note> build_id_note(Memory& memory, const Image& image) {
  for (Note& note : read_notes(memory, image))
    if (is_build_id(note.name, note.type, note.size)) return std::move(note);
  return std::nullopt;
}

std::vector<std::byte> build_id(std::span<const std::byte> notes, const Encoding& encoding,
                                std::uint64_t alignment) {
  for (const NoteView& note : walk_notes(notes, encoding, alignment))
    if (is_build_id(note.name, note.type, note.size)) {
      const auto id = notes.subspan(note.description, note.size);
      return {id.begin(), id.end()};
    }
  return {};
}

std::vector<std::byte> build_id(Memory& file, const File& elf) {
  for (const Section& section : elf.sections) {
    // The vdso has one section for all of its notes.
    if (section.type != SHT_NOTE ||
        (elf.name(section) != ".note.gnu.build-id" && elf.name(section) != ".note"))
      continue;
    auto id = build_id_in(file, elf.encoding, section.offset, section.size, section.alignment);
    if (!id.empty()) return id;
  }
  if (!elf.sections.empty()) return {};
  for (const Segment& segment : elf.segments) {
    if (segment.type != PT_NOTE) continue;
    auto id = build_id_in(file, elf.encoding, segment.offset, segment.file_size, 4);
    if (!id.empty()) return id;
  }
  return {};
}

}  // namespace vitrine::elf
