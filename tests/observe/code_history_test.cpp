// What a program had mapped at any time, by a history that learns of it late, in another order, and by
// looking at the process in between: against a model that knows all from the beginning.
#include "observe/profile/code_history.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <vector>

namespace vitrine::observe {
namespace {

constexpr int slots = 3, files = 3;
/// Of the model's time, in ns: codes may be made anew only so often.
constexpr std::uint64_t unit = 1'000'000;

Address address_of(int slot) {
  return 0x10000 + 0x1000 * static_cast<Address>(slot);
}

target::Mapping mapping_of(int slot, int file) {
  target::Mapping mapping;
  mapping.start = address_of(slot);
  mapping.end = mapping.start + 0x1000;
  mapping.executable = mapping.readable = true;
  mapping.device = 1;
  mapping.inode = static_cast<std::uint64_t>(file) + 1;
  return mapping;
}

struct Mapped {
  std::uint64_t time_ns = 0;
  int slot = 0, file = 0;
  bool delivered = false;
};

/// A program: what it maps, each thing at a time of its own.
class Program {
 public:
  Program(std::mt19937& random, std::uint64_t events) {
    for (std::uint64_t n = 0; n < events; ++n)
      mapped_.push_back({100 + n * 10 + random() % 9, static_cast<int>(random() % slots),
                         static_cast<int>(random() % files)});
  }

  [[nodiscard]] std::uint64_t end_ns() const { return mapped_.back().time_ns + 10; }

  /// In a slot at a time; -1: nothing.
  [[nodiscard]] int file_at(int slot, std::uint64_t time_ns) const {
    int file = -1;
    for (const Mapped& one : mapped_)
      if (one.time_ns <= time_ns && one.slot == slot) file = one.file;
    return file;
  }

  /// When something was mapped in a slot last.
  [[nodiscard]] std::uint64_t since(int slot, std::uint64_t time_ns) const {
    std::uint64_t since = 0;
    for (const Mapped& one : mapped_)
      if (one.time_ns <= time_ns && one.slot == slot) since = one.time_ns;
    return since;
  }

  [[nodiscard]] ProcessCode code_at(std::uint64_t time_ns) const {
    ProcessCode code;
    std::vector<unwind::Region> regions;
    for (int slot = 0; slot < slots; ++slot) {
      const int file = file_at(slot, time_ns);
      if (file < 0) continue;
      code.mappings.push_back(mapping_of(slot, file));
      code.files.push_back(nullptr);
      regions.push_back({address_of(slot), address_of(slot) + 0x1000, 0, nullptr});
    }
    code.map = unwind::CodeMap(std::move(regions));
    return code;
  }

  /// All until a time; and of later ones, until `now_ns`, some: a CPU's buffer is read before another's.
  void deliver(CodeHistory& history, std::uint64_t until_ns, std::uint64_t now_ns,
               std::mt19937& random) {
    std::vector<const Mapped*> batch;
    for (Mapped& one : mapped_) {
      const bool comes = one.time_ns <= until_ns || (one.time_ns <= now_ns && random() % 2 == 0);
      if (one.delivered || !comes) continue;
      one.delivered = true;
      batch.push_back(&one);
    }
    for (const Mapped* one : batch)
      history.mapped(one->time_ns * unit, mapping_of(one->slot, one->file));
  }

 private:
  std::vector<Mapped> mapped_;
};

struct Wrong {
  std::size_t samples = 0, wrong = 0;
};

/// Samples in the order of their times, looked at `lag` after they were taken; each in code that the program
/// has then. All that was mapped before a sample is known when it is looked at.
Wrong run(unsigned seed, std::uint64_t lag, bool looks, bool reads) {
  std::mt19937 random(seed);
  Program program(random, 60);
  CodeReader reader;
  CodeHistory history;
  Wrong result;
  history.found({50 * unit, 150 * unit}, program.code_at(50 + random() % 100));
  for (std::uint64_t time = 150; time < program.end_ns(); time += 1 + random() % 6) {
    const std::uint64_t now = time + (lag == 0 ? 0 : random() % lag);
    program.deliver(history, time, now, random);
    if (looks && random() % 4 == 0) history.at(now * unit, reader, {});
    if (reads && random() % 4 == 0) {
      // The process is read a while after the time that is noted for it.
      const std::uint64_t read = now + random() % 8;
      program.deliver(history, now, read, random);
      const CodeHistory::Reading when{now * unit, (read + random() % 4) * unit};
      if (random() % 2 == 0)
        history.found(when, program.code_at(read));
      else
        history.found_unreported(when, program.code_at(read));
    }
    const int slot = static_cast<int>(random() % slots);
    const int truth = program.file_at(slot, time);
    if (truth < 0) continue;
    const CodeHistory::Code code = history.at(time * unit, reader, {});
    ++result.samples;
    const std::uint32_t region = code->unwinder.code().find(address_of(slot) + 16);
    const bool is_right = region != unwind::no_region &&
                          code->mappings[region].inode == static_cast<std::uint64_t>(truth) + 1;
    result.wrong += is_right ? 0 : 1;
  }
  return result;
}

Wrong run_all(std::uint64_t lag, bool looks, bool reads) {
  Wrong all;
  for (unsigned seed = 0; seed < 300; ++seed) {
    const Wrong one = run(seed, lag, looks, reads);
    all.samples += one.samples;
    all.wrong += one.wrong;
    if (one.wrong != 0 && all.wrong == one.wrong)
      ADD_FAILURE() << "seed " << seed << ": " << one.wrong << " of " << one.samples << " wrong";
  }
  return all;
}

TEST(History, OfEventsInOrderIsThatOfTheProgram) {
  EXPECT_EQ(run_all(0, false, false).wrong, 0U);
}

TEST(History, OfEventsThatComeLateIsThatOfTheProgram) {
  EXPECT_EQ(run_all(40, false, false).wrong, 0U);
}

TEST(History, LooksAtWhatIsThereNowChangeNothing) {
  EXPECT_EQ(run_all(40, true, false).wrong, 0U);
}

TEST(History, ReadingsOfTheProcessChangeNothing) {
  EXPECT_EQ(run_all(40, true, true).wrong, 0U);
}

TEST(History, OfManyCodesReachesTheLastOfThem) {
  CodeReader reader;
  CodeHistory history;
  history.begin(unit);
  EXPECT_TRUE(history.reaches(unit));
  constexpr std::uint64_t changes = 1000;
  for (std::uint64_t n = 2; n < changes; ++n) {
    history.mapped(n * unit, mapping_of(0, static_cast<int>(n % files)));
    history.at(n * unit, reader, {});
  }
  EXPECT_TRUE(history.reaches((changes - 1) * unit));
  EXPECT_TRUE(history.reaches((changes - 10) * unit));
  EXPECT_FALSE(history.reaches(2 * unit));
}

}  // namespace
}  // namespace vitrine::observe
