// Where uprobes may go (docs/formats/sdt.md, "Nops and kernels"): instructions, kernels, and what
// follows for them.
#include "bpf/nop_policy.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>

namespace vitrine::bpf {
namespace {

std::vector<std::byte> code(std::initializer_list<int> bytes) {
  std::vector<std::byte> out;
  for (const int byte : bytes) out.push_back(static_cast<std::byte>(byte));
  out.resize(site_bytes, std::byte{0xc3});
  return out;
}

Result<SitePlan> plan(std::initializer_list<int> bytes, NopClass kernel, bool force = false) {
  return plan_site(code(bytes), Machine::x86_64, kernel, force);
}

constexpr SitePlan breakpoint{0, SiteCost::breakpoint};
constexpr SitePlan step{0, SiteCost::step};

constexpr NopClass every_kernel[] = {NopClass::plain, NopClass::unsafe_nop5, NopClass::nop10};

TEST(NopPolicy, KernelsAreToldApartByTheErrorOfTheCall) {
  EXPECT_EQ(nop_class_of(ENXIO), NopClass::unsafe_nop5);
  EXPECT_EQ(nop_class_of(EPROTO), NopClass::nop10);
  EXPECT_EQ(nop_class_of(ENOSYS), NopClass::plain);
}

TEST(NopPolicy, OurProbesAreAttachedAtTheSecondNopOnlyWhereThatIsSafe) {
  const auto ours = {0x90, 0x66, 0x2e, 0x0f, 0x1f, 0x84, 0, 0, 0, 0, 0};
  EXPECT_EQ(plan(ours, NopClass::plain), breakpoint);
  EXPECT_EQ(plan(ours, NopClass::unsafe_nop5), breakpoint);
  EXPECT_EQ(plan(ours, NopClass::nop10), (SitePlan{1, SiteCost::call}));
}

TEST(NopPolicy, AOneByteNopBeforeAFiveByteNopIsAttachedAtTheFirst) {
  for (const NopClass kernel : every_kernel)
    EXPECT_EQ(plan({0x90, 0x0f, 0x1f, 0x44, 0, 0}, kernel), breakpoint);
}

TEST(NopPolicy, EachFiveByteNopIsRefusedWhereItWouldBecomeAnUnsafeCall) {
  const std::initializer_list<int> nops[] = {{0x0f, 0x1f, 0x44, 0x00, 0x00},
                                             {0x0f, 0x1f, 0x44, 0x12, 0x34},
                                             {0x66, 0x66, 0x66, 0x66, 0x90},
                                             {0x66, 0x0f, 0x1f, 0x40, 0x00},
                                             {0x48, 0x0f, 0x1f, 0x40, 0x00}};
  for (const auto& nop : nops) {
    const auto refused = plan(nop, NopClass::unsafe_nop5);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, ErrorCode::unsupported);
    EXPECT_THAT(refused.error().remedy, testing::HasSubstr("--force"));
    EXPECT_EQ(plan(nop, NopClass::unsafe_nop5, true), (SitePlan{0, SiteCost::call}));
    EXPECT_TRUE(plan(nop, NopClass::plain));
    EXPECT_TRUE(plan(nop, NopClass::nop10));
  }
}

TEST(NopPolicy, TheTenByteNopItselfIsOnlyForKernelsThatKnowIt) {
  const auto nop10 = {0x66, 0x2e, 0x0f, 0x1f, 0x84, 0, 0, 0, 0, 0};
  EXPECT_EQ(plan(nop10, NopClass::nop10), (SitePlan{0, SiteCost::call}));
  EXPECT_FALSE(plan(nop10, NopClass::plain)) << "refused, or silently never hit";
  EXPECT_FALSE(plan(nop10, NopClass::unsafe_nop5, true));
  EXPECT_FALSE(plan({0x3e, 0x90}, NopClass::plain)) << "a segment prefix";
}

TEST(NopPolicy, TellsWhatIsEmulatedFromWhatIsStepped) {
  const std::initializer_list<int> emulated[] = {
      {0x90},
      {0x66, 0x90},
      {0x66, 0x66, 0x90},
      {0xf3, 0x90},
      {0xeb, 0x05},
      {0x55},
      {0x0f, 0x1f, 0x00},
      {0x0f, 0x1f, 0x40, 0x00},
      {0x66, 0x0f, 0x1f, 0x44, 0x00, 0x00},
      {0x0f, 0x1f, 0x80, 0, 0, 0, 0},
      {0x0f, 0x1f, 0x84, 0, 0, 0, 0, 0},
  };
  for (const auto& instruction : emulated)
    EXPECT_EQ(plan(instruction, NopClass::plain, true), breakpoint) << *instruction.begin();
  const std::initializer_list<int> stepped[] = {
      {0x66, 0x0f, 0x1f, 0x00},
      {0x66, 0x0f, 0x1f, 0x84, 0, 0, 0, 0, 0},
      {0x48, 0x90},
      {0x48, 0x89, 0xe5},
      {0xf3, 0x0f, 0x1e, 0xfa},
  };
  for (const auto& instruction : stepped)
    EXPECT_EQ(plan(instruction, NopClass::plain, true), step) << *instruction.begin();
}

TEST(NopPolicy, WhereThereIsNoNopItTakesForce) {
  for (const auto& instruction :
       {std::initializer_list<int>{0x48, 0x89, 0xe5}, {0x55}, {0x44, 0x33}})
    for (const NopClass kernel : every_kernel) {
      const auto refused = plan(instruction, kernel);
      ASSERT_FALSE(refused);
      EXPECT_EQ(refused.error().code, ErrorCode::unsupported);
      EXPECT_THAT(refused.error().message, testing::HasSubstr("is not the nop"));
      EXPECT_THAT(refused.error().remedy, testing::HasSubstr("--force"));
    }
}

TEST(NopPolicy, OtherMachinesHaveNoCalls) {
  const auto nop = code({0x1f, 0x20, 0x03, 0xd5});
  EXPECT_EQ(plan_site(nop, Machine::aarch64, NopClass::plain, false), breakpoint);
  const auto ret = code({0xc0, 0x03, 0x5f, 0xd6});
  EXPECT_FALSE(plan_site(ret, Machine::aarch64, NopClass::plain, false));
  EXPECT_EQ(plan_site(ret, Machine::aarch64, NopClass::plain, true), step);
  EXPECT_EQ(plan_site(code({0x0f, 0x1f, 0x44, 0, 0}), Machine::i386, NopClass::unsafe_nop5, false),
            breakpoint)
      << "only 64-bit programs have their nops turned into calls";
}

TEST(NopPolicy, FewBytesOrNone) {
  EXPECT_FALSE(plan_site({}, Machine::x86_64, NopClass::plain, false));
  for (std::size_t length = 1; length < 5; ++length) {
    const auto bytes = code({0x0f, 0x1f, 0x44, 0x00, 0x00});
    EXPECT_FALSE(
        plan_site(std::span(bytes).first(length), Machine::x86_64, NopClass::unsafe_nop5, false))
        << "no whole nop";
  }
}

}  // namespace
}  // namespace vitrine::bpf
