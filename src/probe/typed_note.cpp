#include "probe/typed_note.hpp"

#include <optional>
#include <string>

#include "abi/typed_note.h"

namespace vitrine::probe {
namespace {

constexpr std::string_view typed_note_owner{VITRINE_NOTE_OWNER, sizeof VITRINE_NOTE_OWNER};
constexpr std::uint8_t last_kind = 15;  // beyond, it is not known how many arguments there are

/// Takes strings off a description, and reports which of them is malformed.
class Strings {
 public:
  Strings(const NoteFrame& frame, std::size_t at, NoteProblems& problems)
      : frame_(frame), rest_(frame.text(at)), problems_(problems) {}

  bool take(std::string_view& into, const char* what) {
    const auto taken = take_string(rest_, frame_, what, problems_);
    if (!taken) return false;
    if (taken->size() > limits::name_bytes) {
      problems_.add(frame_.offset, "the {} in the note at offset {:#x} has {} bytes: at most {}",
                    what, frame_.offset, taken->size(), limits::name_bytes);
      return false;
    }
    into = *taken;
    return true;
  }

  bool take_kind(std::uint8_t& into) {
    if (rest_.empty()) {
      problems_.add(frame_.offset, "the note at offset {:#x} ends before the last of its arguments",
                    frame_.offset);
      return false;
    }
    into = static_cast<std::uint8_t>(rest_.front());
    rest_.remove_prefix(1);
    if (into > last_kind)
      problems_.add(frame_.offset,
                    "the note at offset {:#x} has an argument of the unknown kind {}",
                    frame_.offset, into);
    return into <= last_kind;
  }

  [[nodiscard]] std::string_view rest() const { return rest_; }

