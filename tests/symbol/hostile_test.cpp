// Files that mean harm, or were harmed: they cost their own symbols and nothing else.
#include <elf.h>
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <malloc.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <random>
#include <thread>

#include "base/limits.hpp"
#include "elf/file.hpp"
#include "elf/symbol_table.hpp"
#include "sandbox/files.hpp"
#include "symbol/assembly_lines.hpp"
#include "symbol/background.hpp"
#include "symbol/functions.hpp"
#include "symbol/symboliser.hpp"

namespace vitrine::symbol {
namespace {

using testing::StartsWith;

const std::string honest = SUBJECT_DIR "/gcc-dwarf5";

std::string content(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

FileDescriptor opened(const std::string& path) {
  return sandbox::open_regular_at(AT_FDCWD, path).value();
}

FileDescriptor in_memory(const std::string& bytes) {
  FileDescriptor fd(::memfd_create("subject", MFD_CLOEXEC));
  EXPECT_EQ(::write(fd.get(), bytes.data(), bytes.size()), static_cast<ssize_t>(bytes.size()));
  return fd;
}

/// The address of a function by its symbol.
Address address_of(const std::string& path, const std::string& name) {
  auto memory = sandbox::FileMemory::from(opened(path)).value();
  const auto elf = elf::read_file(*memory).value();
  const auto table = elf::SymbolTable::read(*memory, elf, 2 /* SHT_SYMTAB */).value();
  const auto found = table.find(name);
  EXPECT_FALSE(found.empty()) << name;
  return found.empty() ? 0 : table.at(found[0]).value;
}

std::size_t children() {
  std::size_t count = 0;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    std::ifstream in(task.path() / "children");
    for (pid_t pid; in >> pid;) ++count;
  }
  return count;
}

class Hostile : public testing::Test {
 protected:
  // What a test has freed, and arenas of its threads, would be the parsers' to use, beyond their limits.
  Hostile() {
    ::mallopt(M_MMAP_THRESHOLD, 128 * 1024);
    ::mallopt(M_ARENA_MAX, 1);
  }

