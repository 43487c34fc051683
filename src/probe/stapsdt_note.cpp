#include "probe/stapsdt_note.hpp"

#include <algorithm>

namespace vitrine::probe {
namespace {

constexpr std::string_view owner{"stapsdt\0", 8};
constexpr std::uint32_t version_3 = 3;  // the note's type; 1 and 2 were other layouts

/// Takes the provider or the name of a probe off `rest`.
bool take_name(const NoteFrame& note, std::string_view& rest, std::string_view& into,
               const char* what, NoteProblems& problems) {
  const auto taken = take_string(rest);
  if (!taken) {
    problems.add(note.offset, "the {} in the note at offset {:#x} is not terminated", what,
                 note.offset);
    return false;
  }
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
  while (const auto frame = reader.next()) {
    if (found.notes.size() >= limits::probe_notes) {
      found.problems.add(frame->offset,
                         "it has more than {} notes: those from offset {:#x} on are omitted",
                         limits::probe_notes, frame->offset);
      break;
    }
    decode_note(*frame, encoding, reader, found);
  }
  return found;
}

}  // namespace vitrine::probe
