// Files that mean harm, or were harmed: they cost their own symbols and nothing else.
#include "symbol/hostile.hpp"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <functional>
#include <random>
#include <thread>

#include "base/limits.hpp"
#include "symbol/background.hpp"

namespace vitrine::symbol {
namespace {

using testing::StartsWith;

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
