// The constructor that registers a program's DOF with a DTrace helper: what the device is told, as
// readers understand it that do not know addresses relative to their word.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>

#include "dof/reader.hpp"
#include "usdt/object/workshop.hpp"

namespace vitrine::usdt {
namespace {

using test::bytes_of;
using test::Workshop;

/// Takes the place of the C library's ioctl(), and says what it was asked.
constexpr const char* device = R"(
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
int ioctl(int fd, unsigned long request, ...) {
  va_list list;
  va_start(list, request);
  void *argument = va_arg(list, void *);
  va_end(list);
  (void)fd;
  if (request == 0x4004d802) {
    FILE *log = fopen(getenv("LOG"), "a");
    fprintf(log, "remove %d\n", (int)(uintptr_t)argument);
    fclose(log);
    return 0;
  }
  if (request != 0x4050d803) return -1;
  uint64_t words[10], size;
  memcpy(words, argument, sizeof words);
  char *dof = (char *)(uintptr_t)words[9];
  memcpy(&size, dof + 40, sizeof size);
  FILE *log = fopen(getenv("LOG"), "a"), *maps = fopen("/proc/self/maps", "r");
  char line[4096], file[4096] = "none";
  while (fgets(line, sizeof line, maps)) {
    unsigned long from, to;
    sscanf(line, "%lx-%lx", &from, &to);
    if ((uintptr_t)dof >= from && (uintptr_t)dof < to) sscanf(line, "%*s %*s %*s %*s %*s %4095s", file);
  }
  fclose(maps);
  fprintf(log, "add %s %lx %s\n", (char *)words, (unsigned long)words[8], file);
  fclose(log);
  FILE *out = fopen(getenv("DOF"), "wb");
  fwrite(dof, 1, size, out);
  fclose(out);
  return 42;
}
)";

constexpr const char* program = R"(
#include <stdio.h>
__attribute__((noinline)) static void here(int x) {
  __dtrace_shop___order__start(x, 2);
  __asm__ volatile(".globl after_call\nafter_call:");
}
extern char after_call[];
int main(void) {
  here(1);
  printf("%lx\n", (unsigned long)after_call);
  return 0;
}
)";

struct Mode {
  const char* compile;
  const char* link;
};

class Registration : public testing::TestWithParam<Mode> {};

INSTANTIATE_TEST_SUITE_P(, Registration,
                         testing::Values(Mode{"gcc -O2 -fno-pie", "-no-pie"},
                                         Mode{"gcc -O2 -fPIE", "-pie"},
                                         Mode{"gcc -O2 -fPIE", "-static-pie"},
                                         Mode{"gcc -O2 -fno-pie", "-static"}));

TEST_P(Registration, TellsEverySiteRelativeToTheLoadBase) {
  Workshop shop;
  const auto [compiler, mode] = GetParam();
  const auto object = shop.compile("a", std::string(test::shop_header) + program, compiler);
  const auto helper = shop.compile("device", device, compiler);
  // A copy of the function that the link leaves out: its record must not be told.
  const auto registration = shop.path("register.o"), probes = shop.path("probes.o");
  ASSERT_EQ(test::shell(std::string(compiler) +
                        " -Wall -Wextra -Werror -c " VITRINE_SOURCE_ROOT
                        "/src/usdt/register/usdt_register.c -o " +
                        registration)
                .status,
            0);
  const auto unused =
      shop.compile("unused",
                   std::string(test::shop_header) +
                       "void unused(void) { __dtrace_shop___done(); __asm__ volatile(\"\"); }",
                   compiler);
  LinkOptions options;
  options.objects = {object, unused};
  options.output = probes;
  options.registration = true;
  ASSERT_TRUE(link(test::shop(), options));
  const auto archive = shop.path("lib.a");
  ASSERT_EQ(test::shell("ar rc " + archive + " " + unused).status, 0);
  const auto without = test::shell("gcc " + std::string(mode) + " -o " + shop.path("none") + " " +
                                   object + " " + probes + " " + archive);
  EXPECT_NE(without.status, 0);
  EXPECT_THAT(without.err, testing::HasSubstr("vitrine_usdt_register"));
  const auto file = shop.path("program");
  const auto linked =
      test::shell("gcc " + std::string(mode) + " -Wl,--gc-sections -o " + file + " " + object +
                  " " + probes + " " + registration + " " + helper + " " + archive);
  ASSERT_EQ(linked.status, 0) << linked.err;
  const auto log = shop.path("log"), copy = shop.path("copy.dof");
  const auto ran =
      test::shell("DTRACE_DOF_INIT_DEVNAME=/dev/null LOG=" + log + " DOF=" + copy + " " + file);
  ASSERT_EQ(ran.status, 0) << ran.err;
  std::uint64_t label = 0, base = 0;
  std::istringstream(ran.out) >> std::hex >> label;
  const auto bytes = bytes_of(log);
  std::istringstream told(std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size()));
  std::string add, module, where, remove, generation;
  told >> add >> module >> std::hex >> base >> where >> remove >> generation;
  EXPECT_EQ(add, "add");
  EXPECT_EQ(module, "program");
  EXPECT_EQ(where, file);  // readers tell by the mapping which file the DOF is of
  EXPECT_EQ(remove + " " + generation, "remove 42");

  const auto read = dof::read(bytes_of(copy));
  ASSERT_EQ(read.objects.size(), 1U);
  const dof::Object& object_told = read.objects[0];
  ASSERT_EQ(object_told.providers.size(), 1U);
  std::size_t found = 0;
  for (const dof::Record& record : object_told.providers[0].records) {
    EXPECT_NE(record.function, "unused");
    EXPECT_EQ(record.relocation, dof::Relocation::load_base);
    if (record.function.starts_with("__dtrace")) continue;
    EXPECT_EQ(record.name, "order-start");
    ASSERT_EQ(record.offsets.size(), 1U);
    EXPECT_EQ(base + record.word + record.offsets[0], label - 5);
    ++found;
  }
  EXPECT_EQ(found, 1U);
}

TEST(RegistrationOff, DoesNothingWhenDisabledOrWithoutADevice) {
  Workshop shop;
  const auto object = shop.compile("a", std::string(test::shop_header) + program);
  LinkOptions options;
  options.objects = {object};
  options.output = shop.path("probes.o");
  options.registration = true;
  ASSERT_TRUE(link(test::shop(), options));
  const auto file = shop.path("program");
  ASSERT_EQ(test::shell("gcc -o " + file + " " + object + " " + options.output +
                        " " VITRINE_SOURCE_ROOT "/src/usdt/register/usdt_register.c " +
                        shop.compile("device", device))
                .status,
            0);
  const auto log = shop.path("log");
  const std::string settings = "LOG=" + log + " DOF=" + log + ".dof ";
  EXPECT_EQ(
      test::shell(settings + "DTRACE_DOF_INIT_DISABLE=1 DTRACE_DOF_INIT_DEVNAME=/dev/null " + file)
          .status,
      0);
  const auto nothing = test::shell(settings + "DTRACE_DOF_INIT_DEVNAME=/no/such/device " + file);
  EXPECT_EQ(nothing.status, 0);
  EXPECT_EQ(nothing.err, "");
  EXPECT_FALSE(std::filesystem::exists(log));
  const auto loud = test::shell(
      settings + "DTRACE_DOF_INIT_DEBUG=1 DTRACE_DOF_INIT_DEVNAME=/no/such/device " + file);
  EXPECT_EQ(loud.status, 0);
  EXPECT_THAT(loud.err, testing::HasSubstr("/no/such/device"));
}

}  // namespace
}  // namespace vitrine::usdt
