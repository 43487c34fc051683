// The header of a provider, by what real compilers make of it.
#include "usdt/header.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <regex>
#include <set>
#include <sstream>

#include "support/child.hpp"
#include "usdt/parse.hpp"

namespace vitrine::usdt {
namespace {

using testing::HasSubstr;
using testing::Not;

constexpr auto shop =
    "struct request { int id; };\n"
    "provider shop {\n"
    "  probe request__start(int id, const char *path);\n"
    "  probe request__done(struct request *r, char *reply, void *where, char **argv);\n"
    "  probe wide(long long a, unsigned long long b, uint64_t c, size_t d, pid_t e);\n"
    "  probe ok(_Bool ok, string text, int (*call)(const char *, ...));\n"
    "  probe idle();\n"
    "};\n";

/// Every macro, with literals, with const and with plain pointers; as a statement and in expressions.
constexpr auto user =
    "#include \"shop.h\"\n"
    "#include \"shop.h\"\n"
    "#include \"till.h\"\n"
    "struct request { int id; };\n"
    "int serve(const struct request *r, struct request *mine, char *buffer, const char *fixed,\n"
    "          char **argv, int (*call)(const char *, ...));\n"
    "int serve(const struct request *r, struct request *mine, char *buffer, const char *fixed,\n"
    "          char **argv, int (*call)(const char *, ...)) {\n"
    "  if (SHOP_REQUEST_START_ENABLED()) SHOP_REQUEST_START(1, \"/literal\");\n"
    "  else SHOP_REQUEST_START(r->id, fixed);\n"
    "  SHOP_REQUEST_START(2, buffer);\n"
    "  SHOP_REQUEST_DONE(r, buffer, r, argv);\n"
    "  SHOP_REQUEST_DONE(mine, \"text\", fixed, argv);\n"
    "  SHOP_WIDE(1, 2, 3, sizeof(int), 5);\n"
    "  SHOP_OK(r != mine, fixed, call);\n"
    "  TILL_OPEN();\n"
    "  SHOP_IDLE();\n"
    "  return SHOP_OK_ENABLED() + (TILL_OPEN_ENABLED() ? 2 : 0);\n"
    "}\n";

constexpr auto cpp_user =
    "#include <string>\n"
    "#include \"shop.h\"\n"
    "namespace inner {\n"
    "template <class T> struct Timer {\n"
    "  Timer() { SHOP_IDLE(); }\n"
    "  ~Timer() { SHOP_REQUEST_START(static_cast<int>(sizeof(T)), \"done\"); }\n"
    "};\n"
    "inline bool asked() { return SHOP_IDLE_ENABLED(); }\n"
    "}\n"
    "bool run(const std::string& text);\n"
    "bool run(const std::string& text) {\n"
    "  inner::Timer<long> timer;\n"
    "  if (inner::asked()) SHOP_REQUEST_START(3, text.c_str());\n"
    "  return inner::asked();\n"
    "}\n";

const std::vector<std::string> strict = {"-Wall",    "-Wextra",      "-Werror", "-pedantic",
                                         "-Wshadow", "-Wconversion", "-Wundef"};

std::string made(const std::string& definition, EnabledProtocol protocol,
                 const std::string& file_name = "shop.h") {
  const auto parsed = parse(definition, "shop.d");
  EXPECT_TRUE(parsed);
  const auto text = header_text(*parsed, {file_name, protocol});
  EXPECT_TRUE(text);
  return text ? *text : "";
}

constexpr EnabledProtocol protocols[] = {EnabledProtocol::semaphore, EnabledProtocol::return_value,
                                         EnabledProtocol::pointer};

class Header : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = testing::TempDir() + "usdt_header.XXXXXX";
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::string path(const std::string& name) const { return folder_ / name; }
  void write(const std::string& name, const std::string& text) const {
    std::ofstream(folder_ / name) << text;
  }
  void write_headers(EnabledProtocol protocol) const {
    write("shop.h", made(shop, protocol));
    write("till.h", made("provider till { probe open(); };", protocol, "till.h"));
    write("user.c", user);
    write("user.cpp", user);
    write("cpp_user.cpp", cpp_user);
  }
  /// Compiles to user.o; the compiler must not say a word.
  void compile(std::vector<std::string> command, const std::string& source) const {
    command.insert(command.end(), strict.begin(), strict.end());
    command.insert(command.end(), {"-c", path(source), "-o", path("user.o"), "-I", folder_});
    const test::Outcome outcome = test::run(command);
    std::string line;
    for (const std::string& word : command) line += word + " ";
    EXPECT_EQ(outcome.status, 0) << line << "\n" << outcome.err;
    EXPECT_EQ(outcome.err, "") << line;
  }