 private:
  const NoteFrame& frame_;
  std::string_view rest_;
  NoteProblems& problems_;
};

bool long_enough(const NoteFrame& frame, std::size_t bytes, NoteProblems& problems) {
  if (frame.description.size() >= bytes) return true;
  problems.add(frame.offset, "the note at offset {:#x} has a description of {} bytes: too few",
               frame.offset, frame.description.size());
  return false;
}

void decode_probe(const NoteFrame& frame, elf::Encoding encoding, NoteReader& reader,
                  TypedNotes& found) {
  const std::size_t fixed = encoding.address_bytes() + 1;
  if (!long_enough(frame, fixed, found.problems)) return;
  TypedProbe probe;
  probe.offset = frame.offset;
  probe.address = encoding.address(frame.description.data());
  probe.count = std::to_integer<std::uint8_t>(frame.description[fixed - 1]);
  Strings strings(frame, fixed, found.problems);
  if (!strings.take(probe.provider, "provider") || !strings.take(probe.name, "name")) return;
  const std::string_view begin = strings.rest();
  for (unsigned i = 0; i < probe.count; ++i) {
    TypedArgument argument;
    if (!strings.take_kind(argument.kind) || !strings.take(argument.name, "name of an argument") ||
        !strings.take(argument.type, "type of an argument"))
      return;
  }
  probe.described = begin.substr(0, begin.size() - strings.rest().size());
  found.probes.push_back(probe);
  reader.end_of_content(frame, strings.rest());
}

void decode_enumerator(const NoteFrame& frame, elf::Encoding encoding, NoteReader& reader,
                       TypedNotes& found) {
  constexpr std::size_t value_bytes = 8;
  if (!long_enough(frame, value_bytes, found.problems)) return;
  TypedEnumerator enumerator;
  enumerator.value = static_cast<std::int64_t>(encoding.u64(frame.description.data()));
  Strings strings(frame, value_bytes, found.problems);
  if (!strings.take(enumerator.type, "type") || !strings.take(enumerator.name, "name")) return;
  found.enumerators.push_back(enumerator);
  reader.end_of_content(frame, strings.rest());
}

ValueKind value_kind(std::uint8_t kind) {
  switch (kind) {
    case VITRINE_KIND_FLOATING:
      return ValueKind::floating;
    case VITRINE_KIND_BOOLEAN:
      return ValueKind::boolean;
    case VITRINE_KIND_POINTER:
      return ValueKind::pointer;
    case VITRINE_KIND_C_STRING:
      return ValueKind::c_string;
    case VITRINE_KIND_ENUMERATION:
      return ValueKind::enumeration;
    case VITRINE_KIND_TEXT:
      return ValueKind::string_view;
    case VITRINE_KIND_BYTES:
      return ValueKind::bytes;
    default:
      return ValueKind::integer;  // not described further: size and sign decide
  }
}

}  // namespace

std::vector<TypedArgument> TypedProbe::arguments() const {
  std::vector<TypedArgument> arguments(count);
  std::string_view rest = described;
  for (TypedArgument& argument : arguments) {
    if (rest.empty()) break;
    argument.kind = static_cast<std::uint8_t>(rest.front());
    rest.remove_prefix(1);
    argument.name = take_string(rest).value_or(std::string_view());
    argument.type = take_string(rest).value_or(std::string_view());
  }
  return arguments;
}

TypedNotes decode_typed_notes(std::span<const std::byte> section, elf::Encoding encoding) {
  TypedNotes found;
  NoteReader reader(section, encoding, typed_note_owner, VITRINE_NOTE_PROBE,
                    VITRINE_NOTE_ENUMERATOR, found.problems);
  while (const auto frame = reader.next()) {
    if (frame->type == VITRINE_NOTE_PROBE)
      decode_probe(*frame, encoding, reader, found);
    else
      decode_enumerator(*frame, encoding, reader, found);
  }
  return found;
}

void TypedProbes::add(const TypedNotes& notes) {
  for (const TypedProbe& probe : notes.probes)
    probes_.emplace(Key(probe.address, probe.provider, probe.name), probe);
  // Every object file that saw the list has a copy of it; of two names the first counts.
  for (const TypedEnumerator& one : notes.enumerators)
    enumerators_[one.type].emplace(one.value, one.name);
}

std::vector<ArgumentType> TypedProbes::of(const StapsdtNote& note, std::size_t count,
                                          NoteProblems& problems) {
  const auto found = probes_.find(Key(note.address, note.provider, note.name));
  if (found == probes_.end()) return {};
  const TypedProbe& probe = found->second;
  std::vector<ArgumentType> types;
  std::uint32_t next = 0;
  for (const TypedArgument& argument : probe.arguments()) {
    ArgumentType& type = types.emplace_back();
    type.name = argument.name;
    type.type = argument.type;
    type.kind = value_kind(argument.kind);
    type.argument = next++;
    if ((argument.kind & VITRINE_KIND_HAS_LENGTH) == 0) continue;
    const std::uint32_t length = next++;
    if (type.kind == ValueKind::integer)  // of a kind to come: two numbers
      types.emplace_back().argument = length;
    else
      type.length_argument = length;
  }
  if (next != count) {
    problems.add(
        probe.offset,
        "the typed note at offset {:#x} describes {} arguments of a probe that has {}: ignored",
        probe.offset, next, count);
    return {};
  }
  for (ArgumentType& type : types)
    if (type.kind == ValueKind::enumeration) add_enumerators(type, probe.offset, problems);
  return types;
}

void TypedProbes::add_enumerators(ArgumentType& type, std::uint64_t offset,
                                  NoteProblems& problems) {
  const auto known = enumerators_.find(type.type);
  if (known == enumerators_.end()) return;
  if (known->second.size() > limits::enumerators - given_) {
    problems.add(offset, "the probe of the typed note at offset {:#x} has too many enumerators",
                 offset);
    return;
  }
  given_ += known->second.size();
  for (const auto& [value, name] : known->second)
    type.enumerators.push_back({value, std::string(name)});
}

}  // namespace vitrine::probe