  /// The honest file is named as ever.
  void expect_unharmed(Symboliser& symboliser) {
    const auto file = opened(honest);
    const Address main = address_of(honest, "main");
    const Resolved answer = symboliser.resolve({honest, file.get(), {}}, std::vector{main});
    EXPECT_EQ(answer.problem, "");
    ASSERT_EQ(answer.frames.size(), 1U);
    ASSERT_FALSE(answer.frames[0].empty());
    EXPECT_EQ(answer.frames[0].back().name, "main");
    EXPECT_TRUE(answer.frames[0].back().file.ends_with("/tests/symbol/subject.cpp"));
  }
};

// The first who asks has no debug file, or a forged one, where it looks: others do not get that.
TEST_F(Hostile, WhatOneProcessesRootHasIsNotWhatAnothersHas) {
  const std::string path = SUBJECT_DIR "/linked";
  const auto file = opened(path);
  const Address main = address_of(honest, "main");
  const FileDescriptor empty(::open(testing::TempDir().c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  const FileDescriptor root(::open("/", O_PATH | O_DIRECTORY | O_CLOEXEC));
  Symboliser symboliser;
  const auto name_in = [&](const FileDescriptor& where) {
    const Resolved answer =
        symboliser.resolve({path, file.get(), {where.get()}}, std::vector{main});
    return answer.frames.at(0).empty() ? "" : answer.frames[0].back().name;
  };
  EXPECT_THAT(name_in(empty), StartsWith("+0x"));  // by its place in the file
  EXPECT_EQ(name_in(root), "main");
  EXPECT_THAT(name_in(empty), StartsWith("+0x"));
}

TEST_F(Hostile, AParserThatStallsIsStopped) {
  const std::string path = SUBJECT_DIR "/stall";
  Limits limits;
  limits.time = std::chrono::milliseconds(500);
  Symboliser symboliser(limits);
  const auto file = opened(path);
  const Address trapped = address_of(path, "trapped");
  const Resolved answer = symboliser.resolve({path, file.get(), {}}, std::vector{trapped + 1});
  EXPECT_EQ(answer.problem,
            "its parser was stopped: it took longer than 0.5 s; names come from its symbol table");
  ASSERT_EQ(answer.frames[0].size(), 1U);
  EXPECT_EQ(answer.frames[0][0].name, "trapped");
  Symboliser patient;
  expect_unharmed(patient);
}

TEST_F(Hostile, FilesThatTakeLongHoldNoOthersUp) {
  using Clock = BackgroundSymboliser::Clock;
  BackgroundLimits limits;
  limits.quick.time = std::chrono::milliseconds(300);
  std::vector<FileDescriptor> stalls;
  std::vector<FileKey> stalled;
  const Address trapped = address_of(SUBJECT_DIR "/stall", "trapped") + 1;
  const auto file = opened(honest);
  const File quick{
      honest, file.get(), {}, sandbox::FileMemory::from(opened(honest)).value()->identity()};
  const Address main = address_of(honest, "main");
  Clock::time_point ended_at;
  {
    BackgroundSymboliser names(limits);
    for (int i = 0; i < 3; ++i) {
      stalls.push_back(in_memory(content(SUBJECT_DIR "/stall")));
      const auto memory =
          sandbox::FileMemory::from(FileDescriptor(::dup(stalls.back().get()))).value();
      const File stall{"stall", stalls.back().get(), {}, memory->identity()};
      stalled.push_back(key_of(stall));
      names.ask(stall, std::vector{trapped});
    }
    names.ask(quick, std::vector{main});
    const auto begin = Clock::now();
    names.wait({begin + std::chrono::milliseconds(10)});  // and does not wait for more
    const auto all_named = [&] {
      for (const FileKey& stall : stalled)
        if (names.names(stall, std::vector{trapped}).unresolved != 0) return false;
      return names.names(key_of(quick), std::vector{main}).unresolved == 0;
    };
    while (!all_named() && Clock::now() < begin + std::chrono::seconds(25))
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    const auto known = names.names(key_of(quick), std::vector{main});
    EXPECT_EQ(known.resolved.problem, "");
    EXPECT_EQ(known.unresolved, 0U);
    EXPECT_EQ(known.unresolved == 0 ? known.resolved.frames[0].back().name : "", "main");
    EXPECT_FALSE(names.numbers(key_of(quick)).build_id.empty());
    for (const FileKey& stall : stalled) {  // by their symbol tables
      const auto of_stall = names.names(stall, std::vector{trapped});
      ASSERT_EQ(of_stall.unresolved, 0U);
      ASSERT_EQ(of_stall.resolved.frames[0].size(), 1U);
      EXPECT_EQ(of_stall.resolved.frames[0][0].name, "trapped");
      EXPECT_NE(of_stall.resolved.problem, "");
    }
    ended_at = Clock::now();
  }
  // The other thread had half a minute for each of the three.
  EXPECT_LT(Clock::now() - ended_at, std::chrono::seconds(20));
  EXPECT_EQ(children(), 0U);
}

// Names of symbol tables do not wait for it.
TEST_F(Hostile, DebugInformationIsARation) {
  using std::chrono::seconds;
  BackgroundLimits limits;
  limits.ration = Ration{seconds(0), seconds(60), seconds(0)};
  const auto file = opened(honest), same = opened(honest);
  const auto identity = sandbox::FileMemory::from(opened(honest)).value()->identity();
  const auto root = FileDescriptor(::open("/", O_PATH | O_CLOEXEC));
  // As two processes have it that look for debug files in different places.
  const File one{honest, file.get(), {}, identity},
      other{honest, same.get(), {root.get()}, identity};
  const std::vector addresses{address_of(honest, "main")};
  BackgroundSymboliser names(limits);
  const auto name = [&](const File& asked) {
    names.ask(asked, addresses);
    names.wait({BackgroundSymboliser::Clock::now() + seconds(60)});
    const auto known = names.names(key_of(asked), addresses);
    EXPECT_EQ(known.unresolved, 0U);
    return known.unresolved == 0 ? known.resolved.frames[0].back() : Frame{};
  };
  for (const File& asked : {one, other}) {
    EXPECT_EQ(name(asked).name, "main");
    EXPECT_EQ(name(asked).line, 0U);
  }
  names.allow(seconds(60));
  for (const File& asked : {one, other}) {
    EXPECT_EQ(name(asked).name, "main");
    EXPECT_NE(name(asked).line, 0U);
  }
}

// Each file that waits has descriptors. What is dropped has no name, so it is asked for when it is sampled again.
TEST_F(Hostile, WhatHasWaitedLongestForDebugInformationIsDropped) {
  using std::chrono::seconds;
  BackgroundLimits limits;
  limits.ration = Ration{seconds(0), seconds(60), seconds(0)};
  BackgroundSymboliser names(limits);
  const std::string bytes = content(honest);
  const std::vector addresses{address_of(honest, "main")};
  struct Copy {
    FileDescriptor descriptor;
    File file;
  };
  std::vector<Copy> copies;
  for (std::size_t i = 0; i <= BackgroundSymboliser::max_put_off; ++i) {
    copies.push_back({in_memory(bytes), {}});
    auto same = FileDescriptor(::fcntl(copies.back().descriptor.get(), F_DUPFD_CLOEXEC, 0));
    const auto identity = sandbox::FileMemory::from(std::move(same)).value()->identity();
    copies.back().file = {std::to_string(i), copies.back().descriptor.get(), {}, identity};
  }
  const auto wait = [&] { names.wait({BackgroundSymboliser::Clock::now() + seconds(60)}); };
  const auto of = [&](std::size_t copy) {
    return names.names(key_of(copies[copy].file), addresses);
  };
  for (const Copy& copy : copies) {
    names.ask(copy.file, addresses);
    wait();
  }
  EXPECT_EQ(of(0).unresolved, 1U);
  for (std::size_t i = 1; i < copies.size(); ++i) {
    ASSERT_EQ(of(i).unresolved, 0U) << i;
    EXPECT_EQ(of(i).resolved.frames[0].back().line, 0U) << i;
  }
  names.ask(copies[0].file, addresses);
  wait();
  EXPECT_EQ(of(0).unresolved, 0U);
  EXPECT_EQ(of(1).unresolved, 1U) << "it has waited longest by now";
  names.allow(seconds(60));
  wait();
  for (std::size_t i = 0; i < copies.size(); ++i) {
    ASSERT_EQ(of(i).unresolved, i == 1 ? 1U : 0U) << i;
    if (i == 1) continue;
    EXPECT_NE(of(i).resolved.frames[0].back().line, 0U) << i;
  }
}

/// What is known of much of a large program's code, by a parser that has less memory than it needs.
Resolved resolve_within(const Limits& limits) {
  ::malloc_trim(0);
  Symboliser symboliser(limits);
  const auto file = opened(LARGE_PROGRAM);
  std::vector<Address> addresses(20'000, address_of(LARGE_PROGRAM, "main"));
  for (std::size_t i = 0; i < addresses.size(); ++i) addresses[i] += i;
  const Resolved resolved = symboliser.resolve({LARGE_PROGRAM, file.get(), {}}, addresses);
  EXPECT_EQ(resolved.problem, "its parser was stopped: it needed more than 1 MiB; it has no names");
  return resolved;
}

// Private memory counts, not files that are mapped.
TEST_F(Hostile, WorkersHaveAPartOfTheMemory) {
  Limits limits;
  limits.worker_data = 1U << 20;
  resolve_within(limits);
}

// One name takes no index of all symbols.
TEST_F(Hostile, ANameOfALargeProgramTakesLittleMemory) {
  Limits limits;
  limits.worker_data = 1U << 20;
  Symboliser symboliser(limits);
  const auto file = opened(LARGE_PROGRAM);
  const Resolved resolved = symboliser.resolve({LARGE_PROGRAM, file.get(), {}},
                                               std::vector{address_of(LARGE_PROGRAM, "main")});
  EXPECT_EQ(resolved.problem,
            "its parser was stopped: it needed more than 1 MiB; names come from its symbol table");
  ASSERT_EQ(resolved.frames.at(0).size(), 1U);
  EXPECT_EQ(resolved.frames[0][0].name, "main");
}

// The kernel ends them first where memory runs out.
TEST_F(Hostile, WorkersAreTheFirstToGo) {
  Symboliser symboliser;
  expect_unharmed(symboliser);
  std::ifstream in("/proc/self/task/" + std::to_string(::gettid()) + "/children");
  pid_t worker = 0;
  in >> worker;
  std::ifstream score("/proc/" + std::to_string(worker) + "/oom_score_adj");
  int value = 0;
  score >> value;
  EXPECT_EQ(value, 1000);
}

TEST_F(Hostile, WhatNeedsTooMuchMemoryHasNoNames) {
  Limits limits;
  limits.worker_memory = 1U << 20;
  EXPECT_TRUE(resolve_within(limits).frames.at(0).empty());
}

// mmap'd pages of a file that was cut short raise SIGBUS.
TEST_F(Hostile, AFileCutWhileItIsReadKillsItsParserOnly) {
  const std::string bytes = content(honest);
  const auto file = in_memory(bytes);
  auto worker = sandbox::Worker::start("test", {}, make_naming_service);
  ASSERT_TRUE(worker);
  const auto ask = [&](Address address, int its_file) {
    return worker->ask(pack::pack(Request{{address}, {}, true, Place::address, 1}), its_file,
                       limits::symbol_response, {});
  };
  ASSERT_TRUE(ask(1, file.get()));  // maps it
  ASSERT_EQ(::ftruncate(file.get(), 4096), 0);
  const auto reply = ask(address_of(honest, "main"), -1);
  ASSERT_FALSE(reply);
  EXPECT_EQ(reply.error().message, "its parser crashed (Bus error)");
}

TEST_F(Hostile, AFileReplacedIsAnotherFile) {
  const auto path = std::filesystem::temp_directory_path() / "vitrine-symbol-replaced";
  std::filesystem::copy_file(honest, path, std::filesystem::copy_options::overwrite_existing);
  Symboliser symboliser;
  const Address main = address_of(honest, "main");
  {
    const auto file = opened(path);
    EXPECT_EQ(symboliser.resolve({path, file.get(), {}}, std::vector{main}).frames[0].back().name,
              "main");
  }
  std::ofstream(path, std::ios::trunc) << "no ELF file any more";
  const auto file = opened(path);
  const Resolved answer = symboliser.resolve({path, file.get(), {}}, std::vector{main});
  EXPECT_TRUE(answer.frames[0].empty());
  EXPECT_NE(answer.problem, "");
  std::filesystem::remove(path);
}

TEST_F(Hostile, TwoHundredMutations) {
  const std::string bytes = content(honest);
  auto memory = sandbox::FileMemory::from(opened(honest)).value();
  const auto elf = elf::read_file(*memory).value();
  std::vector<elf::Section> parsed;
  for (const elf::Section& section : elf.sections)
    if (elf.name(section).starts_with(".debug") || section.type == 2 || section.type == 3)
      parsed.push_back(section);
  std::vector<Address> addresses;
  for (const char* name : {"main", "plain_c", "_ZN7subject9elsewhereERKSt6vectorIiSaIiEE"})
    for (Address offset = 0; offset < 64; offset += 7)
      addresses.push_back(address_of(honest, name) + offset);
  Limits limits;
  limits.time = std::chrono::seconds(20);
  limits.worker_memory = 256U << 20;
  Symboliser symboliser(limits);
  std::mt19937_64 random(11);
  std::size_t named = 0;
  for (int round = 0; round < 200; ++round) {
    std::string changed = bytes;
    if (round % 10 == 0) {
      changed.resize(random() % changed.size());
    } else {
      for (std::size_t n = std::size_t{1} << (random() % 8); n > 0; --n) {
        const elf::Section& section = parsed[random() % parsed.size()];
        std::size_t at = random() % changed.size();
        if (random() % 8 != 0 && section.size != 0)
          at = static_cast<std::size_t>(section.offset + random() % section.size);
        changed[at] = static_cast<char>(random() % 4 == 0 ? 0xff : random());
      }
    }
    const auto file = in_memory(changed);
    const Resolved answer = symboliser.resolve({"mutation", file.get(), {}}, addresses);
    ASSERT_EQ(answer.frames.size(), addresses.size());
    for (const Frames& frames : answer.frames) {
      ASSERT_LE(frames.size(), limits.inline_depth);
      for (const Frame& frame : frames) ASSERT_LE(frame.name.size(), limits.name_bytes);
      named += frames.empty() ? 0 : 1;
    }
    if (round % 50 == 0) expect_unharmed(symboliser);
  }
  EXPECT_GT(named, 0U);
  expect_unharmed(symboliser);
}

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

// Workers end with what they work for, leave no zombies, and hold nothing of ours open.
TEST_F(Hostile, WorkersHoldNothing) {
  int pipe[2];
  ASSERT_EQ(::pipe(pipe), 0);
  {
    Symboliser symboliser;
    expect_unharmed(symboliser);
    EXPECT_EQ(children(), 1U);
    ::close(pipe[1]);
    char byte;
    EXPECT_EQ(::read(pipe[0], &byte, 1), 0);  // the end of file: nobody else has the other end
  }
  ::close(pipe[0]);
  EXPECT_EQ(children(), 0U);
  EXPECT_EQ(::waitpid(-1, nullptr, WNOHANG), -1);
}

TEST_F(Hostile, AKilledWorkerIsReplaced) {
  Symboliser symboliser;
  expect_unharmed(symboliser);
  std::ifstream in("/proc/self/task/" + std::to_string(::gettid()) + "/children");
  pid_t worker = 0;
  in >> worker;
  ASSERT_GT(worker, 0);
  ::kill(worker, SIGKILL);
  siginfo_t info;
  ::waitid(P_PID, static_cast<id_t>(worker), &info, WEXITED | WNOWAIT);
  const auto file = opened(honest);
  const Address plain = address_of(honest, "plain_c");
  const Resolved answer = symboliser.resolve({honest, file.get(), {}}, std::vector{plain});
  EXPECT_EQ(answer.frames[0].back().name, "plain_c");
  EXPECT_EQ(answer.problem, "");  // it was at no file
  const std::string other = SUBJECT_DIR "/clang-dwarf5";
  const auto second = opened(other);
  const Resolved next =
      symboliser.resolve({other, second.get(), {}}, std::vector{address_of(other, "main")});
  EXPECT_EQ(next.problem, "");
  EXPECT_EQ(next.frames[0].back().name, "main");
}

// All files have one worker. One that it does not survive costs no other, open or not.
TEST_F(Hostile, OneAmongOthersCostsItselfAlone) {
  Limits limits;
  limits.time = std::chrono::milliseconds(500);
  Symboliser symboliser(limits);
  expect_unharmed(symboliser);
  const std::string path = SUBJECT_DIR "/stall", other = SUBJECT_DIR "/clang-dwarf5";
  const auto stall = opened(path), second = opened(other);
  const Resolved stalled =
      symboliser.resolve({path, stall.get(), {}}, std::vector{address_of(path, "trapped") + 1});
  EXPECT_NE(stalled.problem, "");
  EXPECT_TRUE(stalled.reduced);
  const Resolved next =
      symboliser.resolve({other, second.get(), {}}, std::vector{address_of(other, "main")});
  EXPECT_EQ(next.problem, "");
  EXPECT_EQ(next.frames[0].back().name, "main");
  const auto file = opened(honest);
  const Resolved again =
      symboliser.resolve({honest, file.get(), {}}, std::vector{address_of(honest, "plain_c")});
  EXPECT_EQ(again.problem, "");
  EXPECT_EQ(again.frames[0].back().name, "plain_c");
  EXPECT_EQ(children(), 1U);
}

// A program with threads that allocate at full speed while workers are forked.
TEST_F(Hostile, ForkedAmongBusyThreads) {
  std::atomic<bool> stop = false;
  std::vector<std::jthread> threads;
  for (int i = 0; i < 4; ++i)
    threads.emplace_back([&] {
      for (std::size_t n = 1; !stop; n = n * 31 % 70'001) std::make_unique<char[]>(n)[0] = 1;
    });
  for (int round = 0; round < 20; ++round) {
    Symboliser symboliser;
    expect_unharmed(symboliser);
  }
  stop = true;
}

}  // namespace
}  // namespace vitrine::symbol
