#include <gtest/gtest.h>

#include "dof/dof.hpp"

namespace vitrine::dof {
namespace {

Record word(std::uint64_t value, Relocation relocation) {
  Record record;
  record.word = value;
  record.word_offset = 0x120;
  record.relocation = relocation;
  return record;
}

Object of(Model model) {
  Object object;
  object.model = model;
  return object;
}

// The DOF at 0x8000, the word at 0x8120, the function at 0x5000: the linker wrote S - P.
TEST(DofAddress, AddsTheAddressOfTheWord) {
  const Record record = word(0x5000ULL - 0x8120, Relocation::own_address);
  EXPECT_EQ(function_address(of(Model::lp64), record, {0x8000}), 0x5000);
  // Wherever it was loaded, the function went along.
  EXPECT_EQ(function_address(of(Model::lp64), record, {0x7fff00008000, 0x7fff00000000}),
            0x7fff00005000);
}

TEST(DofAddress, WrapsInTheNarrowModel) {
  // R_386_PC32 writes the low four bytes; the high ones stay zero (docs/formats/dof.md,
  // "Addresses").
  const Record record = word(0xffffcee0, Relocation::own_address);
  EXPECT_EQ(function_address(of(Model::ilp32), record, {0x0804b000}), 0x08048000);
  EXPECT_EQ(function_address(of(Model::lp64), record, {0x0804b000}), 0x108048000);
  EXPECT_EQ(site_address(Model::ilp32, 0xfffffff0, 0x20), 0x10);
  EXPECT_EQ(site_address(Model::lp64, 0xfffffff0, 0x20), 0x100000010);
}

TEST(DofAddress, AddsTheLoadBase) {
  const Record record = word(0x5000, Relocation::load_base);
  EXPECT_EQ(function_address(of(Model::lp64), record, {0x8000}), 0x5000);
  EXPECT_EQ(function_address(of(Model::lp64), record, {0x18000, 0x10000}), 0x15000);
  const Record absolute = word(0x15000, Relocation::none);
  EXPECT_EQ(function_address(of(Model::lp64), absolute, {0x18000, 0x10000}), 0x15000);
}

TEST(DofAddress, KnowsWhatTheLinkerLeftOut) {
  // The weak fallback is at the start of the DOF; an undefined weak symbol is 0.
  for (const Model model : {Model::lp64, Model::ilp32}) {
    EXPECT_FALSE(
        function_address(of(model), word(0 - 0x120ULL, Relocation::own_address), {0x8000}));
    EXPECT_FALSE(
        function_address(of(model), word(0 - 0x8120ULL, Relocation::own_address), {0x8000}));
    // On aarch64 what is relative to an undefined weak symbol is relative to itself.
    EXPECT_FALSE(function_address(of(model), word(0, Relocation::own_address), {0x8000}));
    EXPECT_FALSE(function_address(of(model), word(0, Relocation::load_base), {0x8000}));
    EXPECT_FALSE(function_address(of(model), word(0, Relocation::load_base), {0x18000, 0x10000}));
    EXPECT_FALSE(
        function_address(of(model), word(0x8000, Relocation::load_base), {0x18000, 0x10000}));
    EXPECT_FALSE(function_address(of(model), word(0, Relocation::none), {0x8000}));
    EXPECT_FALSE(function_address(of(model), word(0x8000, Relocation::none), {0x8000}));
  }
  EXPECT_FALSE(
      function_address(of(Model::ilp32), word(0xfffffee0, Relocation::own_address), {0x8000}));
}

TEST(DofAddress, PlacesSemaphores) {
  const Semaphore semaphore{"pay", 0x9000ULL - 0x8300, 0x300};
  EXPECT_EQ(semaphore_address(of(Model::lp64), semaphore, {0x8000}), 0x9000);
  EXPECT_FALSE(semaphore_address(of(Model::lp64), {"pay", 0 - 0x8300ULL, 0x300}, {0x8000}));
  EXPECT_FALSE(semaphore_address(of(Model::lp64), {"pay", 0 - 0x300ULL, 0x300}, {0x8000}));
  EXPECT_EQ(semaphore_address(of(Model::ilp32), {"pay", 0xffffff00, 0x300}, {0x8000}), 0x8200);
}

}  // namespace
}  // namespace vitrine::dof
