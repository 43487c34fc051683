#include "usdt/object/workshop.hpp"

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>

namespace vitrine::test {

Outcome shell(const std::string& command) {
  return run({"sh", "-c", command});
}

Workshop::Workshop() {
  std::string name = std::filesystem::temp_directory_path() / "usdt_object.XXXXXX";
  folder_ = ::mkdtemp(name.data());
}

Workshop::~Workshop() {
  std::filesystem::remove_all(folder_);
}

std::string Workshop::compile(const std::string& name, const std::string& source,
                              const std::string& compiler) {
  const bool assembly = name.ends_with(".S");
  const std::string from = path(name + (assembly ? "" : ".c")), to = path(name + ".o");
  std::ofstream(from) << source;
  const Outcome ran = shell(compiler + " -c " + from + " -o " + to);
  EXPECT_EQ(ran.status, 0) << ran.err;
  return to;
}

std::vector<std::byte> bytes_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

void write(const std::string& path, std::span<const std::byte> bytes) {
  std::ofstream(path, std::ios::binary)
      .write(reinterpret_cast<const char*>(bytes.data()),
             static_cast<std::streamsize>(bytes.size()));
}

usdt::Definition shop() {
  usdt::Probe start, done;
  start.name = "order-start";
  start.prototype = {{"int", "int"}, {"int", "int"}, {0, 1}};
  done.name = "done";
  usdt::Provider provider;
  provider.name = "shop";
  provider.probes = {start, done};
  usdt::Definition all;
  all.providers = {provider};
  return all;
}

const char* const shop_header = R"(
#pragma GCC visibility push(hidden)
void __dtrace_shop___order__start(int, int);
void __dtrace_shop___done(void);
int __dtraceenabled_shop___done(void);
#pragma GCC visibility pop
)";

const char* const shop_program = R"(
#include <stdio.h>
static __attribute__((noinline)) int work(int x) {
  __dtrace_shop___order__start(x, 2);
  __asm__ volatile("");
  if (__dtraceenabled_shop___done()) return 7;
  return x + 1;
}
__attribute__((noinline)) int pub(int x) {
  __dtrace_shop___done();
  __asm__ volatile("");
  return work(x);
}
__attribute__((noinline)) void tail(void) { __dtrace_shop___done(); }
__attribute__((noinline)) int ask(void) { return __dtraceenabled_shop___done(); }
void (*volatile address)(void) = __dtrace_shop___done;
int main(int count, char **names) {
  (void)names;
  printf("%d\n", pub(count));
  tail();
  address();
  return ask();
}
)";

}  // namespace vitrine::test
