#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <vector>

#include "base/limits.hpp"
#include "symbol/jit_symbols.hpp"
#include "target/mapped_files.hpp"
#include "target/proc_file.hpp"

namespace vitrine::symbol {
namespace {

TEST(PerfMap, FunctionsByAddress) {
  PerfMap map;
  map.add(
      "7f0000001000 40 LazyCompile:~handle /srv/app.js:12\n"
      "0x7f0000001040 0x20 second\n"
      "no line\n"
      "7f0000002000 10\n"
      "zz 10 name\n");
  EXPECT_EQ(map.size(), 2U);
  EXPECT_EQ(map.find(0x7f0000001000)->name, "LazyCompile:~handle /srv/app.js:12");
  EXPECT_EQ(map.find(0x7f000000103f)->start, 0x7f0000001000U);
  EXPECT_EQ(map.find(0x7f0000001040)->name, "second");
  EXPECT_FALSE(map.find(0x7f0000001060));
}

TEST(PerfMap, MemoryIsUsedAgain) {
  PerfMap map;
  map.add("1000 100 old\n");
  map.add("1040 40 new\n");
  EXPECT_EQ(map.find(0x1000)->name, "old");
  EXPECT_EQ(map.find(0x1050)->name, "new");
  EXPECT_EQ(map.find(0x1090)->name, "old");
}

TEST(PerfMap, AnUnfinishedLineComesNextTime) {
  PerfMap map;
  const std::string text = "1000 10 first\n2000 10 sec";
  map.add(text);
  EXPECT_EQ(map.size(), 1U);
  EXPECT_EQ(map.taken(), 14U);
  map.add(text.substr(map.taken()) + "ond\n");
  EXPECT_EQ(map.find(0x2005)->name, "second");
}

TEST(PerfMap, ASizeBeyondTheEndIsNothing) {
  PerfMap map;
  map.add("fffffffffffffff0 ffffffffffffffff all\n1000 10 fine\n");
  EXPECT_FALSE(map.find(5));
  EXPECT_EQ(map.find(0x1001)->name, "fine");
}

/// The test process as the one that is profiled.
class PerfMapFile : public testing::Test {
 protected:
  void SetUp() override {
    std::filesystem::remove(path_);
    auto dir = target::open_at(AT_FDCWD, "/", O_PATH | O_DIRECTORY);
    ASSERT_TRUE(dir);
    root_ = std::move(*dir);
  }
  void TearDown() override { std::filesystem::remove(path_); }

  std::string path_ = fmt::format("/tmp/perf-{}.map", ::getpid());
  FileDescriptor root_;

  /// Each of 16 bytes, from 0x1000 on.
  void write_functions(int count) const { write_functions(path_, count); }
  static void write_functions(const std::string& path, int count) {
    std::ofstream file(path);
    for (int i = 0; i < count; ++i)
      file << fmt::format("{:x} 10 function_with_a_name_of_some_length_{}\n", 0x1000 + i * 16, i);
  }
  Result<target::PerfMapText> read(target::KnownPerfMap& known) {
    return target::read_perf_map(root_.get(), ::getpid(), ::geteuid(), known,
                                 limits::perf_map_bytes);
  }
  Result<target::PerfMapText> read() {
    target::KnownPerfMap nothing;
    return read(nothing);
  }
  std::string refresh(JitSymbols& symbols) {
    return symbols.refresh(root_.get(), ::getpid(), ::geteuid(), [](std::size_t) { return true; });
  }
};

TEST_F(PerfMapFile, IsReadAndReadOnWhenItGrew) {
  EXPECT_EQ(read().error().code, ErrorCode::not_found);
  std::ofstream(path_) << "1000 10 first\n2000 1";
  target::KnownPerfMap known;
  EXPECT_EQ(read(known).value().text, "1000 10 first\n2000 1");
  known.add("1000 10 first\n");
  std::ofstream(path_, std::ios::app) << "0 second\n";
  const auto more = read(known).value();
  EXPECT_EQ(more.text, "2000 10 second\n");
  EXPECT_FALSE(more.anew);
  known.add(more.text);
  EXPECT_EQ(read(known).value().text, "");
  std::ofstream(path_, std::ios::trunc) << "3000 10 x\n";
  const auto anew = read(known).value();
  EXPECT_TRUE(anew.anew);
  EXPECT_EQ(anew.text, "3000 10 x\n");
}

/// A file that is longer than the one that was read, and is another: nothing of that one is left.
class AnotherPerfMap : public PerfMapFile {
 protected:
  static constexpr int functions = 10'000;  // some 600 KiB

