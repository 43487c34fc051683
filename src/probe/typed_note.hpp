// Typed notes: what the arguments of a probe are called, and what they are
// (docs/typed-probes.md, abi/typed_note.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string_view>
#include <tuple>
#include <vector>

#include "base/memory.hpp"
#include "elf/file.hpp"
#include "probe/notes.hpp"
#include "probe/probe.hpp"

namespace vitrine::probe {

/// As the note has it. Strings live as long as the section's bytes.
struct TypedArgument {
  std::uint8_t kind = 0;  ///< VITRINE_KIND_*; those that are reserved too
  std::string_view name, type;
};

/// A note that describes a probe.
struct TypedProbe {
  std::uint64_t offset = 0;  ///< of the note in its section
  Address address = 0;       ///< as the v3 note of the probe has it
  std::string_view provider, name;
  std::uint8_t count = 0;
  std::string_view described;  ///< `count` arguments, known to be whole

  [[nodiscard]] std::vector<TypedArgument> arguments() const;
};

/// A note that names a value of an enumeration.
struct TypedEnumerator {
  std::int64_t value = 0;
  std::string_view type, name;
};

struct TypedNotes {
  std::vector<TypedProbe> probes;  ///< in the section's order, as the enumerators
  std::vector<TypedEnumerator> enumerators;
  NoteProblems problems;
};

/// Decodes a section of them. What cannot be decoded becomes a problem; the notes after it are
/// found again where a size lied.
TypedNotes decode_typed_notes(std::span<const std::byte> section, elf::Encoding encoding);

/// Finds the descriptions of probes. The bytes that the notes were decoded from must outlive it.
class TypedProbes {
 public:
  /// The notes of one more section of the file.
  void add(const TypedNotes& notes);

  /// What is known of the arguments of a v3 note, which has `count` of them: empty when no note
  /// describes it, or the one that does is not in step with it (which is reported in `problems`).
  std::vector<ArgumentType> of(const StapsdtNote& note, std::size_t count, NoteProblems& problems);

 private:
  using Key = std::tuple<Address, std::string_view, std::string_view>;

  void add_enumerators(ArgumentType& type, std::uint64_t offset, NoteProblems& problems);

  std::map<Key, TypedProbe> probes_;
  std::map<std::string_view, std::map<std::int64_t, std::string_view>> enumerators_;  ///< by type
  std::size_t given_ = 0;
};

}  // namespace vitrine::probe
