#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/limits.hpp"
#include "note_bytes.hpp"
#include "probe/notes.hpp"

namespace vitrine::probe {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using vitrine::test::note;
using vitrine::test::note_of;
using vitrine::test::NoteSection;
using vitrine::test::NoteText;

StapsdtNotes decode(NoteSection& section, elf::Encoding encoding = {}) {
  return decode_stapsdt_notes(section.bytes(), encoding);
}

std::vector<std::string> names(const StapsdtNotes& found) {
  std::vector<std::string> names;
  for (const StapsdtNote& one : found.notes) names.emplace_back(one.name);
  return names;
}

// The example of docs/formats/sdt.md, "Note", byte for byte.
TEST(StapsdtNote, DecodesTheSpecificationsExample) {
  constexpr unsigned char bytes[] =
      "\x08\0\0\0\x24\0\0\0\x03\0\0\0stapsdt\0\x80\x12\0\0\0\0\0\0\x17\x20\0\0\0\0\0\0"
      "\x42\x40\0\0\0\0\0\0t\0p\0-4@%edi\0";
  const auto found =
      decode_stapsdt_notes(std::as_bytes(std::span(bytes, sizeof bytes - 1)), elf::Encoding{});
  ASSERT_THAT(found.problems.list, IsEmpty());
  ASSERT_THAT(found.notes, SizeIs(1));
  EXPECT_EQ(found.notes[0].address, 0x1280);
  EXPECT_EQ(found.notes[0].base, 0x2017);
  EXPECT_EQ(found.notes[0].semaphore, 0x4042);
  EXPECT_EQ(found.notes[0].provider, "t");
  EXPECT_EQ(found.notes[0].name, "p");
  EXPECT_EQ(found.notes[0].arguments, "-4@%edi");
}

TEST(StapsdtNote, DecodesEveryClassAndByteOrder) {
  for (const bool wide : {true, false})
    for (const bool big_endian : {true, false}) {
      const elf::Encoding encoding{wide, big_endian};
      NoteSection section(encoding);
      NoteText first = note(0x1234567, "prov", "name", ":");
      first.base = 0x89;
      first.semaphore = 0xabcd;
      section.add(first);
      section.add(note(wide ? 0xffffffff80001000 : 0x80001000, "q", "r", ""));
      const auto found = decode(section, encoding);
      EXPECT_THAT(found.problems.list, IsEmpty());
      ASSERT_THAT(found.notes, SizeIs(2));
      EXPECT_EQ(found.notes[0].address, 0x1234567);
      EXPECT_EQ(found.notes[0].base, 0x89);
      EXPECT_EQ(found.notes[0].semaphore, 0xabcd);
      EXPECT_EQ(found.notes[0].arguments, ":");
      EXPECT_EQ(found.notes[1].address, wide ? 0xffffffff80001000 : 0x80001000);
      EXPECT_EQ(found.notes[1].arguments, "");
    }
}

TEST(StapsdtNote, PassesOverOtherNotesAndPadding) {
  NoteSection section;
  section.add(note(1, "p", "first", ""));
  section.text(std::string_view("\0\0\0\0\0\0\0\0", 8));
  NoteText older = note(2, "p", "older", "");
  older.type = 2;
  section.add(older);
  NoteText other = note(3, "p", "other", "");
  other.owner = std::string("GNU", 4);
  section.add(other);
  section.add(note(4, "p", "last", ""));
  section.text(std::string_view("\0\0\0\0", 4));
  const auto found = decode(section);
  EXPECT_THAT(found.problems.list, IsEmpty());
  EXPECT_THAT(names(found), ::testing::ElementsAre("first", "last"));
}

TEST(StapsdtNote, FindsTheNotesAfterOneThatLiesAboutItsSize) {
  for (const std::uint32_t size :
       {0xffffffffU, 0xfffffffdU, 0x7fffffffU, 1000U, 120U, 60U, 0U, 26U}) {
    NoteSection section;
    section.add(note(1, "p", "first", "8@%rax"));
    NoteText liar = note(2, "p", "liar", "8@%rax");
    liar.size = size;
    section.add(liar);
    section.add(note(3, "p", "after", "8@%rax"));
    section.add(note(4, "p", "last", "8@%rax"));
    const auto found = decode(section);
    EXPECT_THAT(found.problems.list, Not(IsEmpty())) << size;
    const auto all = names(found);
    EXPECT_EQ(all.front(), "first") << size;
    EXPECT_THAT(all, ::testing::IsSupersetOf({"after", "last"})) << size;
  }
}

TEST(StapsdtNote, FindsTheNotesAfterOneThatLiesAboutItsName) {
  for (const std::uint32_t size : {0xffffffffU, 0xfffffffdU, 0U, 7U, 9U, 4096U}) {
    NoteSection section;
    NoteText liar = note(2, "p", "liar", "8@%rax");
    liar.owner_size = size;
    section.add(liar);
    section.add(note(3, "p", "after", "8@%rax"));
    EXPECT_THAT(names(decode(section)), ::testing::Contains("after")) << size;
  }
}

TEST(StapsdtNote, SaysWhatIsWrongWithStringsAndKeepsTheRest) {
  const std::string long_name(limits::name_bytes + 1, 'n');
  const std::pair<std::string, std::string> wrong[] = {
      {std::string("abcdef", 6), "the provider in the note at offset 0x0 is not terminated"},
      {std::string("ab\0cdef", 7), "the name in the note at offset 0x0 is not terminated"},
      {std::string("\0b\0c\0", 5), "the provider in the note at offset 0x0 has 0 bytes"},
      {std::string("a\0\0c\0", 5), "the name in the note at offset 0x0 has 0 bytes"},
      {"a" + std::string(1, '\0') + long_name + std::string(2, '\0'), "has 4097 bytes"},
      {std::string("a", 1), "too few"}};
  for (const auto& [strings, message] : wrong) {
    NoteSection section;
    section.add(note_of(16, strings));
    section.add(note(32, "p", "after", ""));
    const auto found = decode(section);
    EXPECT_THAT(names(found), ::testing::ElementsAre("after"));
    ASSERT_THAT(found.problems.list, SizeIs(1)) << message;
    EXPECT_THAT(found.problems.list[0].message, HasSubstr(message));
  }
}

TEST(StapsdtNote, TakesArgumentsWithoutAnEndAndSaysSo) {
  NoteSection section;
  section.add({16, 0, 0,
               std::string("p\0n\0"
                           "8@%rax",
                           10)});
  const auto found = decode(section);
  ASSERT_THAT(found.notes, SizeIs(1));
  EXPECT_EQ(found.notes[0].arguments, "8@%rax");
  ASSERT_THAT(found.problems.list, SizeIs(1));
  EXPECT_THAT(found.problems.list[0].message, HasSubstr("are not terminated"));
}

TEST(StapsdtNote, KeepsAnyBytesInNames) {
  NoteSection section;
  section.add(note(16, "\x1b[31m", "\xff\"\n", "8@\x01"));
  const auto found = decode(section);
  ASSERT_THAT(found.notes, SizeIs(1));
  EXPECT_EQ(found.notes[0].provider, "\x1b[31m");
  EXPECT_EQ(found.notes[0].name, "\xff\"\n");
  EXPECT_EQ(found.notes[0].arguments, "8@\x01");
}

TEST(StapsdtNote, CutsArgumentsOfAMegabyte) {
  NoteSection section;
  section.add(note(16, "p", "n", std::string(1 << 20, '(')));
  section.add(note(16, "p", "after", ""));
  const auto found = decode(section);
  ASSERT_THAT(found.notes, SizeIs(2));
  EXPECT_EQ(found.notes[0].arguments.size(), limits::argument_text);
  EXPECT_THAT(found.problems.list, SizeIs(1));
}

TEST(StapsdtNote, IsRightWhereverTheSectionIsCut) {
  NoteSection whole;
  whole.add(note(1, "p", "a", "8@%rax")).add(note(2, "p", "b", "-4@8(%rsp)"));
  const std::size_t first = decode(whole).notes[1].offset;
  const std::size_t all = whole.bytes().size();
  for (std::size_t size = 0; size < all; ++size) {
    // A copy of its own: reading beyond it shows under the address sanitizer.
    const std::vector<std::byte> cut(whole.bytes().begin(),
                                     whole.bytes().begin() + static_cast<std::ptrdiff_t>(size));
    const auto found = decode_stapsdt_notes(cut, {});
    // Only the padding after a note may be missing: each of these has one byte of it.
    const bool one = size + 1 == first || size == first, both = size + 1 >= all;
    EXPECT_EQ(found.problems.list.empty(), size == 0 || one || both) << size;
    EXPECT_EQ(found.notes.size(), both ? 2 : size + 1 >= first ? 1 : 0) << size;
  }
}

TEST(StapsdtNote, BoundsNotesAndComplaints) {
  NoteSection one;
  one.add(note(1, "p", "n", ""));
  std::vector<std::byte> many;
  const std::size_t count = limits::probe_notes + 7;
  many.reserve(count * one.bytes().size());
  for (std::size_t i = 0; i < count; ++i)
    many.insert(many.end(), one.bytes().begin(), one.bytes().end());
  const auto found = decode_stapsdt_notes(many, {});
  EXPECT_EQ(found.notes.size(), limits::probe_notes);
  ASSERT_THAT(found.problems.list, SizeIs(1));
  EXPECT_THAT(found.problems.list[0].message, HasSubstr("more than"));

  NoteSection broken;
  for (std::size_t i = 0; i < limits::note_problems + 5; ++i) broken.add(note_of(16, "aaaa"));
  const auto complaints = decode(broken);
  EXPECT_EQ(complaints.problems.list.size(), limits::note_problems);
  EXPECT_EQ(complaints.problems.left_out, 5);
}

}  // namespace
}  // namespace vitrine::probe
