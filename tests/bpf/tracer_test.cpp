// The tracer on probes of this very process: fires, arguments, conditions.
#include "bpf/tracer.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <thread>

#include "bpf/own_probe.hpp"
#include "query/compile.hpp"

namespace vitrine::bpf {
namespace {

using namespace std::chrono_literals;
using namespace vitrine::test;

std::string name_of(const testing::TestParamInfo<Attaching>& row) {
  return row.param == Attaching::perf_event ? "perf_event" : "uprobe_multi";
}

class Ways : public testing::TestWithParam<Attaching> {
 protected:
  static TracerOptions options() {
    TracerOptions out;
    out.attaching = GetParam();
    return out;
  }
};
INSTANTIATE_TEST_SUITE_P(Tracer, Ways,
                         testing::Values(Attaching::uprobe_multi, Attaching::perf_event), name_of);

TEST_P(Ways, TellEveryFireWithItsArguments) {
  OwnTracer own(options());
  own.trace(
      vitrine_test_site,
      program(VITRINE_EMIT, {value(in_register(rdi)), value(in_register(rsi, 4, VITRINE_SIGNED)),
                             value(in_register(rdx, 1))}),
      3);
  constexpr std::uint64_t fires = 1000;
  for (std::uint64_t i = 0; i < fires; ++i) vitrine_test_fire(i, 0 - i, 0x100 + i);
  const auto seen = own.take(fires);
  ASSERT_EQ(seen.size(), fires);
  for (std::uint64_t i = 0; i < fires; ++i) {
    const Fire& fire = seen[i];
    EXPECT_EQ(fire.head.program, 3u);
    EXPECT_EQ(fire.head.event.pid, ::getpid());
    EXPECT_EQ(fire.head.event.tid, ::gettid());
    EXPECT_EQ(fire.head.address, reinterpret_cast<std::uint64_t>(vitrine_test_site));
    ASSERT_EQ(fire.captures.size(), 3u);
    EXPECT_EQ(fire.captures[0].head.value, i);
    EXPECT_EQ(fire.captures[1].head.value, 0 - i);
    EXPECT_EQ(fire.captures[2].head.value, i & 0xff);
  }
  own.attachment.detach();
  vitrine_test_fire(0);
  EXPECT_EQ(own.tracer->poll(20ms, [](const Fire&) { FAIL(); }), 0u);
  EXPECT_EQ(own.tracer->counters()[VITRINE_TRACE_LOST], 0u);
  EXPECT_EQ(own.tracer->counters()[VITRINE_TRACE_FIRES], fires);
}

/// The kernel's buffer holds 64 KiB. Each batch fits into it, and the next one waits until a thread has
/// taken all of it out: without that thread, the second fills the buffer.
TEST(Tracer, LosesNothingWhileTheCallerIsBusy) {
  // The thread is woken when the buffer is filled to a part: it holds more than `waiting` fires.
  constexpr std::uint64_t batch = 100, batches = 100, waiting = 1000;
  TracerOptions options;
  options.ring_bytes = 256U << 10;
  options.backlog_bytes = 16U << 20;
  OwnTracer own(options);
  own.trace(vitrine_test_site, program(VITRINE_EMIT, {value(in_register(rdi))}));
  std::vector<std::uint64_t> seen;
  const auto keep = [&](const Fire& fire) { seen.push_back(fire.captures.at(0).head.value); };
  ASSERT_TRUE(own.tracer->poll(1ms, keep));  // from now on, the thread is there
  for (std::uint64_t i = 0; i < batch * batches; ++i) {
    vitrine_test_fire(i);
    if (i % batch == batch - 1)
      while (own.tracer->collected() + waiting <= i) std::this_thread::sleep_for(1ms);
  }
  while (own.tracer->poll(0ms, keep).value_or(0) != 0) {
  }
  ASSERT_EQ(seen.size(), batch * batches);
  for (std::uint64_t i = 0; i < seen.size(); ++i) ASSERT_EQ(seen[i], i);
  EXPECT_EQ(own.tracer->counters()[VITRINE_TRACE_LOST], 0u);
}

TEST_P(Ways, TwoTracersSeeEachFire) {
  OwnTracer one(options()), two(options());
  const auto what = program(VITRINE_EMIT, {value(in_register(rdi))});
  one.trace(vitrine_test_site, what);
  two.trace(vitrine_test_site, what);
  for (std::uint64_t i = 0; i < 100; ++i) vitrine_test_fire(i);
  EXPECT_EQ(one.take(100).size(), 100u);
  one.attachment.detach();
  for (std::uint64_t i = 0; i < 50; ++i) vitrine_test_fire(i);
  EXPECT_EQ(two.take(150).size(), 150u);
}

TEST(Tracer, TellsWhatCannotBeHadAndGoesOn) {
  OwnTracer own;
  vitrine_operand short_address = in_memory(rdi, 0, 4, VITRINE_ADDRESS_32);
  own.trace(vitrine_test_site,
            program(VITRINE_EMIT, {value({}), value(in_register(40)), value(in_memory(rdi, 0, 8)),
                                   value(short_address), string(in_register(rsi)),
                                   bytes(in_register(rdi), constant(8)), value(in_register(rdx))}));
  vitrine_test_fire(0xffff000000000010, 0, 5);
  const auto fires = own.take(1);
  ASSERT_EQ(fires.size(), 1u);
  const auto& captures = fires[0].captures;
  ASSERT_EQ(captures.size(), 7u);
  EXPECT_EQ(captures[0].head.state, VITRINE_CAPTURE_NO_OPERAND);
  EXPECT_EQ(captures[1].head.state, VITRINE_CAPTURE_UNAVAILABLE);
  EXPECT_EQ(captures[2].head.state, VITRINE_CAPTURE_UNREADABLE);
  EXPECT_EQ(captures[2].head.value, 0xffff000000000010u);
  EXPECT_EQ(captures[3].head.state, VITRINE_CAPTURE_UNREADABLE);
  EXPECT_EQ(captures[3].head.value, 0x10u) << "cut to 32 bits";
  EXPECT_EQ(captures[4].head.state, VITRINE_CAPTURE_UNREADABLE) << "a null pointer";
  EXPECT_EQ(captures[5].head.state, VITRINE_CAPTURE_UNREADABLE);
  EXPECT_EQ(captures[6].head.value, 5u);
}

TEST(Tracer, CopiesStringsAndBytes) {
  OwnTracer own;
  own.trace(vitrine_test_site,
            program(VITRINE_EMIT, {string(in_register(rdi), 10), string(in_register(rdi), 4096),
                                   bytes(in_register(rdi), in_register(rdx)),
                                   bytes(in_register(rdi), in_register(rdx), 4)}));
  const auto fire = [&](const std::string& text) {
    vitrine_test_fire(reinterpret_cast<std::uint64_t>(text.c_str()), 0, text.size());
    auto fires = own.take(1);
    EXPECT_EQ(fires.size(), 1u);
    return std::move(fires.at(0).captures);
  };
  const std::string lengths[] = {
      "", "seven77", "eight888", "ten-1234567", std::string(10, 'x'), std::string(5000, 'y')};
  for (const std::string& text : lengths) {
    const auto captures = fire(text);
    EXPECT_EQ(text_of(captures[0]), text.substr(0, 10));
    EXPECT_EQ(captures[0].head.cut, text.size() > 10);
    EXPECT_EQ(text_of(captures[1]), text.substr(0, 4096));
    EXPECT_EQ(captures[1].head.cut, text.size() > 4096);
    EXPECT_EQ(text_of(captures[2]), text.substr(0, 256));
    EXPECT_EQ(text_of(captures[3]), text.substr(0, 4));
    EXPECT_EQ(captures[3].head.cut, text.size() > 4);
  }
}

TEST(Tracer, CopiesWideValues) {
  OwnTracer own;
  const std::uint64_t structure[8] = {1, 2, 3, 4, 5, 6, 7, 8};
  vitrine_operand pair = in_register(rsi, 16);
  pair.index = rdx;
  own.trace(vitrine_test_site,
            program(VITRINE_EMIT, {value(in_memory(rdi, 0, 24)), value(in_memory(rdi, 0, 64)),
                                   value(pair), value(constant(~0ULL, 16))}));
  vitrine_test_fire(reinterpret_cast<std::uint64_t>(structure), 11, 12);
  const auto fires = own.take(1);
  ASSERT_EQ(fires.size(), 1u);
  const auto words = [&](std::size_t i) {
    const auto view = fires[0].captures[i].bytes;
    std::vector<std::uint64_t> out(view.size() / 8);
    std::memcpy(out.data(), view.data(), view.size());
    return out;
  };
  EXPECT_THAT(words(0), testing::ElementsAre(1, 2, 3));
  EXPECT_THAT(words(1), testing::ElementsAreArray(structure));
  EXPECT_THAT(words(2), testing::ElementsAre(11, 12));
  EXPECT_THAT(words(3), testing::ElementsAre(~0ULL, ~0ULL));
}

TEST(Tracer, BringsInStringsThatAreNotResident) {
  // Pages of a file that this process has never touched, the text across two of them.
  const int file = ::memfd_create("strings", MFD_CLOEXEC);
  const std::string text(6000, 's');
  ASSERT_EQ(::pwrite(file, text.c_str(), text.size() + 1, 0),
            static_cast<ssize_t>(text.size() + 1));
  OwnTracer own;
  own.trace(vitrine_test_site, program(VITRINE_EMIT, {string(in_register(rdi), 4096)}));
  for (int round = 0; round < 10; ++round) {
    auto* pages = static_cast<char*>(::mmap(nullptr, 8192, PROT_READ, MAP_PRIVATE, file, 0));
    ASSERT_NE(pages, MAP_FAILED);
    vitrine_test_fire(reinterpret_cast<std::uint64_t>(pages) + 3000);
    const auto fires = own.take(1);
    ASSERT_EQ(fires.size(), 1u);
    EXPECT_EQ(text_of(fires[0].captures[0]), text.substr(3000));
    ::munmap(pages, 8192);
  }
  ::close(file);
}

TEST(Tracer, TellsTheStack) {
  TracerOptions options;
  options.stacks = true;
  OwnTracer own(options);
  own.trace(vitrine_test_site, program(VITRINE_EMIT, {}));
  vitrine_test_fire(0);
  const auto fires = own.take(1);
  ASSERT_EQ(fires.size(), 1u);
  ASSERT_GE(fires[0].stack.size(), 2u);
  EXPECT_EQ(fires[0].stack[0], reinterpret_cast<std::uint64_t>(vitrine_test_site));
}

vitrine_test test_of(vitrine_subject subject, vitrine_comparison comparison, std::uint64_t operand,
                     std::uint8_t index = 0, bool is_signed = false) {
  vitrine_test test{};
  test.subject = static_cast<__u8>(subject);
  test.comparison = static_cast<__u8>(comparison);
  test.is_signed = is_signed;
  test.index = index;
  test.operand = operand;
  return test;
}

void add(vitrine_site_program& to, const vitrine_test& test) {
  to.where.tests[to.where.count++] = test;
}

TEST(Tracer, TellsOnlyWhereTheConditionHolds) {
  OwnTracer own;
  const std::string kettle = "kettle", teapot = "teapot", long_name(200, 'k');
  auto what = program(VITRINE_EMIT, {value(in_register(rdi, 8, VITRINE_SIGNED)),
                                     string(in_register(rsi)), value(in_register(rdx))});
  // (-5 <= arg0 and arg0 < 5 and arg1 == "kettle") or not (arg2 != 7), of this thread
  const auto& key = own.tracer->hash_key();
  add(what, test_of(VITRINE_ON_ARGUMENT, VITRINE_GE, static_cast<std::uint64_t>(-5), 0, true));
  add(what, test_of(VITRINE_ON_ARGUMENT, VITRINE_LT, 5, 0, true));
  add(what, test_of(VITRINE_AND, VITRINE_EQ, 0));
  add(what, test_of(VITRINE_ON_ARGUMENT_STRING, VITRINE_EQ, query::string_hash(key, kettle), 1));
  add(what, test_of(VITRINE_AND, VITRINE_EQ, 0));
  add(what, test_of(VITRINE_ON_ARGUMENT, VITRINE_NE, 7, 2));
  add(what, test_of(VITRINE_NOT, VITRINE_EQ, 0));
  add(what, test_of(VITRINE_OR, VITRINE_EQ, 0));
  add(what, test_of(VITRINE_ON_TID, VITRINE_EQ, static_cast<std::uint64_t>(::gettid())));
  add(what, test_of(VITRINE_ON_PID, VITRINE_EQ, static_cast<std::uint64_t>(::getpid())));
  add(what, test_of(VITRINE_AND, VITRINE_EQ, 0));
  add(what, test_of(VITRINE_AND, VITRINE_EQ, 0));
  own.trace(vitrine_test_site, what);

  std::vector<std::tuple<std::int64_t, std::string, std::uint64_t>> expected;
  const auto fire = [&](std::int64_t a, const std::string& b, std::uint64_t c) {
    vitrine_test_fire(static_cast<std::uint64_t>(a), reinterpret_cast<std::uint64_t>(b.c_str()), c);
    if ((a >= -5 && a < 5 && b == kettle) || c == 7) expected.emplace_back(a, b, c);
  };
  for (std::int64_t a = -10; a < 10; ++a)
    for (const std::string* b : {&kettle, &teapot, &long_name})
      for (std::uint64_t c = 6; c < 9; ++c) fire(a, *b, c);
  std::thread([&] { vitrine_test_fire(0, 0, 7); }).join();

  const auto fires = own.take(expected.size() + 1);
  ASSERT_EQ(fires.size(), expected.size());
  for (std::size_t i = 0; i < fires.size(); ++i) {
    const auto& captures = fires[i].captures;
    EXPECT_EQ(std::make_tuple(static_cast<std::int64_t>(captures[0].head.value),
                              text_of(captures[1]), captures[2].head.value),
              expected[i]);
  }
}

TEST(Tracer, TextOfWhichOnlyABeginningIsCapturedIsEqualToNone) {
  for (const vitrine_comparison comparison : {VITRINE_EQ, VITRINE_NE}) {
    OwnTracer own;
    const std::string kettle = "kettle", kettles = "kettles", teapot = "teapot";
    auto what = program(VITRINE_EMIT, {string(in_register(rsi), 6)});
    add(what, test_of(VITRINE_ON_ARGUMENT_STRING, comparison,
                      query::string_hash(own.tracer->hash_key(), kettle)));
    own.trace(vitrine_test_site, what);
    std::vector<std::pair<std::string, bool>> expected;
    for (const std::string* text : {&kettle, &kettles, &teapot}) {
      vitrine_test_fire(0, reinterpret_cast<std::uint64_t>(text->c_str()));
      if ((*text == kettle) == (comparison == VITRINE_EQ))
        expected.emplace_back(text->substr(0, 6), text == &kettles);
    }
    std::vector<std::pair<std::string, bool>> seen;
    for (const auto& fire : own.take(expected.size() + 1))
      seen.emplace_back(text_of(fire.captures.at(0)), fire.captures.at(0).head.cut != 0);
    EXPECT_EQ(seen, expected);
  }
}

// All tests must hold: the first one, on a register, decides before the rest is looked at.
TEST(Tracer, RejectsByTheFirstTestOnARegister) {
  OwnTracer own;
  auto what = program(VITRINE_EMIT,
                      {value(in_register(rdi, 4, VITRINE_SIGNED)), value(in_register(rsi, 1))});
  add(what, test_of(VITRINE_ON_ARGUMENT, VITRINE_GE, static_cast<std::uint64_t>(-5), 0, true));
  add(what, test_of(VITRINE_ON_ARGUMENT, VITRINE_EQ, 3, 1));
  add(what, test_of(VITRINE_AND, VITRINE_EQ, 0));
  own.trace(vitrine_test_site, what);
  std::vector<std::int64_t> expected;
  constexpr std::uint64_t above = 0x1234567800000000;  // of the register, not of the argument
  for (std::int32_t a = -10; a < 10; ++a)
    for (std::uint64_t b = 2; b < 5; ++b) {
      vitrine_test_fire(above | static_cast<std::uint32_t>(a), 0x100 | b);
      if (a >= -5 && b == 3) expected.push_back(a);
    }
  std::vector<std::int64_t> seen;
  for (const auto& fire : own.take(expected.size() + 1))
    seen.push_back(static_cast<std::int64_t>(fire.captures.at(0).head.value));
  EXPECT_EQ(seen, expected);
}

TEST(Tracer, ComparesTheThreadsName) {
  OwnTracer own;
  auto what = program(VITRINE_EMIT, {value(in_register(rdi))});
  add(what, test_of(VITRINE_ON_COMM, VITRINE_EQ,
                    query::string_hash(own.tracer->hash_key(), "fifteen-letters")));
  add(what,
      test_of(VITRINE_ON_COMM, VITRINE_EQ, query::string_hash(own.tracer->hash_key(), "eight888")));
  add(what, test_of(VITRINE_OR, VITRINE_EQ, 0));
  own.trace(vitrine_test_site, what);
  std::uint64_t number = 0;
  for (const char* name : {"fifteen-letters", "other", "eight888", "eight88"}) {
    std::thread([&] {
      ::pthread_setname_np(::pthread_self(), name);
      vitrine_test_fire(number++);
    }).join();
  }
  const auto fires = own.take(3);
  ASSERT_EQ(fires.size(), 2u);
  EXPECT_EQ(fires[0].captures[0].head.value, 0u);
  EXPECT_EQ(fires[1].captures[0].head.value, 2u);
  EXPECT_EQ(fires[0].comm(), "fifteen-letters");
}

TEST(Tracer, CountsWhatHadNoRoomInTheBuffer) {
  TracerOptions options;
  options.ring_bytes = 64 * 1024;
  OwnTracer own(options);
  own.trace(vitrine_test_site, program(VITRINE_EMIT, {string(in_register(rdi), 4000)}));
  const std::string text(4000, 't');
  for (int i = 0; i < 100; ++i) vitrine_test_fire(reinterpret_cast<std::uint64_t>(text.c_str()));
  const std::size_t seen = own.take(100).size();
  const auto counters = own.tracer->counters();
  EXPECT_EQ(counters[VITRINE_TRACE_FIRES], 100u);
  EXPECT_EQ(counters[VITRINE_TRACE_LOST] + seen, 100u);
  EXPECT_GT(counters[VITRINE_TRACE_LOST], 0u);
  vitrine_test_fire(reinterpret_cast<std::uint64_t>(text.c_str()));
  EXPECT_EQ(own.take(1).size(), 1u) << "there is room again";
}

TEST(Tracer, LosesNothingWhenThreadsFireAtOnce) {
  OwnTracer own;
  own.trace(vitrine_test_site,
            program(VITRINE_EMIT, {value(in_register(rdi)), value(in_register(rsi))}));
  constexpr std::uint64_t threads = 8, each = 5000;
  std::vector<std::thread> running;
  for (std::uint64_t t = 0; t < threads; ++t)
    running.emplace_back([t] {
      for (std::uint64_t i = 0; i < each; ++i) vitrine_test_fire(t, i);
    });
  std::vector<std::uint64_t> next(threads);
  std::uint64_t seen = 0;
  while (seen < threads * each) {
    auto polled = own.tracer->poll(2s, [&](const Fire& fire) {
      const std::uint64_t thread = fire.captures.at(0).head.value;
      ASSERT_LT(thread, threads);
      EXPECT_EQ(fire.captures.at(1).head.value, next[thread]++);
      ++seen;
    });
    ASSERT_TRUE(polled);
    if (*polled == 0) break;
  }
  for (std::thread& thread : running) thread.join();
  EXPECT_EQ(seen, threads * each);
  EXPECT_EQ(own.tracer->counters()[VITRINE_TRACE_BUSY], 0u);
}

TEST(Tracer, RefusesProgramsThatMakeNoSense) {
  OwnTracer own;
  const auto refused = [&](const vitrine_site_program& what) {
    return !own.tracer->set_program(0, what);
  };
  auto many = program(VITRINE_EMIT, {});
  many.captures = VITRINE_CAPTURES + 1;
  EXPECT_TRUE(refused(many));
  auto unselected = program(VITRINE_EMIT, {});
  add(unselected, test_of(VITRINE_ON_LABEL, VITRINE_EQ, 1));
  EXPECT_TRUE(refused(unselected));
  EXPECT_TRUE(refused(program(VITRINE_COUNT, {}))) << "opened without reductions";
  EXPECT_FALSE(own.tracer->set_program(1U << 20, program(VITRINE_EMIT, {})));
}

}  // namespace
}  // namespace vitrine::bpf
