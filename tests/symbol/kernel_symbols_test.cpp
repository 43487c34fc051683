#include "symbol/kernel_symbols.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <string>

#include "base/limits.hpp"
#include "target/proc_file.hpp"

namespace vitrine::symbol {
namespace {

TEST(KernelSymbols, FunctionsByAddress) {
  const auto symbols = KernelSymbols::parse(
      "ffffffff81000000 T _stext\n"
      "ffffffff81000000 t local_alias\n"
      "ffffffff81000040 t schedule\n"
      "ffffffff81000080 D some_data\n"
      "ffffffffc0000000 t in_module\t[ext4]\n"
      "ffffffffc0100000 t bpf_prog_6deef7357e7b4530\t[bpf]\n"
      "not a line\n\n"
      "ffffffff81000090 W weak");
  ASSERT_TRUE(symbols);
  EXPECT_EQ(symbols->find(0xffffffff81000010)->name, "_stext");
  EXPECT_EQ(symbols->find(0xffffffff81000040)->name, "schedule");
  EXPECT_EQ(symbols->find(0xffffffff81000088)->name, "schedule");  // data is no function
  EXPECT_EQ(symbols->find(0xffffffff81000091)->name, "weak");
  EXPECT_EQ(symbols->find(0xffffffffc0000004)->module, "ext4");
  EXPECT_EQ(symbols->find(0xffffffffc0100004)->module, "bpf");
  EXPECT_FALSE(symbols->find(0xffffffff80ffffff));
  EXPECT_FALSE(symbols->find(0xfffffffff0000000));  // far behind the last
}

TEST(KernelSymbols, HiddenAddressesAreSaid) {
  const auto symbols =
      KernelSymbols::parse("0000000000000000 T _stext\n0000000000000000 t schedule\n");
  ASSERT_FALSE(symbols);
  EXPECT_EQ(symbols.error().code, ErrorCode::not_permitted);
  EXPECT_NE(symbols.error().remedy.find("CAP_SYSLOG"), std::string::npos);
}

TEST(KernelSymbols, AnythingElseIsMalformed) {
  for (const char* text : {"", "\n\n", "abc", "ffffffff81000000 D data\n", "\xff\xff\xff T"}) {
    const auto symbols = KernelSymbols::parse(text);
    ASSERT_FALSE(symbols) << text;
    EXPECT_EQ(symbols.error().code, ErrorCode::malformed);
  }
}

/// Lines that a piece of the file ends in, too.
TEST(KernelSymbols, OfAFileAsOfItsText) {
  std::string text;
  constexpr Address first = 0xffffffff81000000;
  for (Address n = 0; n < 20'000; ++n)
    text += fmt::format("{:x} t function_{}{}\n", first + 16 * n, n,
                        n % 3 == 0 ? "\t[module_" + std::to_string(n / 1000) + "]" : "");
  text.pop_back();  // the last line has no end
  const FileDescriptor file(::memfd_create("kallsyms", MFD_CLOEXEC));
  ASSERT_EQ(::write(file.get(), text.data(), text.size()), static_cast<ssize_t>(text.size()));
  ASSERT_EQ(::lseek(file.get(), 0, SEEK_SET), 0);
  const auto read = KernelSymbols::read(file.get()), parsed = KernelSymbols::parse(text);
  ASSERT_TRUE(read && parsed);
  ASSERT_EQ(read->size(), 20'000U);
  for (Address n = 0; n < 20'000; ++n) {
    const auto one = read->find(first + 16 * n + 3), other = parsed->find(first + 16 * n + 3);
    ASSERT_TRUE(one && other) << n;
    ASSERT_EQ(one->name, "function_" + std::to_string(n));
    ASSERT_EQ(one->module, n % 3 == 0 ? "module_" + std::to_string(n / 1000) : "");
    ASSERT_EQ(one->start, other->start);
    ASSERT_EQ(other->name, one->name);
    ASSERT_EQ(other->module, one->module);
  }
}

TEST(KernelSymbols, OfThisMachine) {
  auto text = target::read_file_at(AT_FDCWD, "/proc/kallsyms", limits::kernel_symbol_bytes);
  ASSERT_TRUE(text) << text.error().message;
  const auto symbols = KernelSymbols::parse(*text);
  if (::geteuid() != 0) return;
  ASSERT_TRUE(symbols) << symbols.error().message;
  EXPECT_GT(symbols->size(), 10'000U);
}

}  // namespace
}  // namespace vitrine::symbol
