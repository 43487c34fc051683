#include "probe/site_address.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace vitrine::probe {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// As lld lays a program out: no address is its offset. A part of the last segment is not in the
// file, its beginning is made read-only.
const std::vector<elf::Segment> segments{
    {PT_PHDR, PF_R, 0x40, 0x40, 0x1c0, 0x1c0},
    {PT_LOAD, PF_R, 0, 0, 0x5dc, 0x5dc},
    {PT_LOAD, PF_R | PF_X, 0x5e0, 0x15e0, 0x300, 0x300},
    {PT_LOAD, PF_R | PF_W, 0x8e0, 0x28e0, 0x200, 0x400},
    {PT_GNU_RELRO, PF_R, 0x8e0, 0x28e0, 0x100, 0x100},
};

FileLayout layout() {
  FileLayout layout;
  layout.segments = segments;
  layout.file_size = 0x2000;
  return layout;
}

StapsdtNote note(Address address, Address semaphore = 0, Address base = 0) {
  StapsdtNote note;
  note.address = address;
  note.semaphore = semaphore;
  note.base = base;
  note.arguments = "-4@%edi 8@%rsi";
  return note;
}

TEST(SiteAddress, FindsOffsetsByTheSegments) {
  const auto site = make_site(note(0x15e8, 0x29f0), layout());
  ASSERT_TRUE(site);
  EXPECT_EQ(site->address, 0x15e8);
  EXPECT_EQ(site->file_offset, 0x5e8);
  EXPECT_EQ(site->semaphore, 0x29f0);
  EXPECT_EQ(site->semaphore_offset, 0x9f0);
  EXPECT_THAT(site->arguments, ElementsAre("-4@%edi", "8@%rsi"));
  EXPECT_THAT(site->problems, IsEmpty());
}

TEST(SiteAddress, FollowsASectionThatMoved) {
  FileLayout moved = layout();
  moved.stapsdt_base = 0x500;
  const auto site = make_site(note(0x1e8, 0x15f0, 0x500 - 0x1400), moved);
  ASSERT_TRUE(site);
  EXPECT_EQ(site->address, 0x15e8);
  EXPECT_EQ(site->semaphore, 0x29f0);
  // Nothing to go by: neither without the section, nor where the linker threw it away.
  EXPECT_EQ(make_site(note(0x15e8, 0, 0x700), layout())->address, 0x15e8);
  EXPECT_EQ(make_site(note(0x15e8, 0, 0), moved)->address, 0x15e8);
  // No semaphore stays none.
  EXPECT_EQ(make_site(note(0x1e8, 0, 0x500 - 0x1400), moved)->semaphore, 0);
}

TEST(SiteAddress, LeavesOutTombstones) {
  for (const Address address : {Address{0}, Address{4}, Address{63}, Address{0x123}, UINT64_MAX,
                                UINT64_MAX - 1, Address{UINT32_MAX}, Address{UINT32_MAX - 1}})
    EXPECT_FALSE(make_site(note(address), layout())) << std::hex << address;
}

TEST(SiteAddress, SaysWhyNothingCanBeProbed) {
  const auto problem_at = [](Address address, const FileLayout& file) {
    const auto site = make_site(note(address), file);
    EXPECT_TRUE(site && !site->file_offset && site->problems.size() == 1);
    return site ? site->problems.at(0) : std::string();
  };
  EXPECT_THAT(problem_at(0x28f0, layout()), HasSubstr("0x28f0 is not in executable memory"));
  EXPECT_THAT(problem_at(0x7fff00000000, layout()), HasSubstr("not in executable memory"));

  auto tail = segments;
  tail[2].file_size = 0x10;
  FileLayout short_file = layout();
  short_file.segments = tail;
  EXPECT_THAT(problem_at(0x15f0, short_file), HasSubstr("in memory, but not in the file"));

  FileLayout truncated = layout();
  truncated.file_size = 0x5e8;
  EXPECT_THAT(problem_at(0x15e8, truncated), HasSubstr("beyond the end of the file"));

  FileLayout object = layout();
  object.type = ET_REL;
  EXPECT_THAT(problem_at(0x15e8, object), HasSubstr("not linked"));

  FileLayout bare = layout();
  bare.segments = {};
  EXPECT_THAT(problem_at(0x15e8, bare), HasSubstr("no program headers"));
}

