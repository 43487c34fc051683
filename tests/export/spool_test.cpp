// The spool: what waits, in memory and on disk, and what others put there.
#include "export/spool.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <malloc.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/gzip.hpp"
#include "export/full_disk.hpp"
#include "export/receiver.hpp"

namespace vitrine::exporter {
namespace {

using test::Folder;
using test::FullDisk;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

namespace fs = std::filesystem;

constexpr std::uint64_t plenty = 1U << 20;
constexpr std::uint64_t block = 4096;

std::string packed(const std::string& text) {
  return gzip(text).value();
}

std::vector<std::string> all_of(Spool& spool) {
  std::vector<std::string> texts;
  while (const auto content = spool.first()) {
    texts.push_back(gunzip(*content, plenty).value());
    spool.remove_first();
  }
  return texts;
}

unsigned mode_of(const fs::path& path) {
  struct stat status {};
  EXPECT_EQ(::lstat(path.c_str(), &status), 0);
  return status.st_mode & 07777;
}

std::vector<std::string> files_in(const fs::path& folder) {
  std::vector<std::string> names;
  for (const auto& file : fs::directory_iterator(folder))
    if (file.path().filename() != "lock") names.push_back(file.path().filename());
  return names;
}

void put(const fs::path& file, const std::string& content) {
  std::ofstream(file, std::ios::binary) << content;
}

TEST(Spool, FirstInFirstOut) {
  Folder folder;
  for (const std::string& directory : {std::string(), (folder / "spool").string()}) {
    auto spool = Spool::open(directory, plenty).value();
    for (const char* text : {"a", "b", "c"}) spool.add(packed(text), false);
    EXPECT_EQ(spool.size(), 3U);
    EXPECT_THAT(all_of(spool), ElementsAre("a", "b", "c"));
    EXPECT_TRUE(spool.empty());
    EXPECT_THAT(spool.take_notes(), IsEmpty());
  }
}

TEST(Spool, TheNextProcessTakesItUp) {
  Folder folder;
  {
    auto spool = Spool::open(folder.string(), plenty).value();
    for (const char* text : {"a", "b"}) spool.add(packed(text), false);
  }
  auto spool = Spool::open(folder.string(), plenty).value();
  spool.add(packed("c"), false);
  EXPECT_THAT(all_of(spool), ElementsAre("a", "b", "c"));
  EXPECT_THAT(files_in(folder), IsEmpty());
}

TEST(Spool, NobodyElseReadsIt) {
  Folder folder;
  const mode_t before = ::umask(0);
  auto spool = Spool::open((folder / "spool").string(), plenty).value();
  spool.add(packed("a"), false);
  ::umask(before);
  EXPECT_EQ(mode_of(folder / "spool"), 0700U);
  ASSERT_EQ(files_in(folder / "spool").size(), 1U);
  EXPECT_EQ(mode_of(folder / "spool" / files_in(folder / "spool").front()), 0600U);
}

TEST(Spool, TheOldestGoWhenItIsFull) {
  Folder folder;
  for (const std::string& directory : {std::string(), folder.string()}) {
    const std::uint64_t one = directory.empty() ? packed("a").size() : block;
    auto spool = Spool::open(directory, 4 * one - 1).value();
    for (const char* text : {"a", "b", "c", "d", "e"}) spool.add(packed(text), false);
    EXPECT_EQ(spool.overflowed(), 2U);
    EXPECT_THAT(all_of(spool), ElementsAre("c", "d", "e"));
  }
  EXPECT_THAT(files_in(folder), IsEmpty());
}

TEST(Spool, WhatIsBeingSentStays) {
  auto spool = Spool::open("", 2 * packed("a").size()).value();
  for (const char* text : {"a", "b", "c"}) spool.add(packed(text), true);
  EXPECT_EQ(spool.overflowed(), 1U);
  EXPECT_THAT(all_of(spool), ElementsAre("a", "c"));
}

TEST(Spool, ASmallerBoundHoldsForWhatIsThereAlready) {
  Folder folder;
  {
    auto spool = Spool::open(folder.string(), plenty).value();
    for (const char* text : {"a", "b", "c"}) spool.add(packed(text), false);
    EXPECT_EQ(spool.bytes(), 3 * block);
  }
  auto spool = Spool::open(folder.string(), 2 * block - 1).value();
  EXPECT_EQ(spool.overflowed(), 2U);
  EXPECT_THAT(all_of(spool), ElementsAre("c"));
}

TEST(Spool, OneThatHasNoRoomAtAllIsCounted) {
  auto spool = Spool::open("", 10).value();
  spool.add(packed("far too much"), false);
  EXPECT_EQ(spool.overflowed(), 1U);
  EXPECT_TRUE(spool.empty());
  EXPECT_THAT(spool.take_notes(), ElementsAre(HasSubstr("does not fit")));
}

TEST(Spool, OneProcessAtATime) {
  Folder folder;
  auto spool = Spool::open(folder.string(), plenty).value();
  const auto second = Spool::open(folder.string(), plenty);
  ASSERT_FALSE(second.has_value());
  EXPECT_THAT(second.error().message, HasSubstr("in use by another process"));
}

TEST(Spool, ADirectoryThatOthersWriteToIsRefused) {
  Folder folder;
  ASSERT_EQ(::chmod(folder.string().c_str(), 0777), 0);
  const auto spool = Spool::open(folder.string(), plenty);
  ASSERT_FALSE(spool.has_value());
  EXPECT_EQ(spool.error().code, ErrorCode::usage);
  EXPECT_THAT(spool.error().message,
              HasSubstr("belongs to another user, or other users can write to it"));
}

TEST(Spool, ALinkOfAnotherUserIsNotFollowed) {
  ASSERT_EQ(::geteuid(), 0U) << "needs root: gives a link away";
  Folder folder;
  fs::create_directory(folder / "place");
  fs::permissions(folder / "place", fs::perms{0755});
  fs::create_directory_symlink("place", folder / "link");
  ASSERT_EQ(::lchown((folder / "link").c_str(), 65534, 65534), 0);
  for (const char* slash : {"", "/"})
    EXPECT_FALSE(Spool::open((folder / "link").string() + slash, plenty).has_value()) << slash;
  EXPECT_THAT(files_in(folder / "place"), IsEmpty());
  EXPECT_FALSE(fs::exists(folder / "place" / "lock"));
  ASSERT_EQ(::lchown((folder / "link").c_str(), 0, 0), 0);  // as service managers make them
  EXPECT_TRUE(Spool::open((folder / "link").string() + "/", plenty).has_value());
  EXPECT_TRUE(fs::exists(folder / "place" / "lock"));
}

TEST(Spool, SaysWhatItCannotMake) {
  Folder folder;
  EXPECT_EQ(Spool::open((folder / "no").string() + "/such", plenty).error().code,
            ErrorCode::not_found);
  put(folder / "file", "");
  EXPECT_FALSE(Spool::open((folder / "file").string(), plenty).has_value());
}

TEST(Spool, WhatIsNoneOfOursIsPassedOverAndLeft) {
  Folder folder;
  const std::string good = packed("good");
  const std::string bomb = packed(std::string(65U << 20, '\0'));
  std::string changed = good;
  changed[changed.size() - 6] ^= 1;
  int number = 1;
  const auto next = [&] { return folder / fmt::format("{:019}.otlp.gz", number++); };
  put(next(), "no gzip");
  put(next(), "");
  put(next(), good.substr(0, good.size() - 1));
  put(next(), changed);
  put(next(), bomb);
  ASSERT_EQ(::mkfifo(next().c_str(), 0600), 0);  // must not make us wait
  fs::create_directory(next());
  fs::create_symlink("/etc/passwd", next());
  const fs::path sparse = next();  // must not be read
  put(sparse, "");
  fs::resize_file(sparse, 65U << 20);
  const std::uint64_t bad = static_cast<std::uint64_t>(number) - 1;
  put(next(), good);

  auto spool = Spool::open(folder.string(), 1U << 30).value();
  EXPECT_THAT(all_of(spool), ElementsAre("good"));
  EXPECT_EQ(spool.skipped(), bad);
  EXPECT_EQ(spool.take_notes().size(), bad);
  EXPECT_EQ(files_in(folder).size(), bad);
}

TEST(Spool, OtherNamesAreNotLookedAt) {
  Folder folder;
  for (const char* name :
       {"1.otlp.gz", "9999999999999999999.otlp.gz", "0000000000000000001.otlp.gzz",
        "-000000000000000001.otlp.gz", "readme", ".otlp.gz"})
    put(folder / name, packed("x"));
  auto spool = Spool::open(folder.string(), plenty).value();
  EXPECT_TRUE(spool.empty());
  EXPECT_EQ(spool.skipped(), 0U);
  EXPECT_EQ(files_in(folder).size(), 6U);
}

TEST(Spool, FilesThatAreTooManyGoOldestFirst) {
  Folder folder;
  for (std::size_t i = 10; i < 20; ++i)
    put(folder / ("00000000000000000" + std::to_string(i) + ".otlp.gz"), packed(std::to_string(i)));
  put(folder / "readme", "");
  {
    auto spool = Spool::open(folder.string(), plenty, Spool::otlp_files, 4).value();
    EXPECT_EQ(spool.overflowed(), 6U);
    EXPECT_EQ(spool.bytes(), 4 * block);
    EXPECT_EQ(spool.oldest_ns(), 16U);
    EXPECT_EQ(files_in(folder).size(), 5U);
  }
  auto spool = Spool::open(folder.string(), plenty).value();
  EXPECT_THAT(all_of(spool), ElementsAre("16", "17", "18", "19"));
}

TEST(Spool, TheOldestGoWhereThereAreTooMany) {
  Folder folder;
  for (const std::string& directory : {std::string(), folder.string()}) {
    auto spool = Spool::open(directory, plenty, Spool::otlp_files, 2).value();
    for (const char* text : {"a", "b", "c"}) spool.add(packed(text), false);
    EXPECT_EQ(spool.overflowed(), 1U);
    EXPECT_THAT(all_of(spool), ElementsAre("b", "c"));
  }
}

TEST(Spool, AFileThatAKilledWriterLeftIsRemoved) {
  Folder folder;
  put(folder / "unfinished-0", "half");
  put(folder / "unfinished-31", "half");
  auto spool = Spool::open(folder.string(), plenty).value();
  spool.add(packed("a"), false);
  EXPECT_THAT(all_of(spool), ElementsAre("a"));
  EXPECT_THAT(files_in(folder), IsEmpty());
}

TEST(Spool, AFileThatGoesAwayIsSaid) {
  Folder folder;
  auto spool = Spool::open(folder.string(), plenty).value();
  spool.add(packed("a"), false);
  spool.add(packed("b"), false);
  std::vector<std::string> names = files_in(folder);
  std::sort(names.begin(), names.end());
  fs::remove(folder / names.front());
  EXPECT_THAT(all_of(spool), ElementsAre("b"));
  EXPECT_EQ(spool.skipped(), 1U);
}

TEST(Spool, TheOrderOutlivesAClockThatIsSetBack) {
  Folder folder;
  put(folder / "8999999999999999999.otlp.gz", packed("from the future"));
  {
    auto spool = Spool::open(folder.string(), plenty).value();
    spool.add(packed("now"), false);
  }
  auto spool = Spool::open(folder.string(), plenty).value();
  EXPECT_THAT(all_of(spool), ElementsAre("from the future", "now"));
}

/// As a split at the exporter; killed in the middle of it.
TEST(Spool, TheWholeOrItsPartsAreThere) {
  Folder folder;
  {
    auto spool = Spool::open(folder.string(), plenty).value();
    spool.add(packed("ab"), false);
    spool.add(packed("c"), false);
    spool.replace_first({packed("a"), packed("b")});
    EXPECT_EQ(spool.size(), 3U);
  }
  const auto name = [&](std::size_t index) {
    std::vector<std::string> names = files_in(folder);
    std::sort(names.begin(), names.end());
    return names.at(index);
  };
  const std::string whole = name(1).substr(20);
  EXPECT_EQ(name(0).size(), whole.size());
  ASSERT_EQ(name(1).size(), 20 + whole.size());
  {  // they stay, and can be split again
    auto spool = Spool::open(folder.string(), plenty).value();
    spool.remove_first();
    spool.replace_first({packed("a1"), packed("a2")});
    spool.defer_first();
  }
  EXPECT_EQ(files_in(folder).size(), 3U);
  // One of them was not written yet, and so the whole one is still there.
  fs::copy(folder / name(0), folder / "another");
  put(folder / name(0).substr(20), packed("a"));
  auto spool = Spool::open(folder.string(), plenty).value();
  EXPECT_THAT(all_of(spool), ElementsAre("a", "b"));
  EXPECT_THAT(files_in(folder), ElementsAre("another"));
}

TEST(Spool, PartsTakeTheRoomOfTheWhole) {
  Folder folder;
  const std::string whole(2 * block, 'x'), half(block, 'x');
  for (const std::string& directory : {std::string(), folder.string()}) {
    auto spool = Spool::open(directory, 3 * block).value();
    spool.add(whole, false);
    spool.add(half, false);
    spool.replace_first({half, half});
    EXPECT_EQ(spool.overflowed(), 0U);
    EXPECT_EQ(spool.size(), 3U);
    EXPECT_EQ(spool.bytes(), 3 * block);
  }
}

TEST(Spool, WhatIsDeferredIsAsOldAsBefore) {
  Folder folder;
  auto spool = Spool::open(folder.string(), plenty).value();
  spool.add(packed("ab"), false);
  const std::uint64_t came = spool.oldest_ns();
  EXPECT_GT(came, 0U);
  spool.add(packed("c"), false);
  spool.defer_first();
  EXPECT_EQ(spool.oldest_ns(), came);
  spool.remove_first();
  spool.replace_first({packed("a"), packed("b")});
  EXPECT_EQ(spool.oldest_ns(), came);
  while (!spool.empty()) spool.remove_first();
  EXPECT_EQ(spool.oldest_ns(), 0U);
}

TEST(Spool, AFullDiskDoesNotFillTheMemoryInstead) {
  Folder folder;
  auto spool = Spool::open(folder.string(), 1U << 30).value();
  spool.add(packed("on disk"), false);
  const std::string large(16U << 20, 'x');
  {
    const FullDisk full;
    for (int i = 0; i < 6; ++i) spool.add(large, true);
  }
  EXPECT_EQ(spool.unwritten(), 4U);
  EXPECT_EQ(spool.overflowed(), 2U);
  EXPECT_EQ(spool.size(), 5U);
}

TEST(Spool, WhatADiskDidNotTakeIsWrittenWhenItCanBe) {
  Folder folder;
  {
    auto spool = Spool::open(folder.string(), plenty).value();
    {
      const FullDisk full;
      for (const char* text : {"a", "b"}) spool.add(packed(text), false);
    }
    EXPECT_EQ(spool.unwritten(), 2U);
    spool.add(packed("c"), false);
    EXPECT_EQ(spool.unwritten(), 0U);
  }
  auto spool = Spool::open(folder.string(), plenty).value();
  EXPECT_THAT(all_of(spool), ElementsAre("a", "b", "c"));
}

TEST(Spool, ManyAreWrittenAtOnceInTheirOrder) {
  Folder folder;
  std::vector<std::string> texts;
  {
    auto spool = Spool::open(folder.string(), plenty).value();
    for (int i = 0; i < 100; ++i) {
      texts.push_back(fmt::format("request {}", i));
      spool.hold(packed(texts.back()), false);
    }
    EXPECT_EQ(spool.unwritten(), 100U);
    EXPECT_THAT(files_in(folder), IsEmpty());
    spool.write_out(false);
    EXPECT_EQ(spool.unwritten(), 0U);
    EXPECT_EQ(files_in(folder).size(), 100U);
  }
  auto spool = Spool::open(folder.string(), plenty).value();
  EXPECT_EQ(all_of(spool), texts);
}

TEST(Spool, WhatIsOnDiskTakesNoMemory) {
  const Folder folder;
  auto spool = Spool::open((folder / "spool").string(), 1U << 30).value();
  const auto used = [] {
    const struct mallinfo2 memory = ::mallinfo2();
    return memory.uordblks + memory.hblkhd;
  };
  constexpr std::size_t bytes = 1U << 20, requests = 32;
  const std::size_t before = used();
  for (std::size_t i = 0; i < requests; ++i) spool.add(std::string(bytes, 'x'), false);
  EXPECT_EQ(spool.bytes(), requests * bytes);
  EXPECT_EQ(spool.unwritten(), 0U);
  EXPECT_LT(used(), before + 4 * bytes);
}

TEST(Spool, WhereTheDiskFillsUpInTheMiddleTheRestIsKept) {
  Folder folder;
  auto spool = Spool::open(folder.string(), plenty).value();
  for (const char* text : {"1", "2", "3", "too long", "4"}) spool.hold(text, false);
  {
    const FullDisk full;
    spool.write_out(false);
  }
  EXPECT_EQ(spool.unwritten(), 2U);
  EXPECT_EQ(files_in(folder).size(), 3U);  // nothing unfinished
  EXPECT_THAT(spool.take_notes(), ElementsAre(HasSubstr("kept in memory")));
  spool.write_out(false);
  EXPECT_EQ(spool.unwritten(), 0U);
  EXPECT_EQ(files_in(folder).size(), 5U);
}

TEST(Spool, AFullDiskLosesNothing) {
  Folder folder;
  auto spool = Spool::open(folder.string(), plenty).value();
  for (const auto& texts : {std::pair("a", "b"), std::pair("d", "e")}) {
    {
      const FullDisk full;
      spool.add(packed(texts.first), false);
      spool.add(packed(texts.second), false);
    }
    spool.add(packed("c"), false);
    // Each time that it begins.
    EXPECT_THAT(spool.take_notes(), ElementsAre(HasSubstr("kept in memory")));
  }
  EXPECT_THAT(all_of(spool), ElementsAre("a", "b", "c", "d", "e", "c"));
  EXPECT_THAT(files_in(folder), IsEmpty());
}

}  // namespace
}  // namespace vitrine::exporter
