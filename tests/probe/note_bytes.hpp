// Writes notes, honest and not, of any class and byte order.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "elf/file.hpp"

namespace vitrine::test {

/// What a note says. The sizes that are given replace the true ones.
struct NoteText {
  std::uint64_t address = 0, base = 0, semaphore = 0;
  std::string strings;  ///< provider, name, arguments with their NULs
  std::uint32_t type = 3;
  std::string owner{"stapsdt", 8};
  std::optional<std::uint32_t> owner_size = std::nullopt, size = std::nullopt;
};

/// A note at `address` with these strings and their NULs.
inline NoteText note_of(std::uint64_t address, std::string strings) {
  NoteText text;
  text.address = address;
  text.strings = std::move(strings);
  return text;
}

/// `provider:name` with `arguments`.
inline NoteText note(std::uint64_t address, std::string_view provider, std::string_view name,
                     std::string_view arguments) {
  NoteText text;
  text.address = address;
  for (const std::string_view part : {provider, name, arguments})
    text.strings.append(part).push_back('\0');
  return text;
}

class NoteSection {
 public:
  explicit NoteSection(elf::Encoding encoding = {}) : encoding_(encoding) {}

  NoteSection& add(const NoteText& note) {
    const std::size_t address_bytes = encoding_.address_bytes();
    number(note.owner_size.value_or(static_cast<std::uint32_t>(note.owner.size())), 4);
    number(note.size.value_or(static_cast<std::uint32_t>(3 * address_bytes + note.strings.size())),
           4);
    number(note.type, 4);
    text(note.owner);
    for (const std::uint64_t address : {note.address, note.base, note.semaphore})
      number(address, address_bytes);
    text(note.strings);
    return *this;
  }

  /// A note of any owner and type.
  NoteSection& add(std::string_view owner, std::uint32_t type,
                   const std::vector<std::byte>& description) {
    number(owner.size(), 4);
    number(description.size(), 4);
    number(type, 4);
    text(owner);
    bytes_.insert(bytes_.end(), description.begin(), description.end());
    text("");
    return *this;
  }

  /// `size` bytes of `value`, in the file's order.
  void number(std::uint64_t value, std::size_t size) {
    for (std::size_t i = 0; i < size; ++i)
      bytes_.push_back(
          static_cast<std::byte>(value >> 8 * (encoding_.big_endian ? size - 1 - i : i)));
  }

  /// Any bytes, and zeroes up to the next multiple of 4.
  void text(std::string_view bytes) {
    raw(bytes);
    while (bytes_.size() % 4 != 0) bytes_.push_back(std::byte{0});
  }

  NoteSection& raw(std::string_view bytes) {
    for (const char byte : bytes) bytes_.push_back(static_cast<std::byte>(byte));
    return *this;
  }

  std::vector<std::byte>& bytes() { return bytes_; }

 private:
  elf::Encoding encoding_;
  std::vector<std::byte> bytes_;
};

}  // namespace vitrine::test
