#include "usdt/gnu_property.hpp"

#include <elf.h>

#include <cstring>

#include "usdt/append.hpp"

namespace vitrine::usdt {
namespace {

constexpr std::size_t word = sizeof(Elf32_Word);

std::size_t alignment(const ObjectMachine& machine) {
  return machine.wide ? 8 : 4;
}

std::size_t up(std::size_t size, std::size_t to) {
  return (size + to - 1) / to * to;
}

std::uint32_t word_at(std::span<const std::byte> bytes, std::size_t at) {
  std::uint32_t value = 0;
  std::memcpy(&value, &bytes[at], word);
  return value;
}

/// Properties: type, size, that many bytes, padded. What does not fit ends the reading: a note that
/// a linker would not understand claims nothing.
std::uint32_t bits_of(const ObjectMachine& machine, std::span<const std::byte> properties) {
  for (std::size_t at = 0; properties.size() - at >= 2 * word;) {
    const std::uint32_t type = word_at(properties, at), size = word_at(properties, at + word);
    at += 2 * word;
    if (size > properties.size() - at) return 0;
    if (type == machine.feature_property && size == word) return word_at(properties, at);
    at += std::min(up(size, alignment(machine)), properties.size() - at);
  }
  return 0;
}

}  // namespace

Result<std::uint32_t> feature_bits(const ObjectFile& object) {
  for (std::uint32_t i = 1; i < object.sections().size(); ++i) {
    if (object.sections()[i].type != SHT_NOTE || object.section_name(i) != ".note.gnu.property")
      continue;
    const auto note = object.content(i);
    constexpr std::size_t header = sizeof(Elf32_Nhdr) + sizeof ELF_NOTE_GNU;
    if (note.size() < header || word_at(note, 0) != sizeof ELF_NOTE_GNU ||
        word_at(note, word) > note.size() - header ||
        word_at(note, 2 * word) != NT_GNU_PROPERTY_TYPE_0)
      return fail(ErrorCode::malformed, object.describe(i) + ": it has no note of GNU properties");
    return bits_of(object.machine(), note.subspan(header, word_at(note, word)));
  }
  return 0U;
}

std::vector<std::byte> property_note(const ObjectMachine& machine, std::uint32_t bits) {
  std::vector<std::byte> note;
  const auto append_word = [&](std::uint64_t value) {
    append(note, static_cast<std::uint32_t>(value));
  };
  append_word(sizeof ELF_NOTE_GNU);
  append_word(up(3 * word, alignment(machine)));
  append_word(NT_GNU_PROPERTY_TYPE_0);
  const auto name = std::as_bytes(std::span(ELF_NOTE_GNU));
  note.insert(note.end(), name.begin(), name.end());
  append_word(machine.feature_property);
  append_word(word);
  append_word(bits);
  note.resize(up(note.size(), alignment(machine)));
  return note;
}

}  // namespace vitrine::usdt