  static std::string line(int number, const char* name) {
    return fmt::format("{:x} 10 {}_{:05}\n", 0x1000 + number * 16, name, number);
  }
  static std::string text(int count, const char* name) {
    std::string text;
    for (int i = 0; i < count; ++i) text += line(i, name);
    return text;
  }
  void SetUp() override {
    PerfMapFile::SetUp();
    std::ofstream(path_) << text(functions, "old");
    ASSERT_EQ(refresh(symbols_), "");
    ASSERT_EQ(name_at(functions - 1), "old_09999");
  }
  std::string name_at(int number) const {
    const auto function = symbols_.find(0x1001 + static_cast<Address>(number) * 16);
    return function ? std::string(function->name) : "none";
  }

  JitSymbols symbols_;
};

TEST_F(AnotherPerfMap, InItsPlaceIsReadAnew) {
  std::ofstream(path_ + ".new") << text(2 * functions, "yet");
  std::filesystem::rename(path_ + ".new", path_);
  ASSERT_EQ(refresh(symbols_), "");
  for (const int number : {0, functions / 2, functions, 2 * functions - 1})
    EXPECT_EQ(name_at(number), fmt::format("yet_{:05}", number));
}

TEST_F(AnotherPerfMap, WrittenOverItIsReadAnew) {
  std::ofstream(path_, std::ios::trunc) << text(2 * functions, "new");
  ASSERT_EQ(refresh(symbols_), "");
  for (const int number : {0, functions / 2, functions - 1, functions})
    EXPECT_EQ(name_at(number), fmt::format("new_{:05}", number));
}

TEST_F(AnotherPerfMap, WithTheSameBeginningAndEndIsReadAnew) {
  // The functions of the middle are others, and one is missing, as when they were recompiled.
  std::string other = text(functions / 4, "old");
  for (int i = functions / 4; i < functions / 2; ++i)
    if (i != functions / 3) other += line(i, "new");
  for (int i = functions / 2; i < functions + 10; ++i) other += line(i, "old");
  std::ofstream(path_, std::ios::trunc) << other;
  ASSERT_EQ(refresh(symbols_), "");
  EXPECT_EQ(name_at(functions / 4), "new_02500");
  EXPECT_EQ(name_at(functions / 3), "none");
  EXPECT_EQ(name_at(functions + 9), "old_10009");
}

TEST_F(AnotherPerfMap, OfTheSameLengthIsReadAnewWhateverLineDiffers) {
  // One function between the parts of the text that are compared.
  constexpr int other = 500;
  const std::size_t at = text(other, "old").size();
  ASSERT_GT(at, 4096U);
  ASSERT_LT(at, 60'000U);
  const auto changed = [this] {
    struct stat status {};
    EXPECT_EQ(::stat(path_.c_str(), &status), 0);
    return std::pair(status.st_ctim.tv_sec, status.st_ctim.tv_nsec);
  };
  const auto before = changed();
  {
    std::fstream file(path_, std::ios::in | std::ios::out);
    file.seekp(static_cast<std::streamoff>(at));
    file << line(other, "new");
  }
  while (changed() == before)  // the kernel counts some milliseconds
    std::filesystem::last_write_time(path_, std::filesystem::file_time_type::clock::now());
  ASSERT_EQ(refresh(symbols_), "");
  EXPECT_EQ(name_at(other), "new_00500");
  EXPECT_EQ(name_at(other + 1), "old_00501");
}

TEST_F(AnotherPerfMap, ThatOnlyGrewIsReadOn) {
  const std::string before = text(functions, "old");
  target::KnownPerfMap known;
  ASSERT_EQ(read(known).value().text, before);
  // As it is read piece by piece.
  constexpr std::size_t piece = 50'000;
  for (std::size_t at = 0; at < before.size(); at += piece) {
    known.add(std::string_view(before).substr(at, piece));
    EXPECT_FALSE(read(known).value().anew) << at;
  }
  std::ofstream(path_, std::ios::app) << "1 1 more\n";
  const auto more = read(known).value();
  EXPECT_FALSE(more.anew);
  EXPECT_EQ(more.text, "1 1 more\n");
}

TEST_F(PerfMapFile, APipeIsNotOpened) {
  ASSERT_EQ(::mkfifo(path_.c_str(), 0666), 0);
  const auto text = read();
  ASSERT_FALSE(text);
  EXPECT_EQ(text.error().code, ErrorCode::unsupported);
}

TEST_F(PerfMapFile, ALinkIsNotFollowed) {
  std::filesystem::create_symlink("/etc/passwd", path_);
  const auto text = read();
  ASSERT_FALSE(text);
  EXPECT_EQ(text.error().message, path_ + " is a link");
}

TEST_F(PerfMapFile, OfAnotherUserIsNotBelieved) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root: gives a file away";
  std::ofstream(path_) << "1000 10 forged\n";
  ASSERT_EQ(::chown(path_.c_str(), 65534, 65534), 0);
  const auto text = read();
  ASSERT_FALSE(text);
  EXPECT_EQ(text.error().code, ErrorCode::not_permitted);
  EXPECT_NE(text.error().message.find("belongs to user 65534"), std::string::npos);
}

TEST_F(PerfMapFile, IsReadInPieces) {
  constexpr int functions = 60'000;
  write_functions(functions);
  ASSERT_GT(std::filesystem::file_size(path_), 2U << 20);
  JitSymbols symbols;
  EXPECT_EQ(symbols.refresh(root_.get(), ::getpid(), ::geteuid(), [](std::size_t) { return true; }),
            "");
  for (int i = 0; i < functions; ++i) {
    const auto function = symbols.find(0x1008 + static_cast<Address>(i) * 16);
    ASSERT_TRUE(function) << i;
    EXPECT_EQ(function->name, fmt::format("function_with_a_name_of_some_length_{}", i));
  }
}

/// Files of processes that there are not: numbers beyond all that the kernel gives.
class PerfMapFiles : public PerfMapFile {
 protected:
  static constexpr pid_t first = 1 << 23, files = 3;

