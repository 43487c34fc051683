#include "probe/typed_note.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "note_bytes.hpp"

namespace vitrine::probe {
namespace {

using test::NoteSection;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using namespace std::string_literals;

const std::string owner = "vitrine\0"s;

/// A note of type 1; `strings` are provider, name and all arguments.
std::vector<std::byte> probe(std::uint64_t address, std::uint8_t count, const std::string& strings,
                             elf::Encoding encoding = {}) {
  NoteSection description(encoding);
  description.number(address, encoding.address_bytes());
  description.number(count, 1);
  return description.raw(strings).bytes();
}
std::vector<std::byte> enumerator(std::int64_t value, const std::string& strings,
                                  elf::Encoding encoding = {}) {
  NoteSection description(encoding);
  description.number(static_cast<std::uint64_t>(value), 8);
  return description.raw(strings).bytes();
}

StapsdtNote v3(Address address, std::string_view provider, std::string_view name) {
  StapsdtNote note;
  note.address = address;
  note.provider = provider;
  note.name = name;
  return note;
}

// docs/typed-probes.md, byte for byte.
TEST(TypedNote, DecodesTheDocumentsExample) {
  const std::string bytes =
      "\x08\0\0\0\x28\0\0\0\x01\0\0\0vitrine\0\x80\x12\0\0\0\0\0\0\x03"
      "shop\0order\0\x01id\0\0\x08item\0\0\x02price\0\0"s;
  const auto notes = decode_typed_notes(std::as_bytes(std::span(bytes)), {});
  EXPECT_THAT(notes.problems.list, IsEmpty());
  ASSERT_THAT(notes.probes, SizeIs(1));
  EXPECT_EQ(notes.probes[0].address, 0x1280);

  TypedProbes probes;
  probes.add(notes);
  NoteProblems problems;
  const auto types = probes.of(v3(0x1280, "shop", "order"), 4, problems);
  EXPECT_THAT(problems.list, IsEmpty());
  ASSERT_THAT(types, SizeIs(3));
  EXPECT_EQ(types[0].name, "id");
  EXPECT_EQ(types[0].kind, ValueKind::integer);
  EXPECT_EQ(types[0].argument, 0);
  EXPECT_EQ(types[1].name, "item");
  EXPECT_EQ(types[1].kind, ValueKind::string_view);
  EXPECT_EQ(types[1].argument, 1);
  EXPECT_EQ(types[1].length_argument, 2);
  EXPECT_EQ(types[2].name, "price");
  EXPECT_EQ(types[2].kind, ValueKind::floating);
  EXPECT_EQ(types[2].argument, 3);
  EXPECT_FALSE(types[2].length_argument);
}

TEST(TypedNote, DecodesEveryClassAndByteOrder) {
  for (const bool wide : {true, false})
    for (const bool big_endian : {true, false}) {
      const elf::Encoding encoding{wide, big_endian};
      NoteSection section(encoding);
      section.add(owner, 1, probe(0x12345678, 1, "p\0n\0\x06how\0Colour\0"s, encoding));
      section.add(owner, 2, enumerator(-2, "Colour\0RED\0"s, encoding));
      section.add(owner, 2, enumerator(7, "Colour\0BLUE\0"s, encoding));
      section.add(owner, 2, enumerator(7, "Colour\0AZURE\0"s, encoding));
      section.add(owner, 2, enumerator(7, "Other\0SEVEN\0"s, encoding));
      const auto notes = decode_typed_notes(section.bytes(), encoding);
      EXPECT_THAT(notes.problems.list, IsEmpty());
      TypedProbes probes;
      probes.add(notes);
      NoteProblems problems;
      const auto types = probes.of(v3(0x12345678, "p", "n"), 1, problems);
      ASSERT_THAT(types, SizeIs(1));
      EXPECT_EQ(types[0].kind, ValueKind::enumeration);
      EXPECT_EQ(types[0].type, "Colour");
      ASSERT_THAT(types[0].enumerators, SizeIs(2));
      EXPECT_EQ(types[0].enumerators[0].value, -2);
      EXPECT_EQ(types[0].enumerators[0].name, "RED");
      EXPECT_EQ(types[0].enumerators[1].name, "BLUE");
    }
}

TEST(TypedNote, DescribesOnlyItsOwnProbe) {
  NoteSection section;
  section.add(owner, 1, probe(0x10, 1, "p\0n\0\x01x\0int\0"s));
  section.add(owner, 1, probe(0x10, 1, "p\0m\0\x01y\0int\0"s));
  section.add(owner, 1, probe(0x10, 0, "p\0none\0"s));
  TypedProbes probes;
  const auto notes = decode_typed_notes(section.bytes(), {});
  probes.add(notes);
  NoteProblems problems;
  EXPECT_EQ(probes.of(v3(0x10, "p", "m"), 1, problems).at(0).name, "y");
  EXPECT_THAT(probes.of(v3(0x11, "p", "n"), 1, problems), IsEmpty());
  EXPECT_THAT(probes.of(v3(0x10, "q", "n"), 1, problems), IsEmpty());
  EXPECT_THAT(probes.of(v3(0x10, "p", "none"), 0, problems), IsEmpty());
  EXPECT_THAT(problems.list, IsEmpty());
  EXPECT_THAT(probes.of(v3(0x10, "p", "n"), 2, problems), IsEmpty());
  ASSERT_THAT(problems.list, SizeIs(1));
  EXPECT_THAT(problems.list[0].message, HasSubstr("describes 1 arguments of a probe that has 2"));
}

TEST(TypedNote, StaysInStepOverKindsToCome) {
  NoteSection section;
  section.add(owner, 1,
              probe(1, 3,
                    "p\0n\0\x07"
                    "a\0\0\x0c"
                    "b\0\0\x05"
                    "c\0\0"s));
  section.add(owner, 1,
              probe(2, 1,
                    "p\0far\0\x10"
                    "a\0\0"s));
  const auto notes = decode_typed_notes(section.bytes(), {});
  ASSERT_THAT(notes.probes, SizeIs(1));
  ASSERT_THAT(notes.problems.list, SizeIs(1));
  EXPECT_THAT(notes.problems.list[0].message, HasSubstr("kind 16"));
  TypedProbes probes;
  probes.add(notes);
  NoteProblems problems;
  const auto types = probes.of(v3(1, "p", "n"), 4, problems);
  ASSERT_THAT(types, SizeIs(4));
  EXPECT_EQ(types[1].name, "b");
  EXPECT_EQ(types[1].kind, ValueKind::integer);
  EXPECT_EQ(types[2].name, "");
  EXPECT_EQ(types[3].name, "c");
  EXPECT_EQ(types[3].argument, 3);
  EXPECT_EQ(types[3].kind, ValueKind::c_string);
}

TEST(TypedNote, SaysWhatIsWrongAndKeepsTheRest) {
  const std::pair<std::vector<std::byte>, const char*> wrong[] = {
      {{}, "too few"},
      {probe(1, 1, ""), "the provider in the note at offset 0x0 is not terminated"},
      {probe(1, 1, "p\0n"s), "the name in the note at offset 0x0 is not terminated"},
      {probe(1, 1, "p\0n\0"s), "ends before the last of its arguments"},
      {probe(1, 255,
             "p\0n\0\x01"
             "a\0\0"s),
       "ends before the last of its arguments"},
      {probe(1, 1,
             "p\0n\0\x01"
             "a\0int"s),
       "the type of an argument"},
      {probe(1, 1,
             "p\0n\0\x01"
             "a"s),
       "the name of an argument"},
      {probe(1, 0, "p\0"s + std::string(5000, 'n') + '\0'), "5000 bytes"},
      {probe(1, 0, "p\0n\0more than padding"s), "17 trailing bytes"}};
  for (const auto& [description, message] : wrong) {
    NoteSection section;
    section.add(owner, 1, description);
    section.add(owner, 2, enumerator(1, "T\0ONE\0"s));
    const auto notes = decode_typed_notes(section.bytes(), {});
    EXPECT_THAT(notes.enumerators, SizeIs(1)) << message;
    ASSERT_THAT(notes.problems.list, SizeIs(1)) << message;
    EXPECT_THAT(notes.problems.list[0].message, HasSubstr(message));
  }
}

TEST(TypedNote, BoundsTheEnumeratorsItGives) {
  NoteSection section;
  for (int i = 0; i < 2000; ++i) section.add(owner, 2, enumerator(i, "T\0NAME\0"s));
  const std::size_t fit = limits::enumerators / 2000;
  for (unsigned i = 0; i <= fit; ++i)
    section.add(owner, 1,
                probe(i, 1,
                      "p\0n\0\x06"
                      "a\0T\0"s));
  const auto notes = decode_typed_notes(section.bytes(), {});
  TypedProbes probes;
  probes.add(notes);
  NoteProblems problems;
  for (unsigned i = 0; i < fit; ++i)
    EXPECT_THAT(probes.of(v3(i, "p", "n"), 1, problems).at(0).enumerators, SizeIs(2000));
  EXPECT_THAT(problems.list, IsEmpty());
  EXPECT_THAT(probes.of(v3(static_cast<Address>(fit), "p", "n"), 1, problems).at(0).enumerators,
              IsEmpty());
  EXPECT_THAT(problems.list, SizeIs(1));
}

}  // namespace
}  // namespace vitrine::probe
