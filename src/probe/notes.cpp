#include "probe/notes.hpp"

#include <algorithm>

#include "base/memory.hpp"

namespace vitrine::probe {
namespace {

constexpr std::size_t header_bytes = 12;  // namesz, descsz, type
constexpr std::size_t alignment = 4;      // of name and description, in both classes

constexpr std::uint64_t padded(std::uint64_t size) {
  return align_up(size, alignment);
}

std::string_view text(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace

std::uint32_t NoteReader::u32(std::size_t at) const {
  return encoding_.u32(bytes_.data() + at);
}

bool NoteReader::has_owner(std::size_t at) const {
  const std::uint32_t type = u32(at + 8);
  return type >= first_type_ && type <= last_type_ &&
         text(bytes_.subspan(at + header_bytes)).starts_with(owner_);
}

std::optional<NoteFrame> NoteReader::next() {
  while (bytes_.size() - at_ >= header_bytes) {
    const auto note = read_note();
    if (!note) continue;
    if (found_++ < limits::probe_notes) return note;
    problems_.add(note->offset, "it has more than {} notes: those from offset {:#x} on are omitted",
                  limits::probe_notes, note->offset);
    return std::nullopt;
  }
  check_rest();
  return std::nullopt;
}

std::optional<NoteFrame> NoteReader::read_note() {
  const std::size_t at = at_;
  std::uint64_t name_size = u32(at);
  const std::uint64_t size = u32(at + 4);
  if (name_size == 0 && size == 0 && u32(at + 8) == 0) {  // padding
    at_ += alignment;
    return std::nullopt;
  }
  const bool owned = has_owner(at);
  if (owned && name_size != owner_.size()) {
    problems_.add(at, "the note at offset {:#x} declares a name of {} bytes", at, name_size);
    name_size = owner_.size();
  }
  const std::uint64_t description = at + header_bytes + padded(name_size);
  const std::uint64_t end = description + size;
  if (description > bytes_.size() || end > bytes_.size()) {
    problems_.add(at,
                  "the note at offset {:#x} declares a name of {} bytes and a description of {}, "
                  "but the section ends {} bytes after its header",
                  at, name_size, size, bytes_.size() - at - header_bytes);
    at_ = find_note(at + alignment, bytes_.size());
    return std::nullopt;
  }
  // The padding of the last note may be missing.
  at_ = static_cast<std::size_t>(std::min<std::uint64_t>(padded(end), bytes_.size()));
  if (!owned) return std::nullopt;
  return NoteFrame{
      at, u32(at + 8),
      bytes_.subspan(static_cast<std::size_t>(description), static_cast<std::size_t>(size))};
}

void NoteReader::end_of_content(const NoteFrame& note, std::string_view left) {
  // Some writers count the padding as the description's.
  if (left.size() < 8 && left.find_first_not_of('\0') == std::string_view::npos) return;
  problems_.add(note.offset, "the note at offset {:#x} has {} trailing bytes", note.offset,
                left.size());
  const auto content_end = static_cast<std::size_t>(left.data() - text(bytes_).data());
  at_ = find_note(static_cast<std::size_t>(padded(content_end)), at_);
}

// The first place in [from, until) that begins as a note of this owner does; else `until`.
std::size_t NoteReader::find_note(std::size_t from, std::size_t until) const {
  const std::string_view all = text(bytes_.first(until));
  for (std::size_t found = all.find(owner_, from); found != std::string_view::npos;
       found = all.find(owner_, found + 1)) {
    if (found < from + header_bytes || found % alignment != 0) continue;
    const std::size_t header = found - header_bytes;
    if (u32(header) == owner_.size() && has_owner(header)) return header;
  }
  return until;
}

// Alignment leaves up to 7 bytes, all zero.
void NoteReader::check_rest() {
  const auto rest = bytes_.subspan(at_);
  if (std::any_of(rest.begin(), rest.end(), [](std::byte byte) { return byte != std::byte{0}; }))
    problems_.add(at_, "the {} bytes at offset {:#x} are too short for a note", rest.size(), at_);
}

std::optional<std::string_view> take_string(std::string_view& rest) {
  const std::size_t end = rest.find('\0');
  if (end == std::string_view::npos) return std::nullopt;
  const std::string_view taken = rest.substr(0, end);
  rest.remove_prefix(end + 1);
  return taken;
}

std::optional<std::string_view> take_string(std::string_view& rest, const NoteFrame& note,
                                            const char* what, NoteProblems& problems) {
  const auto taken = take_string(rest);
  if (!taken)
    problems.add(note.offset, "the {} in the note at offset {:#x} is not terminated", what,
                 note.offset);
  return taken;
}

namespace {

constexpr std::string_view owner{"stapsdt\0", 8};
constexpr std::uint32_t version_3 = 3;  // the note's type; 1 and 2 were other layouts

/// Takes the provider or the name of a probe off `rest`.
bool take_name(const NoteFrame& note, std::string_view& rest, std::string_view& into,
               const char* what, NoteProblems& problems) {
  const auto taken = take_string(rest, note, what, problems);
  if (!taken) return false;
  if (taken->empty() || taken->size() > limits::name_bytes) {
    problems.add(note.offset,
                 "the {} in the note at offset {:#x} has {} bytes: not between 1 and {}", what,
                 note.offset, taken->size(), limits::name_bytes);
    return false;
  }
  into = *taken;
  return true;
}

std::string_view bounded_arguments(const NoteFrame& note, std::string_view arguments,
                                   NoteProblems& problems) {
  if (arguments.size() > limits::argument_text)
    problems.add(note.offset, "the note at offset {:#x} has {} bytes of arguments: cut to {}",
                 note.offset, arguments.size(), limits::argument_text);
  return arguments.substr(0, limits::argument_text);
}

void decode_note(const NoteFrame& frame, elf::Encoding encoding, NoteReader& reader,
                 StapsdtNotes& found) {
  const std::size_t address_bytes = encoding.address_bytes();
  const std::size_t strings = 3 * address_bytes;
  if (frame.description.size() < strings + 3) {
    found.problems.add(frame.offset,
                       "the note at offset {:#x} has a description of {} bytes: too few for three "
                       "addresses and three strings",
                       frame.offset, frame.description.size());
    return;
  }
  const std::byte* words = frame.description.data();
  StapsdtNote note;
  note.offset = frame.offset;
  note.address = encoding.address(words);
  note.base = encoding.address(words + address_bytes);
  note.semaphore = encoding.address(words + 2 * address_bytes);

  std::string_view rest = frame.text(strings);
  if (!take_name(frame, rest, note.provider, "provider", found.problems) ||
      !take_name(frame, rest, note.name, "name", found.problems))
    return;
  if (const auto arguments = take_string(rest)) {
    note.arguments = bounded_arguments(frame, *arguments, found.problems);
    reader.end_of_content(frame, rest);
  } else {
    found.problems.add(frame.offset,
                       "the arguments of the note at offset {:#x} are not terminated: used up to "
                       "the end of the note",
                       frame.offset);
    note.arguments = bounded_arguments(frame, rest, found.problems);
  }
  found.notes.push_back(note);
}

}  // namespace

StapsdtNotes decode_stapsdt_notes(std::span<const std::byte> section, elf::Encoding encoding) {
  constexpr std::size_t usual_bytes = 72;
  StapsdtNotes found;
  found.notes.reserve(std::min(section.size() / usual_bytes, limits::probe_notes));
  NoteReader reader(section, encoding, owner, version_3, version_3, found.problems);
  while (const auto frame = reader.next()) decode_note(*frame, encoding, reader, found);
  return found;
}

}  // namespace vitrine::probe
