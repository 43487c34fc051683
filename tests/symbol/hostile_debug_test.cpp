// Debug information that is damaged, is not there, or is not what it is called: the symbol table still names
// functions.
#include <elf.h>
#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/stat.h>

#include <cstring>
#include <functional>
#include <memory>

#include "symbol/assembly_lines.hpp"
#include "symbol/functions.hpp"
#include "symbol/hostile.hpp"

namespace vitrine::symbol {
namespace {

using testing::StartsWith;

struct AssemblyLines : testing::Test {
  const std::string path = SUBJECT_DIR "/assembly-lines";
  std::unique_ptr<sandbox::FileMemory> memory = sandbox::FileMemory::from(opened(path)).value();
  const elf::File elf = elf::read_file(*memory).value();
  const std::vector<std::byte> lines = section(".debug_line"), strings = section(".debug_line_str");
  const Address start = address_of(path, "_start");

  std::vector<std::byte> section(const char* name) {
    return elf::read_section(*memory, elf, *elf.find(name), 64U << 20).value().bytes;
  }
  Frames find(const std::vector<std::byte>& by_lines, const std::vector<std::byte>& by_strings) {
    return find_assembly_line({by_lines, by_strings}, elf, start, start + 1);
  }
};

TEST_F(AssemblyLines, OfAnyBytesAreOneLineOrNone) {
  ASSERT_EQ(find(lines, strings).size(), 1U);
  std::size_t found = 0, none = 0;
  const auto count = [&](const Frames& frames) {
    ASSERT_LE(frames.size(), 1U);
    ++(frames.empty() ? none : found);
  };
  for (const bool in_lines : {true, false}) {
    const std::vector<std::byte>& honest_bytes = in_lines ? lines : strings;
    for (std::size_t at = 0; at < honest_bytes.size(); ++at) {
      for (const unsigned other : {0x00U, 0x01U, 0x7fU, 0x80U, 0xffU}) {
        std::vector<std::byte> changed = honest_bytes;
        changed[at] = std::byte(other);
        count(in_lines ? find(changed, strings) : find(lines, changed));
      }
      const std::vector<std::byte> cut(honest_bytes.begin(),
                                       honest_bytes.begin() + static_cast<std::ptrdiff_t>(at));
      count(in_lines ? find(cut, strings) : find(lines, cut));
    }
  }
  EXPECT_GT(found, 0U);
  EXPECT_GT(none, 0U);
}

// Each address has its table read anew, and a byte of it may be a row.
TEST_F(AssemblyLines, OfALargeTableAreLeftToItsUnit) {
  std::uint32_t size = 0, header_size = 0;
  std::memcpy(&size, lines.data(), sizeof size);
  std::memcpy(&header_size, lines.data() + 8, sizeof header_size);
  constexpr std::size_t header_at = 12, set_address_bytes = 11;
  const auto rows_at = static_cast<std::ptrdiff_t>(header_at + header_size + set_address_bytes);
  for (const std::uint32_t rows : {32U << 10, 128U << 10}) {
    std::vector<std::byte> table(lines.begin(), lines.begin() + sizeof size + size);
    table.insert(table.begin() + rows_at, rows, std::byte{0x20});
    const std::uint32_t with_rows = size + rows;
    std::memcpy(table.data(), &with_rows, sizeof with_rows);
    EXPECT_EQ(find(table, strings).size(), rows < 64U << 10 ? 1U : 0U) << rows;
  }
}

// What says that it inflates to what it does not is not there; the symbol table is.
TEST_F(Hostile, CompressedSectionsThatLie) {
  const std::string path = SUBJECT_DIR "/gcc-gz";
  const std::string bytes = content(path);
  auto memory = sandbox::FileMemory::from(opened(path)).value();
  const auto elf = elf::read_file(*memory).value();
  const elf::Section* const section = elf.find(".debug_info");
  ASSERT_NE(section, nullptr);
  ASSERT_NE(section->flags & SHF_COMPRESSED, 0U);
  const std::vector<Address> asked{address_of(path, "main")};
  Symboliser symboliser;
  const auto named = [&](const auto& change) {
    std::string changed = bytes;
    Elf64_Chdr header{};
    char* const at = changed.data() + section->offset;
    std::memcpy(&header, at, sizeof header);
    change(header, at + sizeof header);
    std::memcpy(at, &header, sizeof header);
    const auto file = in_memory(changed);
    Resolved resolved = symboliser.resolve({"gcc-gz", file.get(), {}}, asked);
    EXPECT_FALSE(resolved.frames.at(0).empty());
    return std::pair(resolved.frames[0].back(), resolved.problem);
  };
  const auto [whole, no_problem] = named([](Elf64_Chdr&, char*) {});
  EXPECT_TRUE(whole.file.ends_with("/tests/symbol/subject.cpp"));
  EXPECT_EQ(no_problem, "");
  const std::function<void(Elf64_Chdr&, char*)> lies[] = {
      [](Elf64_Chdr& header, char*) { ++header.ch_size; },
      [](Elf64_Chdr& header, char*) { --header.ch_size; },
      [](Elf64_Chdr& header, char*) { header.ch_size = 0; },
      [](Elf64_Chdr& header, char*) { header.ch_size = 1ULL << 24; },
      [](Elf64_Chdr& header, char*) { header.ch_size = ~0ULL; },
      [](Elf64_Chdr& header, char*) { header.ch_type = 77; },
      [](Elf64_Chdr&, char* stream) { stream[0] = 0; },
      [&](Elf64_Chdr&, char* stream) { stream[section->size - 40] ^= 1; }};
  for (const auto& lie : lies) {
    const auto [frame, problem] = named(lie);
    EXPECT_EQ(frame.name, "main");
    EXPECT_EQ(frame.file, "");
    EXPECT_EQ(problem, "its section .debug_info cannot be decompressed");
  }
  expect_unharmed(symboliser);
}

/// A large compressed section of a file, near whose end it is damaged.
std::string damaged_near_end(const std::string& path, const std::string& name) {
  std::string changed = content(path);
  auto memory = sandbox::FileMemory::from(opened(path)).value();
  const auto elf = elf::read_file(*memory).value();
  const elf::Section* const section = elf.find(name);
  if (section == nullptr || (section->flags & SHF_COMPRESSED) == 0 || section->size < 1U << 19) {
    ADD_FAILURE() << path << " has no large compressed section " << name;
    return {};
  }
  std::memset(changed.data() + section->offset + section->size / 10 * 9, 0xff, 4096);
  return changed;
}

// A large section is inflated as far as it is read: what is not one further on is noticed when that is read.
TEST_F(Hostile, LargeCompressedSectionThatBreaks) {
  const std::string path = SUBJECT_DIR "/large-gz";
  const auto file = in_memory(damaged_near_end(path, ".debug_info"));
  const Address main = address_of(path, "main");
  constexpr Address in_no_unit = 1;
  Symboliser symboliser;
  static_cast<void>(symboliser.resolve({"large-gz", file.get(), {}}, std::vector{in_no_unit}));
  const Resolved answer = symboliser.resolve({"large-gz", file.get(), {}}, std::vector{main});
  EXPECT_EQ(answer.problem, "its section .debug_info cannot be decompressed");
  ASSERT_EQ(answer.frames.at(0).size(), 1U);
  EXPECT_EQ(answer.frames[0][0].name, "main");
  EXPECT_EQ(answer.frames[0][0].file, "");
  expect_unharmed(symboliser);
}

// Of what is damaged somewhere, all may be wrong: no types are better than other ones.
TEST_F(Hostile, LargeCompressedSectionThatBreaksDescribesNoFunction) {
  const std::string path = SUBJECT_DIR "/large-gz";
  const auto is_described = [](FileDescriptor file) {
    const auto memory = sandbox::FileMemory::from(std::move(file)).value();
    return find_functions(*memory, {{"main"}, {}, 1}, {}).value().functions.at(0).is_described;
  };
  EXPECT_TRUE(is_described(opened(path)));
  EXPECT_FALSE(is_described(in_memory(damaged_near_end(path, ".debug_info"))));
}

// A name of a debug file leads to regular ELF files alone, whatever the program says.
TEST_F(Hostile, DebugFilesThatAreNone) {
  const auto dir = std::filesystem::temp_directory_path() / "vitrine-symbol-debug-files";
  std::filesystem::remove_all(dir);
  std::filesystem::create_directory(dir);
  std::filesystem::copy_file(SUBJECT_DIR "/linked", dir / "linked");
  ASSERT_EQ(::mkfifo((dir / "linked.debug").c_str(), 0600), 0);
  std::filesystem::create_directory(dir / ".debug");
  std::filesystem::create_symlink("/dev/zero", dir / ".debug/linked.debug");
  const std::string path = dir / "linked";
  const auto file = opened(path);
  Symboliser symboliser;
  const Resolved answer =
      symboliser.resolve({path, file.get(), {}}, std::vector{address_of(honest, "main")});
  ASSERT_EQ(answer.frames[0].size(), 1U);
  EXPECT_THAT(answer.frames[0][0].name, StartsWith("+0x"));
  std::filesystem::remove_all(dir);
}

TEST_F(Hostile, SplitDebugInformationThatIsGone) {
  const auto dir = std::filesystem::temp_directory_path() / "vitrine-symbol-split";
  std::filesystem::create_directory(dir);
  // What it names lies outside of this root.
  const FileDescriptor root(::open(dir.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  const std::string path = SUBJECT_DIR "/gcc-split5";
  const auto file = opened(path);
  Symboliser symboliser;
  const Resolved answer =
      symboliser.resolve({path, file.get(), {root.get()}}, std::vector{address_of(path, "main")});
  EXPECT_NE(answer.problem.find(".dwo was not found"), std::string::npos) << answer.problem;
  ASSERT_EQ(answer.frames[0].size(), 1U);
  EXPECT_EQ(answer.frames[0][0].name, "main");
  EXPECT_NE(answer.frames[0][0].line, 0U);  // the lines stay with the program
  std::filesystem::remove_all(dir);
}

}  // namespace
}  // namespace vitrine::symbol
