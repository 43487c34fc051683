#include "profile/profiles.hpp"

#include <random>
#include <string>

namespace vitrine::test {

using namespace profile;

namespace {

Sample sample(Measure measure, Index process, Index stack, Index labels, Index link,
              std::uint32_t tid, const char* thread, std::uint64_t at_ms, std::uint64_t value_ns) {
  return {.measure = measure,
          .process = process,
          .stack = stack,
          .labels = labels,
          .link = link,
          .tid = tid,
          .cpu = tid % 2,
          .thread_name = thread,
          .time_ns = start_ns + at_ms * 1'000'000,
          .value_ns = value_ns};
}

}  // namespace

Profile small_profile() {
  Profile p;
  p.start_ns = start_ns;
  p.duration_ns = 1'000'000'000;
  p.frequency = 99;
  p.processes = {
      {.pid = 100,
       .command = "shop",
       .executable = "/srv/shop",
       .resource = {{"service.name", "checkout"}, {"process.pid", "7"}, {"bad", "\xff"}}},
      {.pid = 200, .command = "helper;x", .executable = "/srv/helper", .resource = {}},
      {.pid = 300, .command = "unused", .executable = "/srv/unused", .resource = {}},
  };
  p.mappings = {
      {0x7000, 0x9000, 0x1000, "/lib/libwork.so", "aa55aa55", "00112233445566778899aabbccddeeff"},
      {0x1000, 0x3000, 0, "/srv/shop", "c0ffee", ""},
      {0xffff'ffff'8000'0000, 0xffff'ffff'ffff'ffff, 0, "[kernel]", "beef", ""},
      {0x1000, 0x3000, 0, "/srv/helper", "", "ffeeddccbbaa99887766554433221100"},
      {0xa000, 0xb000, 0, "/lib/unused.so", "11", ""},
  };
  p.functions = {
      {"main", "", "/src/shop.cpp", 10},                           // 0
      {"work::spin(int)", "_ZN4work4spinEi", "/src/work.cpp", 5},  // 1
      {"work::mix", "", "/src/work.hpp", 7},                       // 2, inlined into spin
      {"schedule", "", "", 0},                                     // 3
      {"a;b\nc \xff", "", "", 0},                                  // 4
      {"unused", "", "", 0},                                       // 5
  };
  p.locations = {
      {1, 0x1234, FrameKind::native, {{0, 12}}, ""},                  // 0
      {0, 0x7100, FrameKind::native, {{2, 8}, {1, 6}}, ""},           // 1
      {2, 0xffff'ffff'8100'0000, FrameKind::kernel, {{3, 0}}, ""},    // 2
      {0, 0x7f00, FrameKind::native, {}, "the file has no symbols"},  // 3
      {none, 0x55'0000, FrameKind::jit, {{4, 0}}, ""},                // 4
      {3, 0x1100, FrameKind::native, {}, ""},                         // 5
      {none, 0xdead, FrameKind::unknown, {}, ""},                     // 6
      {4, 0xa100, FrameKind::native, {{5, 0}}, ""},                   // 7, unused
  };
  p.stacks = {
      {{1, 0}, StackEnd::outermost},     // 0
      {{2, 1, 0}, StackEnd::outermost},  // 1
      {{4, 5}, StackEnd::truncated},     // 2
      {{3, 6}, StackEnd::no_rule},       // 3
      {{}, StackEnd::bad},               // 4
      {{7}, StackEnd::outermost},        // 5, unused
  };
  p.label_sets = {
      {{"route", "/pay"}, {"tenant", "acme"}},  // 0
      {{"tenant", "globex"}},                   // 1
      {{"", "no key"},
       {"pprof::x", "y"},
       {"tenant", ""},
       {"thread.id", "mine"},
       {"thread_id", "mine"},
       {"\xfe", "bad key"},
       {"\xff", "bad \x80 value"}},  // 2
      {{"tenant", "unused"}},        // 3
  };
  p.links = {
      {{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16}, {17, 18, 19, 20, 21, 22, 23, 24}},
      {{9}, {9}},  // unused
  };
  const auto on = Measure::on_cpu, off = Measure::off_cpu;
  p.samples = {
      sample(on, 0, 0, 0, 0, 100, "main", 10, tick_ns),
      sample(on, 0, 0, 0, 0, 100, "main", 20, tick_ns),
      sample(on, 0, 0, 1, none, 101, "worker", 30, tick_ns),
      sample(off, 0, 1, 0, 0, 100, "main", 40, 5'000'000),
      sample(off, 0, 1, 0, 0, 100, "main", 50, 7'000'499),
      sample(on, 1, 2, 2, none, 200, "jit\xff", 60, tick_ns),
      sample(on, 1, 3, none, none, 200, "", 70, tick_ns),
      sample(off, 1, 4, 2, none, 200, "", 80, 3'000'000'000),
      // Clocks disagree a little: before the start, and at the very end.
      sample(on, 0, 0, 1, none, 101, "worker", 0, tick_ns),
      sample(on, 0, 0, 1, none, 101, "worker", 1000, tick_ns),
  };
  p.samples[8].time_ns -= 5;
  p.losses = {.events = 3, .truncated_stacks = 1, .truncated_labels = 2, .unread_labels = 4};
  p.problems = {"/lib/libwork.so: its symbols could not be read", "bad \xff text"};
  return p;
}

Profile large_profile(std::size_t samples, std::size_t stacks) {
  std::mt19937_64 random(20);
  const auto below = [&](std::size_t n) { return static_cast<Index>(random() % n); };
  Profile p;
  p.start_ns = start_ns;
  p.duration_ns = 30'000'000'000;
  p.frequency = 99;
  for (std::uint32_t pid : {4000U, 5000U})
    p.processes.push_back(
        {pid, "shop", "/srv/shop", {{"service.name", "s" + std::to_string(pid)}}});
  for (Index i = 0; i < 20; ++i)
    p.mappings.push_back({0x10000 + i * 0x100000ULL, 0x90000 + i * 0x100000ULL, 0,
                          i == 0 ? "/srv/shop" : "/lib/lib" + std::to_string(i) + ".so",
                          "ab" + std::to_string(1000 + i), ""});
  for (Index i = 0; i < 4000; ++i) {
    const std::string number = std::to_string(i);
    p.functions.push_back({"shop::module::Class" + number + "::method(int, const std::string&)",
                           "_ZN4shop6module5Class" + number, "/src/module" + number + ".cpp", i});
  }
  for (Index i = 0; i < 20'000; ++i) {
    const Index mapping = i % 20;
    Location location{mapping, p.mappings[mapping].start + i, FrameKind::native, {}, ""};
    for (Index k = 0; k <= i % 3; ++k) location.lines.push_back({below(4000), 1 + below(900)});
    p.locations.push_back(location);
  }
  for (std::size_t i = 0; i < stacks; ++i) {
    Stack stack;
    for (std::size_t depth = 10 + below(30); depth > 0; --depth)
      stack.locations.push_back(below(20'000));
    stack.locations.push_back(static_cast<Index>(i % 20'000));  // no two are the same
    stack.locations.push_back(static_cast<Index>(i / 20'000));
    if (i % 100 == 0) stack.end = StackEnd::truncated;
    p.stacks.push_back(stack);
  }
  for (Index i = 0; i < 400; ++i)
    p.label_sets.push_back({{"route", "/route/" + std::to_string(i / 8)},
                            {"tenant", "tenant-" + std::to_string(i % 8)}});
  for (std::size_t i = 0; i < samples; ++i) {
    const bool on = i % 5 != 0;
    p.samples.push_back(sample(on ? Measure::on_cpu : Measure::off_cpu, below(2), below(stacks),
                               below(400), none, 4000 + below(64), "worker", i * 30'000 / samples,
                               on ? tick_ns : 1'000 + random() % 20'000'000));
  }
  return p;
}

}  // namespace vitrine::test