TEST(SiteAddress, SaysWhyASemaphoreCannotCount) {
  const std::pair<Address, const char*> wrong[] = {{0x15f0, "not in writable memory"},
                                                   {0x7fff00000000, "not in writable memory"},
                                                   {0x28f0, "RELRO"},
                                                   {0x2b00, ".bss"},
                                                   {0x2adf, ".bss"},
                                                   {0x29f1, "odd"}};
  for (const auto& [address, message] : wrong) {
    const auto site = make_site(note(0x15e8, address), layout());
    ASSERT_TRUE(site);
    EXPECT_EQ(site->file_offset, 0x5e8);
    EXPECT_EQ(site->semaphore, address);
    EXPECT_FALSE(site->semaphore_offset) << std::hex << address;
    EXPECT_THAT(site->problems, ElementsAre(HasSubstr(message))) << std::hex << address;
  }
}

TEST(SiteAddress, SeesPagesThatAreMappedTwice) {
  // As lld does: RELRO in a segment of its own, whose last page of the file is the next one's first.
  const std::vector<elf::Segment> twice{
      {PT_LOAD, PF_R | PF_X, 0x5e0, 0x15e0, 0x300, 0x300},
      {PT_LOAD, PF_R | PF_W, 0x8e0, 0x28e0, 0x220, 0x720},
      {PT_LOAD, PF_R | PF_W, 0xb00, 0x3b00, 0x1600, 0x1700},
      {PT_GNU_RELRO, PF_R, 0x8e0, 0x28e0, 0x720, 0x720},
  };
  FileLayout file = layout();
  file.segments = twice;
  file.file_size = 0x3000;
  const auto page = page_mapped_twice(0x3b10, file);
  ASSERT_TRUE(page);
  EXPECT_EQ(page->offset, 0);
  EXPECT_EQ(page->own, 0x3000);
  EXPECT_EQ(page->first, 0x2000);
  const auto site = make_site(note(0x15e8, 0x3b10), file);
  ASSERT_TRUE(site);
  EXPECT_EQ(site->semaphore_offset, 0xb10);
  EXPECT_EQ(site->counted_first, 0x2000);
  EXPECT_THAT(site->problems, IsEmpty());
  // The next page of the file is mapped once.
  EXPECT_FALSE(page_mapped_twice(0x4010, file));
  EXPECT_FALSE(make_site(note(0x15e8, 0x4010), file)->counted_first);
  file.page_bytes = 65536;  // then it is the same page
  EXPECT_TRUE(page_mapped_twice(0x4010, file));
  // One segment, or one that comes later, is no other place.
  EXPECT_FALSE(page_mapped_twice(0x29f0, layout()));
  EXPECT_FALSE(page_mapped_twice(0x7fff00000000, layout()));
}

TEST(SiteAddress, BelievesNoSegment) {
  const std::vector<elf::Segment> lies{
      {PT_LOAD, PF_R | PF_X, UINT64_MAX - 8, 0x1000, UINT64_MAX, UINT64_MAX},
      {PT_LOAD, PF_R | PF_X, 0x100, UINT64_MAX - 0x10, 0x1000, 0x1000}};
  FileLayout file = layout();
  file.segments = lies;
  EXPECT_FALSE(make_site(note(0x2000), file)->file_offset);
  EXPECT_EQ(make_site(note(UINT64_MAX - 5), file)->file_offset, 0x10b);
  EXPECT_FALSE(file_offset(lies, UINT64_MAX, 0x2000, PF_X));
}

}  // namespace
}  // namespace vitrine::probe
