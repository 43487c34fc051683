// The tracer on probes of this very process.
#include "bpf/tracer.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "bpf/own_site.hpp"

extern "C" {
// fire(a, b, c): a nop, at which rdi, rsi and rdx hold the arguments.
extern const char vitrine_test_site[];
void vitrine_test_fire(std::uint64_t a, std::uint64_t b, std::uint64_t c);
}
asm(R"(
  .pushsection .text
  .globl vitrine_test_fire
  .type vitrine_test_fire, @function
vitrine_test_fire:
  .globl vitrine_test_site
vitrine_test_site:
  nop
  ret
  .size vitrine_test_fire, . - vitrine_test_fire
  .popsection
)");

namespace vitrine::bpf {
namespace {

using namespace std::chrono_literals;

constexpr std::uint8_t rdi = 14, rsi = 13, rdx = 12;

vitrine_operand in_register(std::uint8_t number, std::uint8_t size, std::uint8_t flags = 0) {
  vitrine_operand operand{};
  operand.kind = VITRINE_REGISTER;
  operand.flags = flags;
  operand.size = size;
  operand.base = number;
  operand.index = VITRINE_NO_REGISTER;
  return operand;
}

vitrine_capture value(const vitrine_operand& operand) {
  vitrine_capture capture{};
  capture.operand = operand;
  return capture;
}

vitrine_site_program emitting(std::initializer_list<vitrine_capture> captures) {
  vitrine_site_program program{};
  program.value = program.match = VITRINE_NO_CAPTURE;
  for (const vitrine_capture& capture : captures) program.capture[program.captures++] = capture;
  return program;
}

AttachSite own_site() {
  AttachSite site;
  site.file_offset = test::file_offset_of(vitrine_test_site);
  site.site = 7;
  return site;
}

class OwnProbe : public testing::TestWithParam<Attaching> {
 protected:
  std::unique_ptr<Tracer> open(TracerOptions options = {}) {
    options.attaching = GetParam();
    auto tracer = Tracer::open(options);
    EXPECT_TRUE(tracer) << tracer.error().message;
    return tracer ? std::move(*tracer) : nullptr;
  }
  test::File self_{"/proc/self/exe"};
};

TEST_P(OwnProbe, TellsEveryFireWithItsArguments) {
  auto tracer = open();
  ASSERT_TRUE(tracer);
  ASSERT_TRUE(tracer->set_program(
      3, emitting({value(in_register(rdi, 8)), value(in_register(rsi, 4, VITRINE_SIGNED)),
                   value(in_register(rdx, 1))})));
  AttachSite site = own_site();
  site.program = 3;
  auto attached = tracer->attach(self_.fd(), std::span(&site, 1), ::getpid());
  ASSERT_TRUE(attached) << attached.error().message;
  ASSERT_THAT(attached->failures, testing::IsEmpty());

  constexpr std::uint64_t fires = 1000;
  for (std::uint64_t i = 0; i < fires; ++i) vitrine_test_fire(i, 0 - i, 0x100 + i);
  std::uint64_t seen = 0;
  while (seen < fires) {
    auto polled = tracer->poll(1s, [&](const Fire& fire) {
      EXPECT_EQ(fire.head.program, 3u);
      EXPECT_EQ(fire.head.site, 7u);
      EXPECT_EQ(fire.head.pid, ::getpid());
      EXPECT_EQ(fire.head.tid, ::gettid());
      EXPECT_EQ(fire.head.address, reinterpret_cast<std::uint64_t>(vitrine_test_site));
      ASSERT_EQ(fire.captures.size(), 3u);
      EXPECT_EQ(fire.captures[0].head.value, seen);
      EXPECT_EQ(fire.captures[1].head.value, 0 - seen);
      EXPECT_EQ(fire.captures[2].head.value, seen & 0xff);
      ++seen;
    });
    ASSERT_TRUE(polled) << polled.error().message;
    ASSERT_GT(*polled, 0u);
  }
  attached->detach();
  vitrine_test_fire(0, 0, 0);
  ASSERT_EQ(tracer->poll(20ms, [](const Fire&) { FAIL(); }), 0u);
  EXPECT_EQ(tracer->counters()[VITRINE_TRACE_LOST], 0u);
  EXPECT_EQ(tracer->counters()[VITRINE_TRACE_FIRES], fires);
}

INSTANTIATE_TEST_SUITE_P(Ways, OwnProbe,
                         testing::Values(Attaching::uprobe_multi, Attaching::perf_event),
                         [](const auto& row) {
                           return row.param == Attaching::perf_event ? "perf_event"
                                                                     : "uprobe_multi";
                         });

}  // namespace
}  // namespace vitrine::bpf