  void SetUp() override {
    PerfMapFile::SetUp();
    for (pid_t pid = first; pid < first + files; ++pid) {
      std::ofstream file(fmt::format("/tmp/perf-{}.map", pid));
      file << "1000 10 " << std::string(4000, 'n') << '\n';
    }
  }
  void TearDown() override {
    for (pid_t pid = first; pid < first + files; ++pid)
      std::filesystem::remove(fmt::format("/tmp/perf-{}.map", pid));
    PerfMapFile::TearDown();
  }
  std::string refresh(JitMemory& memory, int which) {
    return memory.refresh(symbols_[which], root_.get(), first + which, ::geteuid());
  }
  std::vector<bool> found() const {
    std::vector<bool> all;
    for (const auto& symbols : symbols_) all.push_back(symbols->find(0x1001).has_value());
    return all;
  }

  std::shared_ptr<JitSymbols> symbols_[files] = {std::make_shared<JitSymbols>(),
                                                 std::make_shared<JitSymbols>(),
                                                 std::make_shared<JitSymbols>()};
};

TEST_F(PerfMapFiles, ShareOneMemory) {
  using Found = std::vector<bool>;
  constexpr std::size_t max_bytes = 11'000;  // two have room
  JitMemory memory(max_bytes);
  EXPECT_EQ(refresh(memory, 0), "");
  EXPECT_EQ(refresh(memory, 1), "");
  EXPECT_NE(refresh(memory, 2).find("not used: limit"), std::string::npos);
  EXPECT_EQ(found(), (Found{true, true, false}));
  memory.begin_round();
  EXPECT_EQ(refresh(memory, 0), "");
  EXPECT_EQ(refresh(memory, 2), "");
  EXPECT_EQ(found(), (Found{true, false, true})) << "the least recently used made room";
  EXPECT_LE(memory.bytes(), max_bytes);
  symbols_[0] = std::make_shared<JitSymbols>();  // its process ended
  EXPECT_EQ(refresh(memory, 1), "");
  EXPECT_EQ(found(), (Found{false, true, true}));
}

TEST_F(PerfMapFiles, OneWithoutRoomIsReadAgainInTheNextRoundAlone) {
  JitMemory memory(1000);
  EXPECT_NE(refresh(memory, 0).find("not used: limit"), std::string::npos);
  std::ofstream(fmt::format("/tmp/perf-{}.map", first)) << "1000 10 small\n";
  EXPECT_EQ(refresh(memory, 0), "");
  EXPECT_FALSE(symbols_[0]->find(0x1001)) << "it was not read";
  memory.begin_round();
  EXPECT_EQ(refresh(memory, 0), "");
  EXPECT_TRUE(symbols_[0]->find(0x1001));
}

TEST_F(PerfMapFiles, ThatHadRoomForItsFirstPartAloneIsReadOnWhenThereIsRoom) {
  constexpr int functions = 60'000;
  constexpr Address last = 0x1001 + (functions - 1) * 16;
  for (const int which : {0, 1})
    write_functions(fmt::format("/tmp/perf-{}.map", first + which), functions);
  JitMemory memory(12U << 20);
  ASSERT_EQ(refresh(memory, 0), "");
  ASSERT_TRUE(symbols_[0]->find(last));
  const std::string problem = refresh(memory, 1);
  EXPECT_THAT(problem, testing::ContainsRegex("only its first [0-9]+ functions are used: limit"));
  EXPECT_TRUE(symbols_[1]->find(0x1001));
  EXPECT_FALSE(symbols_[1]->find(last));
  memory.begin_round();
  ASSERT_EQ(refresh(memory, 0), "") << "it is still used";
  EXPECT_EQ(refresh(memory, 1), problem) << "each round reports it";
  symbols_[0] = std::make_shared<JitSymbols>();  // its process ended
  EXPECT_EQ(refresh(memory, 1), "") << "not in this round";
  EXPECT_FALSE(symbols_[1]->find(last));
  memory.begin_round();
  EXPECT_EQ(refresh(memory, 1), "");
  for (int i = 0; i < functions; ++i) {
    const auto function = symbols_[1]->find(0x1001 + static_cast<Address>(i) * 16);
    ASSERT_TRUE(function) << i;
    ASSERT_EQ(function->name, fmt::format("function_with_a_name_of_some_length_{}", i));
  }
}

TEST_F(PerfMapFile, OfTooManyFunctionsIsReportedUntilItIsAnother) {
  {
    std::ofstream file(path_);
    for (std::size_t i = 0; i <= limits::perf_map_symbols; ++i) file << "1000 10 f\n";
  }
  JitSymbols symbols;
  const auto refreshed = [&] {
    return symbols.refresh(root_.get(), ::getpid(), ::geteuid(), [](std::size_t) { return true; });
  };
  for (int i = 0; i < 2; ++i)
    EXPECT_EQ(refreshed(), fmt::format("{}: too long: only its first {} functions are used", path_,
                                       limits::perf_map_symbols));
  std::ofstream(path_, std::ios::trunc) << "2000 10 other\n";
  EXPECT_EQ(refreshed(), "");
  EXPECT_TRUE(symbols.find(0x2001));
  EXPECT_FALSE(symbols.find(0x1001));
}

TEST_F(PerfMapFile, ThatExceedsTheMemoryAloneHasItsFirstPart) {
  constexpr std::size_t max_bytes = 4U << 20;
  constexpr int functions = 60'000;
  write_functions(functions);
  JitMemory memory(max_bytes);
  const auto symbols = std::make_shared<JitSymbols>();
  const std::string problem = memory.refresh(symbols, root_.get(), ::getpid(), ::geteuid());
  EXPECT_THAT(problem, testing::ContainsRegex("only its first [0-9]+ functions are used"));
  EXPECT_TRUE(symbols->find(0x1001));
  EXPECT_FALSE(symbols->find(0x1001 + (functions - 1) * 16));
  EXPECT_LE(memory.bytes(), max_bytes);
}

// One of 8 GiB, though it takes no room: what we take of it is bounded.
TEST_F(PerfMapFile, AHugeOneIsCut) {
  std::ofstream(path_) << "1000 10 first\n";
  ASSERT_EQ(::truncate(path_.c_str(), 8LL << 30), 0);
  const auto text = read();
  ASSERT_TRUE(text);
  EXPECT_EQ(text->text.size(), limits::perf_map_bytes);
  PerfMap map;
  map.add(text->text);
  EXPECT_EQ(map.size(), 1U);
  EXPECT_EQ(map.taken(), text->text.size());  // and is not read again
}

}  // namespace
}  // namespace vitrine::symbol
