// Notes of static probes: reading a section of them, and stapsdt notes.
#pragma once

#include <fmt/format.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/limits.hpp"
#include "base/memory.hpp"
#include "elf/file.hpp"

namespace vitrine::probe {

// NoteReader: the notes of one owner in a section, where nothing in it is trusted.

struct NoteProblem {
  std::uint64_t offset = 0;  ///< of the note in its section
  std::string message;       ///< a sentence without a full stop, which names the offset
};

/// What was wrong in a section.
struct NoteProblems {
  std::vector<NoteProblem> list;  ///< at most limits::note_problems
  std::uint64_t left_out = 0;

  template <class... Args>
  void add(std::uint64_t offset, fmt::format_string<Args...> message, Args&&... args) {
    if (list.size() < limits::note_problems)
      list.push_back({offset, fmt::format(message, std::forward<Args>(args)...)});
    else
      ++left_out;
  }
};

/// One note; its description lies within the section.
struct NoteFrame {
  std::uint64_t offset = 0;  ///< in the section
  std::uint32_t type = 0;
  std::span<const std::byte> description;

  /// The description from byte `at` on, as text.
  [[nodiscard]] std::string_view text(std::size_t at) const {
    return {reinterpret_cast<const char*>(description.data()) + at, description.size() - at};
  }
};

class NoteReader {
 public:
  /// `owner` with its NUL: 8 bytes. Notes of types outside of `first_type` to `last_type` are passed
  /// over. What is wrong goes to `problems`.
  NoteReader(std::span<const std::byte> section, elf::Encoding encoding, std::string_view owner,
             std::uint32_t first_type, std::uint32_t last_type, NoteProblems& problems)
      : bytes_(section),
        encoding_(encoding),
        owner_(owner),
        first_type_(first_type),
        last_type_(last_type),
        problems_(problems) {}

  /// The next note; nullopt at the section's end, and after limits::probe_notes of them, which is
  /// reported. Notes behind one whose size is a lie are found again.
  std::optional<NoteFrame> next();

  /// Reports that a note's content ends where `left` of its description begins: if that is more
  /// than padding, the note's size was a lie which may hide others.
  void end_of_content(const NoteFrame& note, std::string_view left);

 private:
  std::optional<NoteFrame> read_note();
  [[nodiscard]] std::size_t find_note(std::size_t from, std::size_t until) const;
  [[nodiscard]] bool has_owner(std::size_t at) const;
  [[nodiscard]] std::uint32_t u32(std::size_t at) const;
  void check_rest();

  std::span<const std::byte> bytes_;
  elf::Encoding encoding_;
  std::string_view owner_;
  std::uint32_t first_type_, last_type_;
  NoteProblems& problems_;
  std::size_t at_ = 0;
  std::size_t found_ = 0;
};

/// Takes a NUL-terminated string off `rest`; nullopt when it has no end.
std::optional<std::string_view> take_string(std::string_view& rest);
/// The same of a note's; `what`: what it is, for the problem that a missing end is.
std::optional<std::string_view> take_string(std::string_view& rest, const NoteFrame& note,
                                            const char* what, NoteProblems& problems);

// Notes of static probes: the bytes of a `.note.stapsdt` section (docs/formats/sdt.md, "Note"), of
// any class and byte order.

/// One note as it is written. Addresses are the linker's: not adjusted, and not checked at all
/// (site_address.hpp does). The strings are any bytes but NUL, and live as long as the section's.
struct StapsdtNote {
  std::uint64_t offset = 0;  ///< of the note in its section
  Address address = 0;       ///< of the probe's instruction
  Address base = 0;          ///< where the linker put `.stapsdt.base`; 0: it was thrown away
  Address semaphore = 0;     ///< 0: none
  std::string_view provider;
  std::string_view name;
  std::string_view arguments;  ///< all of them: split_arguments() knows where each ends

  /// Provider, NUL, name, which neither has: as they lie in the note.
  [[nodiscard]] std::string_view full_name() const {
    const char* const begin = provider.data();
    return {begin, static_cast<std::size_t>(name.data() + name.size() - begin)};
  }
};

struct StapsdtNotes {
  std::vector<StapsdtNote> notes;  ///< in the section's order
  NoteProblems problems;
};

/// Decodes a section of notes. Notes of other vendors and of older versions are passed over. What
/// cannot be decoded becomes a problem; the notes after it are found again where a size lied.
StapsdtNotes decode_stapsdt_notes(std::span<const std::byte> section, elf::Encoding encoding);

}  // namespace vitrine::probe