  std::filesystem::path folder_;
};

TEST_F(Header, CompilesAsEveryCWithoutAWarning) {
  for (const EnabledProtocol protocol : protocols) {
    write_headers(protocol);
    for (const std::string compiler : {"gcc", "clang"})
      for (const std::string standard : {"c89", "gnu89", "c99", "c11", "c17", "c2x"})
        compile({compiler, "-std=" + standard, "-O2"}, "user.c");
  }
}

TEST_F(Header, CompilesAsEveryCppWithoutAWarning) {
  for (const EnabledProtocol protocol : protocols) {
    write_headers(protocol);
    for (const std::string compiler : {"g++", "clang++"}) {
      for (const std::string standard : {"c++98", "c++11", "c++14", "c++17", "c++20"})
        compile({compiler, "-std=" + standard, "-O2", "-Wold-style-cast"}, "user.cpp");
      compile({compiler, "-std=c++17", "-O0"}, "cpp_user.cpp");
    }
  }
}

TEST_F(Header, CompilesForOtherMachines) {
  for (const EnabledProtocol protocol : protocols) {
    write_headers(protocol);
    for (const std::string compiler : {"i686-linux-gnu-gcc", "aarch64-linux-gnu-gcc"})
      for (const std::string standard : {"c89", "c11"})
        for (const std::string pic : {"-fPIC", "-fno-pic"})
          compile({compiler, "-std=" + standard, "-O2", pic}, "user.c");
    compile({"aarch64-linux-gnu-g++", "-std=c++20", "-O2"}, "user.cpp");
    compile({"clang", "--target=aarch64-linux-gnu", "-std=c11", "-O2"}, "user.c");
    compile({"clang", "--target=i686-linux-gnu", "-std=c11", "-O2", "-fPIC"}, "user.c");
  }
}

TEST_F(Header, LeavesNothingOfDisabledProbes) {
  write_headers(EnabledProtocol::semaphore);
  write("off.c",
        "#include \"shop.h\"\n"
        "int f(int i);\n"
        "int f(int i) {\n"
        "  SHOP_REQUEST_START(i++, never_declared(i));\n"
        "  if (SHOP_REQUEST_START_ENABLED()) return -1;\n"
        "  SHOP_IDLE();\n"
        "  return i;\n"
        "}\n");
  for (const std::string compiler : {"gcc", "clang"})
    for (const std::string level : {"-O0", "-O2"}) {
      compile({compiler, "-std=c89", level, "-D_DTRACE_VERSION=0"}, "off.c");
      const test::Outcome symbols = test::run({"nm", path("user.o")});
      EXPECT_THAT(symbols.out, HasSubstr(" T f\n"));
      EXPECT_THAT(symbols.out, Not(HasSubstr("__dtrace")));
      EXPECT_THAT(symbols.out, Not(HasSubstr(" U ")));
    }
}

/// Calls by name in what `objdump -dr` says: mnemonic before each relocation against a probe.
std::vector<std::string> calls(const std::string& text) {
  std::vector<std::string> out;
  std::istringstream lines(text);
  const std::regex instruction("^\\s+[0-9a-f]+:\\t[0-9a-f ]+\\t(\\S+)");
  std::string last;
  for (std::string line; std::getline(lines, line);) {
    std::smatch match;
    if (std::regex_search(line, match, instruction)) last = match[1];
    if (line.find("__dtrace_") != std::string::npos && line.find("R_") != std::string::npos)
      out.push_back(last);
  }
  return out;
}

TEST_F(Header, CallsProbesDirectlyAndNeverJumps) {
  write_headers(EnabledProtocol::semaphore);
  write("last.c",
        "#include \"shop.h\"\n"
        "void last(void) { SHOP_IDLE(); }\n"
        "void maybe(int i) { if (i > 3) SHOP_IDLE(); }\n"
        "void either(int i) { if (i) SHOP_IDLE(); else SHOP_REQUEST_START(i, \"x\"); }\n");
  struct Build {
    std::vector<std::string> command;
    std::string objdump, call;
  };
  const std::vector<Build> builds = {
      {{"gcc", "-O2", "-fPIC", "-fno-plt"}, "objdump", "call"},
      {{"gcc", "-Os"}, "objdump", "call"},
      {{"gcc", "-O0"}, "objdump", "call"},
      {{"clang", "-Os"}, "objdump", "call"},
      {{"clang", "-O2", "-fPIC", "-fno-plt"}, "objdump", "call"},
      {{"aarch64-linux-gnu-gcc", "-O2", "-fPIC", "-fno-plt"}, "aarch64-linux-gnu-objdump", "bl"},
      {{"i686-linux-gnu-gcc", "-O2", "-fPIC", "-fno-plt"}, "objdump", "call"},
  };
  for (const Build& build : builds) {
    std::vector<std::string> command = build.command;
    command.insert(command.end(), {"-c", path("last.c"), "-o", path("last.o")});
    ASSERT_EQ(test::run(command).status, 0);
    const test::Outcome code = test::run({build.objdump, "-dr", path("last.o")});
    const auto found = calls(code.out);
    EXPECT_GE(found.size(), 3U) << code.out;
    for (const std::string& mnemonic : found)
      EXPECT_TRUE(mnemonic.starts_with(build.call)) << build.command[0] << ": " << mnemonic;
  }
}

/// What the object step makes, written by hand: the question is what the header makes of it.
constexpr auto answers =
    "volatile unsigned short __dtracesemaphore_shop___idle "
    "__attribute__((visibility(\"hidden\")));\n"
    "int __dtraceenabled_shop___idle(unsigned *flag);\n"
    "static int on;\n"
    "void turn(int to) { on = to; __dtracesemaphore_shop___idle = (unsigned short)to; }\n"
    "int __dtraceenabled_shop___idle(unsigned *flag) {\n"
    "  if (POINTER && on) *flag = 1;\n"
    "  return on;\n"
    "}\n";

TEST_F(Header, AsksWhetherSomeoneLooksByEveryProtocol) {
  write("main.c",
        "#include \"shop.h\"\n"
        "void turn(int to);\n"
        "int main(void) {\n"
        "  int one, two, three, i;\n"
        "  one = SHOP_IDLE_ENABLED();\n"
        "  turn(1);\n"
        "  two = SHOP_IDLE_ENABLED();\n"
        "  turn(0);\n"
        "  for (three = i = 0; i < 9; ++i) three += SHOP_IDLE_ENABLED();\n"
        "  return one == 0 && two == 1 && three == 0 ? 42 : 1;\n"
        "}\n");
  write("answers.c", answers);
  const std::vector<std::vector<std::string>> builds = {
      {"gcc", "-O2", "-no-pie", "-fno-pic"},
      {"gcc", "-O2", "-fPIE", "-pie", "-flto"},
      {"gcc", "-O0", "-mcmodel=large"},
      {"gcc", "-O2", "-fuse-ld=gold", "-ffunction-sections", "-fdata-sections",
       "-Wl,--gc-sections"},
      {"clang", "-O2", "-fuse-ld=lld", "-flto=thin"},
      {"clang", "-Os", "-fPIE", "-pie"},
      {"gcc", "-O2", "-fuse-ld=mold"},
  };
  for (const EnabledProtocol protocol : protocols) {
    write("shop.h", made(shop, protocol));
    const std::string pointer =
        protocol == EnabledProtocol::pointer ? "-DPOINTER=1" : "-DPOINTER=0";
    for (std::vector<std::string> command : builds) {
      command.insert(command.end(),
                     {pointer, path("main.c"), path("answers.c"), "-o", path("program")});
      const test::Outcome built = test::run(command);
      ASSERT_EQ(built.status, 0) << built.err;
      EXPECT_EQ(test::run({path("program")}).status, 42) << command[0] << " " << command[1];
    }
  }
}

TEST_F(Header, AProgramWithoutItsProbeObjectDoesNotLink) {
  write("shop.h", made(shop, EnabledProtocol::semaphore));
  write("lib.c",
        "#include \"shop.h\"\nint f(void);\nint f(void) { return SHOP_IDLE_ENABLED(); }\n");
  for (const std::string linker : {"bfd", "gold", "lld"}) {
    const test::Outcome linked = test::run(
        {"gcc", "-shared", "-fPIC", "-fuse-ld=" + linker, path("lib.c"), "-o", path("lib.so")});
    EXPECT_NE(linked.status, 0) << linker;
    EXPECT_THAT(linked.err, HasSubstr("__dtracesemaphore_shop___idle"));
  }
}

TEST_F(Header, TellsWhatTheProgramMustDeclare) {
  const std::string text =
      made("typedef int id_t; provider p { probe a(id_t i, enum colour c, struct s *s); };",
           EnabledProtocol::semaphore, "gen/my-probes.h");
  EXPECT_THAT(text, HasSubstr("before it includes this: enum colour, id_t."));
  EXPECT_THAT(text, HasSubstr("\nstruct s;\n"));
  EXPECT_THAT(text, HasSubstr("#ifndef _MY_PROBES_H\n#define _MY_PROBES_H\n"));
}

TEST_F(Header, NamesBothProbesWhoseMacrosAreOne) {
  const std::vector<std::pair<std::string, std::string>> collisions = {
      {"provider foo { probe bar__baz();\nprobe bar_baz(); };", "FOO_BAR_BAZ"},
      {"provider foo { probe bar();\nprobe bar_enabled(); };", "FOO_BAR_ENABLED"},
      {"provider foo_bar { probe baz(); };\nprovider foo { probe bar_baz(); };", "FOO_BAR_BAZ"},
      {"provider Foo { probe bar(); };\nprovider foo { probe bar(); };", "FOO_BAR"},
  };
  for (const auto& [text, macro] : collisions) {
    const auto definition = parse(text, "foo.d");
    ASSERT_TRUE(definition) << definition.error().message;
    const auto header = header_text(*definition, {"foo.h"});
    ASSERT_FALSE(header);
    EXPECT_EQ(header.error().code, ErrorCode::usage);
    EXPECT_THAT(header.error().message, HasSubstr("macro " + macro));
    EXPECT_THAT(header.error().message, HasSubstr("(line 1)"));
    EXPECT_THAT(header.error().message, HasSubstr("(line 2)"));
    EXPECT_EQ(header.error().remedy, "rename one of them");
  }
}

std::set<std::string> macros(const std::string& text) {
  std::set<std::string> out;
  const std::regex define("#define ([A-Z0-9_]+)\\(");
  for (std::sregex_iterator at(text.begin(), text.end(), define), end; at != end; ++at)
    out.insert((*at)[1]);
  return out;
}

/// SystemTap's `dtrace -h`, from Debian's systemtap-sdt-dev, made of the same definition.
TEST_F(Header, HasTheMacrosOfSystemTaps) {
  const std::string text =
      "provider shop {\n"
      "  probe request__start(int id, char *path);\n"
      "  probe request_done(int id);\n"
      "  probe cache__hit__twice(int a, int b, int c);\n"
      "  probe idle();\n"
      "};\n";
  write("shop.d", text);
  const test::Outcome peer =
      test::run({"/usr/bin/dtrace", "-h", "-s", path("shop.d"), "-o", path("peer.h")});
  ASSERT_EQ(peer.status, 0) << peer.err;
  std::ifstream file(path("peer.h"));
  const std::string theirs((std::istreambuf_iterator<char>(file)), {});
  EXPECT_EQ(macros(made(text, EnabledProtocol::semaphore)), macros(theirs));
}

}  // namespace
}  // namespace vitrine::usdt
