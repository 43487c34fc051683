#include "probe/stapsdt_note.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "base/limits.hpp"

namespace vitrine::probe {
namespace {

constexpr std::size_t header_bytes = 12;  // namesz, descsz, type
constexpr std::size_t alignment = 4;      // of name and description, in both classes
constexpr std::string_view owner{"stapsdt", 8};
constexpr std::uint32_t stapsdt_type = 3;

constexpr std::uint64_t padded(std::uint64_t size) {
  return (size + alignment - 1) / alignment * alignment;
}

class Decoder {
 public:
  Decoder(std::span<const std::byte> section, elf::Encoding encoding)
      : bytes_(section), encoding_(encoding) {}

  StapsdtNotes decode() {
    constexpr std::size_t usual_bytes = 72;
    found_.notes.reserve(std::min(bytes_.size() / usual_bytes, limits::probe_notes));
    std::size_t at = 0;
    while (bytes_.size() - at >= header_bytes) {
      if (found_.notes.size() >= limits::probe_notes) {
        complain(at, "it has more than {} notes: those from offset {:#x} on are left out",
                 limits::probe_notes, at);
        return std::move(found_);
      }
      at = decode_note(at);
    }
    // Alignment leaves up to 7 bytes, all zero.
    const auto rest = bytes_.subspan(at);
    if (std::any_of(rest.begin(), rest.end(), [](std::byte byte) { return byte != std::byte{0}; }))
      complain(at, "the {} bytes at offset {:#x} are too few for a note", rest.size(), at);
    return std::move(found_);
  }

 private:
  [[nodiscard]] std::uint32_t u32(std::size_t at) const {
    return encoding_.u32(bytes_.data() + at);
  }
  [[nodiscard]] std::string_view text(std::size_t at, std::size_t size) const {
    return {reinterpret_cast<const char*>(bytes_.data()) + at, size};
  }

  /// Decodes what is at `at`, where a header fits. Returns where to go on.
  std::size_t decode_note(std::size_t at) {
    std::uint64_t name_size = u32(at);
    const std::uint64_t size = u32(at + 4);
    const std::uint32_t type = u32(at + 8);
    if (name_size == 0 && size == 0 && type == 0) return at + alignment;  // padding
    const bool ours = type == stapsdt_type &&
                      text(at + header_bytes, bytes_.size() - at - header_bytes).starts_with(owner);
    if (ours && name_size != owner.size()) {
      complain(at, "the note at offset {:#x} says that its name has {} bytes", at, name_size);
      name_size = owner.size();
    }
    const std::uint64_t description = at + header_bytes + padded(name_size);
    const std::uint64_t end = description + size;
    if (description > bytes_.size() || end > bytes_.size()) {
      complain(at,
               "the note at offset {:#x} says that its name has {} bytes and its description {}, "
               "but the section ends {} bytes after its header",
               at, name_size, size, bytes_.size() - at - header_bytes);
      return find_note(at + alignment, bytes_.size());
    }
    // The padding of the last note may be missing.
    const auto next = static_cast<std::size_t>(std::min<std::uint64_t>(padded(end), bytes_.size()));
    if (!ours) return next;
    return decode_description(at, static_cast<std::size_t>(description),
                              static_cast<std::size_t>(size), next);
  }

  std::size_t decode_description(std::size_t at, std::size_t description, std::size_t size,
                                 std::size_t next) {
    const std::size_t address_bytes = encoding_.address_bytes();
    const std::size_t strings = 3 * address_bytes;
    if (size < strings + 3) {
      complain(at,
               "the note at offset {:#x} has a description of {} bytes: too few for three "
               "addresses and three strings",
               at, size);
      return next;
    }
    StapsdtNote note;
    const std::byte* words = bytes_.data() + description;
    note.offset = at;
    note.address = encoding_.address(words);
    note.base = encoding_.address(words + address_bytes);
    note.semaphore = encoding_.address(words + 2 * address_bytes);

    std::string_view rest = text(description + strings, size - strings);
    if (!take_name(at, rest, note.provider, "provider") || !take_name(at, rest, note.name, "name"))
      return next;
    const std::size_t arguments_end = rest.find('\0');
    note.arguments = rest.substr(0, arguments_end);
    if (arguments_end == std::string_view::npos)
      complain(at, "the arguments of the note at offset {:#x} have no end: taken as far as it goes",
               at);
    if (note.arguments.size() > limits::argument_text) {
      complain(at, "the note at offset {:#x} has {} bytes of arguments: cut to {}", at,
               note.arguments.size(), limits::argument_text);
      note.arguments = note.arguments.substr(0, limits::argument_text);
    }
    found_.notes.push_back(note);
    if (arguments_end == std::string_view::npos) return next;
    return after_strings(at, rest.substr(arguments_end + 1), next);
  }

  /// Takes a NUL-terminated string off `rest`.
  bool take_name(std::size_t at, std::string_view& rest, std::string_view& into, const char* what) {
    const std::size_t end = rest.find('\0');
    if (end == std::string_view::npos) {
      complain(at, "the {} in the note at offset {:#x} has no end", what, at);
      return false;
    }
    if (end == 0 || end > limits::name_bytes) {
      complain(at, "the {} in the note at offset {:#x} has {} bytes: not between 1 and {}", what,
               at, end, limits::name_bytes);
      return false;
    }
    into = rest.substr(0, end);
    rest.remove_prefix(end + 1);
    return true;
  }

  /// Some writers count the padding as theirs. More than that, and the size was a lie that may hide
  /// notes.
  std::size_t after_strings(std::size_t at, std::string_view left, std::size_t next) {
    if (left.size() < 8 && left.find_first_not_of('\0') == std::string_view::npos) return next;
    complain(at, "the note at offset {:#x} has {} bytes after its arguments", at, left.size());
    const std::size_t strings_end =
        static_cast<std::size_t>(reinterpret_cast<const std::byte*>(left.data()) - bytes_.data());
    return find_note(padded(strings_end), next);
  }

  /// The first place in [from, until) that begins as a note of ours does; else `until`.
  [[nodiscard]] std::size_t find_note(std::size_t from, std::size_t until) const {
    const std::string_view all = text(0, until);
    for (std::size_t found = all.find(owner, from); found != std::string_view::npos;
         found = all.find(owner, found + 1)) {
      if (found < from + header_bytes || found % alignment != 0) continue;
      const std::size_t header = found - header_bytes;
      if (u32(header) == owner.size() && u32(header + 8) == stapsdt_type) return header;
    }
    return until;
  }

  template <class... Args>
  void complain(std::size_t at, fmt::format_string<Args...> message, Args&&... args) {
    if (found_.problems.size() < limits::note_problems)
      found_.problems.push_back({at, fmt::format(message, std::forward<Args>(args)...)});
    else
      ++found_.problems_left_out;
  }

  std::span<const std::byte> bytes_;
  elf::Encoding encoding_;
  StapsdtNotes found_;
};

}  // namespace

StapsdtNotes decode_stapsdt_notes(std::span<const std::byte> section, elf::Encoding encoding) {
  return Decoder(section, encoding).decode();
}

}  // namespace vitrine::probe
