// vitrine usdt header and link as build systems call them, under both of their names.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>

#include "support/child.hpp"

namespace vitrine::usdt {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

constexpr auto shop =
    "provider shop { probe request__start(int id, const char *path); probe idle(); };\n";
constexpr auto program =
    "#include \"shop.h\"\n"
    "int main(int argc, char **argv) {\n"
    "  SHOP_REQUEST_START(argc, argv[0]);\n"
    "  if (SHOP_IDLE_ENABLED()) SHOP_IDLE();\n"
    "  return SHOP_IDLE_ENABLED();\n"
    "}\n";

/// Each in a directory of its own, which is where the commands run.
class UsdtCommand : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = testing::TempDir() + "usdt_command.XXXXXX";
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
    std::filesystem::create_symlink(VITRINE, folder_ / "dtrace");
    write("shop.d", shop);
    write("main.c", program);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  test::Outcome sh(const std::string& line) const {
    return test::run({"sh", "-c", "cd " + folder_.string() + " && " + line});
  }
  test::Outcome vitrine(const std::string& arguments) const {
    return sh(std::string(VITRINE) + " usdt " + arguments);
  }
  void write(const std::string& name, const std::string& text) const {
    std::ofstream(folder_ / name) << text;
  }
  std::string read(const std::string& name) const {
    std::ifstream file(folder_ / name);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  /// Of what is left behind, names other than those the test knows.
  std::vector<std::string> files() const {
    std::vector<std::string> out;
    for (const auto& entry : std::filesystem::directory_iterator(folder_))
      out.push_back(entry.path().filename());
    return out;
  }

  std::filesystem::path folder_;
};

TEST_F(UsdtCommand, MakesAProgramWithProbes) {
  ASSERT_EQ(vitrine("header -s shop.d").status, 0);
  ASSERT_EQ(sh("gcc -O2 -c main.c").status, 0);
  const test::Outcome linked = vitrine("link -v -s shop.d -o probes.o main.o");
  ASSERT_EQ(linked.status, 0) << linked.err;
  EXPECT_THAT(linked.err, HasSubstr("1 of 1 objects rewritten"));
  ASSERT_EQ(sh("gcc main.o probes.o -o main").status, 0);
  EXPECT_EQ(sh("./main").status, 0) << "idle, both questions are exactly false";
  const test::Outcome listed = sh(std::string(VITRINE) + " probes main --json");
  EXPECT_THAT(listed.out, HasSubstr("request-start"));
}

TEST_F(UsdtCommand, AnswersFalseByEveryProtocolWhileNobodyLooks) {
  for (const std::string protocol : {"semaphore", "return-value", "pointer"}) {
    const std::string option = " --enabled " + protocol;
    ASSERT_EQ(vitrine("header -s shop.d" + option).status, 0);
    ASSERT_EQ(sh("gcc -O2 -c main.c").status, 0);
    const test::Outcome linked = vitrine("link -s shop.d -o probes.o main.o" + option);
    ASSERT_EQ(linked.status, 0) << linked.err;
    ASSERT_EQ(sh("gcc main.o probes.o -o main").status, 0);
    EXPECT_EQ(sh("./main").status, 0) << protocol;
  }
}

TEST_F(UsdtCommand, LeavesAHeaderThatWouldNotChange) {
  ASSERT_EQ(vitrine("header -s shop.d -o out.h").status, 0);
  struct stat before {
  }, after{}, changed{};
  ASSERT_EQ(::stat((folder_ / "out.h").c_str(), &before), 0);
  ASSERT_EQ(vitrine("header -s shop.d -o out.h").status, 0);
  ASSERT_EQ(::stat((folder_ / "out.h").c_str(), &after), 0);
  EXPECT_EQ(before.st_ino, after.st_ino);
  EXPECT_EQ(before.st_mtim.tv_sec, after.st_mtim.tv_sec);
  EXPECT_EQ(before.st_mtim.tv_nsec, after.st_mtim.tv_nsec);
  write("shop.d", "provider shop { probe other(); };");
  ASSERT_EQ(vitrine("header -s shop.d -o out.h").status, 0);
  ASSERT_EQ(::stat((folder_ / "out.h").c_str(), &changed), 0);
  EXPECT_THAT(read("out.h"), HasSubstr("SHOP_OTHER"));
  EXPECT_THAT(files(), testing::UnorderedElementsAre("dtrace", "shop.d", "main.c", "out.h"));
}

TEST_F(UsdtCommand, WritesToStandardOutputOrBesideNothing) {
  const test::Outcome printed = vitrine("header -s shop.d -o -");
  EXPECT_EQ(printed.status, 0);
  EXPECT_THAT(printed.out, HasSubstr("#define SHOP_REQUEST_START(arg0, arg1)"));
  EXPECT_THAT(printed.out, HasSubstr("#ifndef _SHOP_H"));
  ASSERT_EQ(vitrine("header -s shop.d").status, 0);
  EXPECT_EQ(read("shop.h"), printed.out);
}

TEST_F(UsdtCommand, LeavesNothingBehindWhenItFails) {
  write("bad.d", "provider shop { probe a(int) };");
  const test::Outcome bad = vitrine("header -s bad.d");
  EXPECT_EQ(bad.status, 1);
  EXPECT_THAT(bad.err, HasSubstr("bad.d:1: missing ';' after probe a"));
  EXPECT_THAT(bad.err, HasSubstr("end it with ';'"));
  write("same.d", "provider a { probe b__c(); probe b_c(); };");
  const test::Outcome same = vitrine("header -s same.d");
  EXPECT_EQ(same.status, 2);
  EXPECT_THAT(same.err, HasSubstr("probe b__c of provider a (line 1) and probe b_c"));
  EXPECT_EQ(vitrine("header -s absent.d").status, 4);
  EXPECT_EQ(vitrine("header -s .").status, 1);
  EXPECT_EQ(vitrine("header -s shop.d -o absent/shop.h").status, 4);
  EXPECT_EQ(vitrine("header -s shop.d -DX").status, 2);
  EXPECT_EQ(vitrine("header").status, 2);
  EXPECT_EQ(vitrine("").status, 2);
  EXPECT_THAT(files(),
              testing::UnorderedElementsAre("dtrace", "shop.d", "main.c", "bad.d", "same.d"));
}

TEST_F(UsdtCommand, KeepsTheDefinitionThatIsGivenAsOutput) {
  for (const std::string step :
       {"header -s shop.d -o ./shop.d", "link -s shop.d -o shop.d main.o"}) {
    const auto outcome = vitrine(step);
    EXPECT_EQ(outcome.status, 2) << outcome.err;
    EXPECT_THAT(outcome.err, HasSubstr("shop.d is both the definition and the output"));
    EXPECT_EQ(read("shop.d"), shop);
  }
}

TEST_F(UsdtCommand, RunsThePreprocessorWhenAsked) {
  write("types.h", "typedef int my_t;\nstruct s { int provider; };\n");
  write("pre.d",
        "#include <sys/types.h>\n#include \"types.h\"\n#ifdef FULL\n"
        "provider pre { probe a(my_t x, COUNT n); };\n#endif\n");
  const test::Outcome whole = vitrine("header -C -DFULL '-DCOUNT=unsigned long' -I. -s pre.d -o -");
  EXPECT_EQ(whole.status, 0) << whole.err;
  EXPECT_THAT(whole.out, HasSubstr("__dtrace_pre___a(my_t, unsigned long)"));
  EXPECT_THAT(vitrine("header -C -I. -s pre.d -o -").err, HasSubstr("no provider is declared"));
  EXPECT_THAT(vitrine("header -s pre.d -o -").err, HasSubstr("add -C to run it"));
  write("error.d", "#error never\n");
  const test::Outcome failed = vitrine("header -C -s error.d");
  EXPECT_EQ(failed.status, 1);
  EXPECT_THAT(failed.err, HasSubstr("the C preprocessor cpp failed"));
  write("script.d",
        "#!/usr/sbin/dtrace -C\n#include \"types.h\"\nprovider pre { probe a(my_t x); };\n");
  EXPECT_THAT(vitrine("header -C -s script.d -o -").out, HasSubstr("__dtrace_pre___a(my_t)"));
  EXPECT_THAT(sh("mkdir -p away && cd away && ../dtrace -h -C -s ../script.d -o /dev/stdout").out,
              HasSubstr("__dtrace_pre___a(my_t)"));
  write("script_line.d", "#!/usr/sbin/dtrace -C\nprovider p {\n probe a(int, struct s d); };\n");
  EXPECT_THAT(vitrine("header -C -s script_line.d").err, HasSubstr("script_line.d:3: probe a"));
  write("line_only.d", "#!/usr/sbin/dtrace -C");
  EXPECT_THAT(vitrine("header -C -s line_only.d").err, HasSubstr("no provider is declared"));
  write("line.d", "#define X int\n\nprovider p {\n probe a(X, struct s d); };\n");
  EXPECT_THAT(vitrine("header -C -s line.d").err, HasSubstr("line.d:4: probe a: parameter 2"));
}

TEST_F(UsdtCommand, SpellsBothStepsAsDtraceDoes) {
  ASSERT_EQ(vitrine("header -s shop.d -o shop.h").status, 0);
  const std::string ours = read("shop.h");
  ASSERT_EQ(sh("rm shop.h && ./dtrace -h -s shop.d").status, 0);
  EXPECT_EQ(read("shop.h"), ours);
  ASSERT_EQ(sh("gcc -O2 -c main.c && cp main.o compiled.o").status, 0);
  const test::Outcome made = sh("./dtrace -G -64 -C -xnolibs -s shop.d -o shop.o main.o");
  ASSERT_EQ(made.status, 0) << made.err;
  EXPECT_THAT(made.err, IsEmpty());
  const std::string rewritten = read("main.o");
  const std::string probes = read("shop.o");
  EXPECT_EQ(sh("gcc main.o shop.o -o main && ./main").status, 0);
  ASSERT_EQ(sh("rm shop.o; cp compiled.o main.o; ./dtrace -Gsshop.d main.o").status, 0);
  EXPECT_TRUE(read("shop.o") == probes);
  EXPECT_TRUE(read("main.o") == rewritten);
  EXPECT_THAT(sh("./dtrace -V").out, HasSubstr("vitrine"));
}

TEST_F(UsdtCommand, MakesAProbeObjectOfNoObjectsAsSystemtapDoes) {
  ASSERT_EQ(sh("./dtrace -h -s shop.d && gcc -c main.c").status, 0);
  const test::Outcome made = sh("./dtrace -G -s shop.d -o probes.o");
  ASSERT_EQ(made.status, 0) << made.err;
  EXPECT_THAT(made.err, IsEmpty());
  const test::Outcome linked = sh("gcc -o main main.o probes.o && ./main");
  EXPECT_EQ(linked.status, 0) << linked.err;
  EXPECT_THAT(sh(std::string(VITRINE) + " probes main").out, HasSubstr("request-start"));
  EXPECT_EQ(vitrine("link -s shop.d -o probes.o").status, 2);  // there a forgotten list
}

TEST_F(UsdtCommand, FailsWhenNoObjectCallsAProbe) {
  write("none.c", "int main(void) { return 0; }\n");
  ASSERT_EQ(sh("gcc -c none.c").status, 0);
  for (const std::string command :
       {VITRINE " usdt link -s shop.d -o out.o none.o", "./dtrace -G -s shop.d -o out.o none.o"}) {
    const test::Outcome outcome = sh(command);
    EXPECT_NE(outcome.status, 0) << command;
    EXPECT_THAT(outcome.err, HasSubstr("none of the objects calls a declared probe")) << command;
    EXPECT_FALSE(std::filesystem::exists(folder_ / "out.o")) << command;
  }
}

TEST_F(UsdtCommand, SaysWhatItDoesNotDoUnderTheNameDtrace) {
  const std::vector<std::pair<std::string, std::string>> wrong = {
      {"-n syscall:::entry", "vitrine runs no D programs"},
      {"-l", "vitrine runs no D programs"},
      {"-s shop.d", "missing option: -h or -G"},
      {"-h", "-h requires a definition"},
      {"-h -G -s shop.d", "-h and -G exclude each other"},
      {"-h -s shop.d -s main.d", "more than one -s"},
      {"-h -s", "missing value of -s"},
      {"-65 -h -s shop.d", "invalid option -65"},
      {"-y", "invalid option -y"},
  };
  for (const auto& [arguments, message] : wrong) {
    const test::Outcome outcome = sh("./dtrace " + arguments);
    EXPECT_EQ(outcome.status, 2) << arguments;
    EXPECT_THAT(outcome.err, HasSubstr(message)) << arguments;
  }
  const test::Outcome noted = sh("./dtrace -Z -x aggsize=4k -h -s shop.d");
  EXPECT_EQ(noted.status, 0);
  EXPECT_THAT(noted.err, HasSubstr("-Z has no effect"));
  EXPECT_THAT(noted.err, HasSubstr("-x aggsize=4k has no effect"));
}

}  // namespace
}  // namespace vitrine::usdt
