// From a location to an address: DTVs as they are, and as a hostile target makes them.
#include "target/tls_location.hpp"

#include <gtest/gtest.h>

#include "support/buffer_memory.hpp"

namespace vitrine::target {
namespace {

using test::BufferMemory;

constexpr Address tp = 0x7f00'0000'1000;
constexpr Address dtv = 0x5500'0000'2000;

struct Case {
  Machine machine;
  Libc libc;
  Address dtv_slot;  ///< relative to the thread pointer
};

class Dtv : public testing::TestWithParam<Case> {
 protected:
  static constexpr std::size_t slots = 4;

  void SetUp() override { memory.place_value(tp + GetParam().dtv_slot, dtv); }

  void place(std::uint64_t count, std::uint64_t generation, std::uint64_t third) {
    if (GetParam().libc == Libc::glibc)
      memory.place_value(dtv - 16, std::array<std::uint64_t, 10>{count, 0, generation, 0, 0x10'1000,
                                                                 0, 0x10'2000, 0, third, 0});
    else
      memory.place_value(dtv, std::array<std::uint64_t, 4>{count, 0x10'1000, 0x10'2000, third});
  }

  auto evaluate_in(std::uint64_t id, std::uint64_t need_generation = 0) {
    return evaluate(DynamicTls{GetParam().libc, id, 0x18, need_generation}, GetParam().machine, tp,
                    memory);
  }

  BufferMemory memory;
};

TEST_P(Dtv, LeadsToTheVariable) {
  place(slots, 7, 0x10'3000);
  EXPECT_EQ(*evaluate_in(1), Address{0x10'1018});
  EXPECT_EQ(*evaluate_in(3), Address{0x10'3018});
}

TEST_P(Dtv, WithoutABlockMeansNotAllocated) {
  place(slots, 7, 0);
  EXPECT_EQ(*evaluate_in(3), std::nullopt);
  place(slots, 7, ~std::uint64_t{0});
  EXPECT_EQ(*evaluate_in(3), std::nullopt);
}

TEST_P(Dtv, ThatIsTooShortMeansNotAllocated) {
  place(2, 7, 0x10'3000);
  EXPECT_EQ(*evaluate_in(3), std::nullopt);
  place(0, 7, 0x10'3000);
  EXPECT_EQ(*evaluate_in(1), std::nullopt);
}

TEST_P(Dtv, ThatTheThreadHasNotGotMeansNotAllocated) {
  memory.place_value(tp + GetParam().dtv_slot, Address{0});
  EXPECT_EQ(*evaluate_in(1), std::nullopt);
}

TEST_P(Dtv, ThatClaimsToBeHugeIsNotReadBeyondItsMapping) {
  place(~std::uint64_t{0}, 7, 0x10'3000);
  EXPECT_EQ(*evaluate_in(2), Address{0x10'2018});
  EXPECT_EQ(evaluate_in(5000).error().code, ErrorCode::malformed);
}

TEST_P(Dtv, ThatIsNotReadableIsAnError) {
  EXPECT_EQ(evaluate_in(1).error().code, ErrorCode::malformed);
  memory.place_value(tp + GetParam().dtv_slot, Address{8});
  EXPECT_EQ(evaluate_in(1).error().code, ErrorCode::malformed);
}

TEST_P(Dtv, WithABlockAtASmallIntegerIsAnError) {
  place(slots, 7, 24);
  EXPECT_EQ(evaluate_in(3).error().code, ErrorCode::malformed);
}

TEST_P(Dtv, IsNotAskedForImpossibleModules) {
  place(slots, 7, 0x10'3000);
  EXPECT_EQ(evaluate_in(0).error().code, ErrorCode::malformed);
  EXPECT_EQ(evaluate_in(std::uint64_t{1} << 63).error().code, ErrorCode::malformed);
}

INSTANTIATE_TEST_SUITE_P(Layouts, Dtv,
                         testing::Values(Case{Machine::x86_64, Libc::glibc, 8},
                                         Case{Machine::aarch64, Libc::glibc, 0},
                                         Case{Machine::x86_64, Libc::musl, 8},
                                         Case{Machine::aarch64, Libc::musl, ~Address{7}}));

TEST(Generation, ThatIsOlderThanTheModuleMeansNotAllocated) {
  BufferMemory memory;
  memory.place_value(tp + 8, dtv);
  for (const auto& [generation, there] : {std::pair(6U, false), {7U, true}, {8U, true}}) {
    memory.place_value(dtv - 16, std::array<std::uint64_t, 6>{4, 0, generation, 0, 0x10'1000, 0});
    const auto at = evaluate(DynamicTls{Libc::glibc, 1, 0, 7}, Machine::x86_64, tp, memory);
    ASSERT_TRUE(at);
    EXPECT_EQ(at->has_value(), there) << generation;
  }
  memory.place_value(dtv - 16,
                     std::array<std::uint64_t, 6>{4, 0, ~std::uint64_t{0}, 0, 0x10'1000, 0});
  EXPECT_TRUE(evaluate(DynamicTls{Libc::glibc, 1, 0, 7}, Machine::x86_64, tp, memory)->has_value());
}

TEST(StaticTls, NeedsNoMemory) {
  BufferMemory memory;
  EXPECT_EQ(*evaluate(StaticTls{-8}, Machine::x86_64, tp, memory), tp - 8);
  EXPECT_EQ(*evaluate(StaticTls{0x10}, Machine::aarch64, tp, memory), tp + 0x10);
}

TEST(Location, ReadsWell) {
  EXPECT_EQ(describe(StaticTls{-8}), "TP-0x8");
  EXPECT_EQ(describe(StaticTls{16}), "TP+0x10");
  EXPECT_EQ(describe(DynamicTls{Libc::musl, 3, 16, 0}), "module 3 + 0x10 through the DTV (musl)");
}

// docs/formats/tls.md, "Executables": the usual cases, those that TP - memsz gets wrong, and blocks
// whose address is no multiple of their alignment.
TEST(ExecutableBlock, IsNextToTheThreadPointer) {
  const auto x86 = [](std::uint64_t size, std::uint64_t align, std::uint64_t vaddr = 0) {
    return executable_tls_offset(Machine::x86_64, {vaddr, size, align}, 0);
  };
  EXPECT_EQ(x86(8, 8), -8);
  EXPECT_EQ(x86(8, 64), -64);
  EXPECT_EQ(x86(72, 64), -128);
  EXPECT_EQ(x86(64, 64), -64);
  EXPECT_EQ(x86(8, 1), -8);
  EXPECT_EQ(x86(8, 64, 16), -48);  // -48 is 16 modulo 64, as vaddr is
  const auto arm = [](std::uint64_t align, std::uint64_t vaddr = 0) {
    return executable_tls_offset(Machine::aarch64, {vaddr, 8, align}, 0);
  };
  EXPECT_EQ(arm(8), 16);
  EXPECT_EQ(arm(64), 64);
  EXPECT_EQ(arm(256), 256);
  EXPECT_EQ(arm(1), 16);
  EXPECT_EQ(arm(64, 16), 16);
  EXPECT_EQ(arm(64, 8), 72);
  EXPECT_EQ(executable_tls_offset(Machine::aarch64, {0, 64, 64}, 24), 88);
  EXPECT_EQ(library_tls_offset(Machine::x86_64, 0x98, 8), -0x90);
  EXPECT_EQ(library_tls_offset(Machine::aarch64, 0x98, 8), 0xa0);
}

}  // namespace
}  // namespace vitrine::target
