// The language of provider definitions: what it takes, and what it says of what it does not take.
#include "usdt/parse.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/limits.hpp"

namespace vitrine::usdt {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

Definition parsed(const std::string& text) {
  const auto definition = parse(text, "shop.d");
  EXPECT_TRUE(definition) << text << "\n" << definition.error().message;
  return definition ? *definition : Definition{};
}

/// The only probe of `provider shop { probe PROBE; };`.
Probe probe_of(const std::string& text) {
  const Definition definition = parsed("provider shop { probe " + text + "; };");
  if (definition.providers.size() != 1 || definition.providers[0].probes.size() != 1) {
    ADD_FAILURE() << text;
    return {};
  }
  return definition.providers[0].probes[0];
}

TEST(Parse, TakesProvidersWithTheirProbesInOrder) {
  const Definition definition = parsed(
      "provider shop {\n"
      "  probe request__start(int id, const char *path);\n"
      "  probe idle();\n"
      "};\n"
      "provider till_ { probe open(void); };\n"
      "provider empty { };\n");
  ASSERT_THAT(definition.providers, SizeIs(3));
  const Provider& shop = definition.providers[0];
  EXPECT_EQ(shop.name, "shop");
  EXPECT_EQ(shop.line, 1U);
  ASSERT_THAT(shop.probes, SizeIs(2));
  EXPECT_EQ(shop.probes[0].name, "request-start");
  EXPECT_EQ(shop.probes[0].identifier, "request__start");
  EXPECT_EQ(shop.probes[0].line, 2U);
  EXPECT_THAT(shop.probes[0].prototype.native, ElementsAre("int", "const char *"));
  EXPECT_THAT(shop.probes[0].prototype.translated, ElementsAre("int", "const char *"));
  EXPECT_THAT(shop.probes[0].prototype.argument_map, ElementsAre(0, 1));
  EXPECT_EQ(shop.probes[0].parameters[1].name, "path");
  EXPECT_THAT(shop.probes[1].prototype.native, IsEmpty());
  EXPECT_THAT(definition.providers[1].probes[0].prototype.native, IsEmpty());
  EXPECT_THAT(definition.providers[2].probes, IsEmpty());
  EXPECT_THAT(definition.warnings, IsEmpty());
}

TEST(Parse, SpellsTypesInOneWay) {
  const std::vector<std::pair<std::string, std::string>> types = {
      {"unsigned", "unsigned int"},
      {"long unsigned int", "unsigned long"},
      {"int long long", "long long"},
      {"signed short", "short"},
      {"signed char", "signed char"},
      {"double", "double"},
      {"long double", "long double"},
      {"char const * const", "const char *const"},
      {"volatile const int *", "const volatile int *"},
      {"bool", "_Bool"},
      {"struct request*r", "struct request *"},
      {"union u **", "union u **"},
      {"enum colour c", "enum colour"},
      {"string s", "string"},
      {"userland char *s", "char *"},
      {"char *__restrict s", "char *"},
      {"uint64_t n", "uint64_t"},
      {"foo_t", "foo_t"},
      {"char name[16]", "char *"},
      {"int m[3][4]", "int (*)[4]"},
      {"int (*f)(void)", "int (*)(void)"},
      {"int (*)(const char *, ...)", "int (*)(const char *, ...)"},
      {"int f(int)", "int (*)(int)"},
      {"void (*signal(int n, void (*)(int)))(int)", "void (*(*)(int, void (*)(int)))(int)"},
      {"char *(*(*table)[3])(void)", "char *(*(*)[3])(void)"},
  };
  for (const auto& [written, spelled] : types)
    EXPECT_EQ(probe_of("p(" + written + ")").parameters.at(0).type, spelled) << written;
}

TEST(Parse, GivesTheHeaderPointersToConst) {
  const std::vector<std::pair<std::string, std::string>> types = {
      {"char *", "const char *"},
      {"const char *", "const char *"},
      {"string", "const char *"},
      {"struct request *", "const struct request *"},
      {"char **", "char *const *"},
      {"void *", "const void *"},
      {"volatile int *", "const volatile int *"},
      {"int (*)(void)", "int (*)(void)"},
      {"int (*)[4]", "int (*)[4]"},
      {"int", "int"},
      {"char *const", "const char *const"},
  };
  for (const auto& [written, spelled] : types)
    EXPECT_EQ(probe_of("p(" + written + ")").parameters.at(0).c_type, spelled) << written;
}

TEST(Parse, LeavesPointersToFunctionTypesAsTheyAre) {
  const Definition definition =
      parsed("typedef int call_t(char *); provider p { probe a(call_t *f); };");
  EXPECT_EQ(definition.providers[0].probes[0].parameters[0].c_type, "call_t *");
}

TEST(Parse, MapsTranslatedArgumentsByName) {
  const Probe one = probe_of("p(struct a *x, int y, char *z) : (z_t *z, string x, long x)");
  EXPECT_THAT(one.prototype.native, ElementsAre("struct a *", "int", "char *"));
  EXPECT_THAT(one.prototype.translated, ElementsAre("z_t *", "string", "long"));
  EXPECT_THAT(one.prototype.argument_map, ElementsAre(2, 0, 0));
  EXPECT_THAT(probe_of("p(int x) : ()").prototype.translated, IsEmpty());
}

TEST(Parse, TakesDeclarationsBeforeProviders) {
  const Definition definition = parsed(
      "#!/usr/sbin/dtrace -s\n"
      "/* a comment\n of two lines */ // and one more\n"
      "typedef struct { int a; struct { char b; } c[2]; } conn_t, *conn_p;\r\n"
      "struct request { int provider; };\n"
      "enum colour { RED = '}', GREEN };\n"
      "extern int errno;\n"
      "int puts(const char *) __attribute__((nothrow, format(printf, 1, 2)));\n"
      "static __inline int twice(int a) { return a + a; }\n"
      "__extension__ typedef unsigned long long u_t;\n"
      "typedef __typeof__(sizeof(int)) s_t;\n"
      "provider shop { probe a(conn_t *c, u_t u, enum colour); };\n");
  ASSERT_THAT(definition.providers, SizeIs(1));
  EXPECT_THAT(definition.providers[0].probes[0].prototype.native,
              ElementsAre("conn_t *", "unsigned long long", "enum colour"));
}

/// Of the only probe of `definition`: "written: passed / shown", one a parameter.
std::vector<std::string> types_of(const std::string& definition) {
  std::vector<std::string> out;
  const Definition file = parsed(definition);
  for (const Probe& one : file.providers.at(0).probes)
    for (std::size_t i = 0; i < one.prototype.native.size(); ++i)
      out.push_back(one.prototype.native[i] + " / " + one.prototype.translated.at(i));
  return out;
}

TEST(Parse, ReplacesTypedefsByWhatObserversKnow) {
  EXPECT_THAT(types_of("typedef int myint; provider p { probe a(myint a, char *b); };"),
              ElementsAre("int / myint", "char * / char *"));
  EXPECT_THAT(
      types_of("typedef unsigned short a_t; typedef a_t b_t, *p_t; typedef const b_t c_t;\n"
               "provider p { probe a(c_t a, p_t b, b_t *c, c_t d[2]); };"),
      ElementsAre("const unsigned short / c_t", "a_t * / p_t", "b_t * / b_t *", "c_t * / c_t *"));
  EXPECT_THAT(
      types_of("typedef char ch_t; typedef ch_t *s_t; typedef ch_t name_t[16];\n"
               "provider p { probe a(s_t a, name_t b, ch_t *c, const s_t d); };"),
      ElementsAre("char * / s_t", "char * / name_t", "char * / char *", "char *const / const s_t"));
  EXPECT_THAT(types_of("typedef enum { A, B } e_t; typedef enum c c_t; typedef double d_t;\n"
                       "typedef struct s { int a; } *s_p; typedef uint32_t u_t;\n"
                       "provider p { probe a(e_t a, c_t b, d_t c, s_p d, u_t e); };"),
              ElementsAre("enum / e_t", "enum c / c_t", "double / d_t", "struct s * / s_p",
                          "uint32_t / u_t"));
}

TEST(Parse, KeepsNamesThatAllObserversKnow) {
  EXPECT_THAT(types_of("typedef unsigned int __u; typedef __u uint32_t; typedef uint32_t my_t;\n"
                       "provider p { probe a(uint32_t a, my_t b); };"),
              ElementsAre("uint32_t / uint32_t", "uint32_t / my_t"));
  // Here the file means another type by the name.
  EXPECT_THAT(types_of("typedef long pid_t; provider p { probe a(pid_t a); };"),
              ElementsAre("long / long"));
}

TEST(Parse, ReadsTranslatedTypedefsAsTheyAreDeclared) {
  EXPECT_THAT(types_of("typedef short s_t; typedef int i_t;\n"
                       "provider p { probe a(i_t x, i_t y) : (s_t x, i_t y); };"),
              ElementsAre("int / short", "int / i_t"));
}

TEST(Parse, LeavesTypedefsWithoutAMeaningHere) {
  EXPECT_THAT(types_of("typedef __typeof__(sizeof(int)) s_t; typedef other_t o_t; typedef t t;\n"
                       "provider p { probe a(s_t a, o_t b, t c); };"),
              ElementsAre("s_t / s_t", "other_t / o_t", "t / t"));
}

TEST(Parse, FollowsLongChainsOfTypedefsAndKeepsShortTypes) {
  std::string text = "typedef short t0; typedef t0 p0;";
  for (int i = 1; i <= 2000; ++i) {
    text += fmt::format(" typedef t{0} t{1}; typedef p{0} *p{1};", i - 1, i);
  }
  text += " typedef int *********deep_t; typedef int (*call_t)(t1, t2);";
  EXPECT_THAT(
      types_of(text + "provider p { probe a(t2000 a, p2000 b, deep_t c, call_t d); };"),
      ElementsAre("short / t2000", "p1999 * / p2000", "void * / deep_t", "void * / call_t"));
}

TEST(Parse, RefusesTypedefsOfWhatNoObserverCanRead) {
  for (const std::string type : {"struct s", "__int128", "double _Complex", "int"}) {
    const auto one =
        parse("typedef " + type + " a_t; typedef a_t b_t; provider p { probe a(b_t v); };", "p.d");
    EXPECT_EQ(one.has_value(), type == "int") << type;
    if (one) continue;
    EXPECT_THAT(one.error().message, HasSubstr("(b_t)"));
  }
}

TEST(Parse, AppliesAttributesWhereverTheyStand) {
  const Definition definition = parsed(
      "#pragma D option quiet\n"
      "#pragma D depends_on provider io\n"
      "#pragma ident \"x\"\n"
      "#ident \"y\"\n"
      "#pragma GCC diagnostic push\n"
      "#pragma D attributes evolving/EVOLVING/Common provider shop provider\n"
      "provider shop { probe a(); };\n"
      "#pragma D attributes Private/Unstable/ISA \\\n   provider shop args /* of it */\n");
  const dof::Stabilities& of = definition.providers[0].stabilities;
  EXPECT_EQ(of.provider, (dof::Stability{5, 5, 5}));
  EXPECT_EQ(of.args, (dof::Stability{1, 4, 4}));
  EXPECT_EQ(of.name, dof::Stability{});
}

TEST(Parse, OpensAProviderAgain) {
  const Definition definition = parsed(
      "provider shop { probe a(int); };\n"
      "provider till { probe a(); };\n"
      "provider shop { probe a(int x); probe b(); };\n");
  ASSERT_THAT(definition.providers, SizeIs(2));
  EXPECT_THAT(definition.providers[0].probes, SizeIs(2));
}

TEST(Parse, TakesAsManyArgumentsAsADofHolds) {
  std::string list = "int";
  for (int i = 1; i < 255; ++i) list += ", int";
  EXPECT_THAT(probe_of("p(" + list + ")").parameters, SizeIs(255));
}

TEST(Parse, TakesNamesOfSixtyThreeCharactersAsObserversSeeThem) {
  EXPECT_EQ(probe_of(std::string(61, 'a') + "__b()").name, std::string(61, 'a') + "-b");
}

struct Refusal {
  std::string text;
  std::string message;  // what stands in it
  std::string remedy;   // likewise
};

void PrintTo(const Refusal& refusal, std::ostream* out) {
  *out << refusal.text.substr(0, 80);
}

class Refused : public testing::TestWithParam<Refusal> {};

TEST_P(Refused, SaysWhereWhyAndWhatToWriteInstead) {
  const auto definition = parse(GetParam().text, "shop.d");
  ASSERT_FALSE(definition);
  EXPECT_EQ(definition.error().code, ErrorCode::malformed);
  EXPECT_THAT(definition.error().message, HasSubstr(GetParam().message));
  EXPECT_THAT(definition.error().message, HasSubstr("shop.d"));
  EXPECT_THAT(definition.error().remedy, HasSubstr(GetParam().remedy));
}

std::string many(const std::string& one, std::size_t count) {
  std::string out;
  for (std::size_t i = 0; i < count; ++i) out += one;
  return out;
}

INSTANTIATE_TEST_SUITE_P(
    Syntax, Refused,
    testing::Values(
        Refusal{"provider p { probe a() };", "shop.d:1: missing ';' after probe a, before '}'",
                "end it with ';'"},
        Refusal{"provider p { probe a(); }",
                "missing ';' after the '}' of provider p, before the end", "};"},
        Refusal{"\nprovider p {\n probe a();\n", "shop.d:4: missing '}'", "};"},
        Refusal{"provider p { probe a; };", "missing '(' after probe a", "probe a()"},
        Refusal{"provider p { probe a(int; };", "missing ')'", "close the list"},
        Refusal{"provider p { prob a(); };", "unexpected 'prob' instead of a probe", "probe name("},
        Refusal{"provider { };", "unexpected '{' instead of the name of a provider", "letters"},
        Refusal{"provider p { probe 9a(); };", "unexpected '9a' instead of the name of a probe",
                "digit"},
        Refusal{"provider p { probe a-b(); };", "'-' in the name of probe 'a'", "'__' means '-'"},
        Refusal{"provider p`q { };", "'`' in the name of provider 'p'", "identifiers"},
        Refusal{"privider p { };", "'privider' begins neither", "provider shop"},
        Refusal{"probe a();", "outside a provider", "provider shop"},
        Refusal{"shop:::start { }", "clauses belong to D programs", "vitrine trace"},
        Refusal{"translator a < b * > { };", "translators belong", "only the types"},
        Refusal{"struct a { int b; }\nprovider p { };", "shop.d:2: missing ';' before 'provider'",
                "';'"},
        Refusal{"struct a { int b;", "is not closed", "close it"},
        Refusal{"typedef int a", "missing ';' after a typedef", "';'"},
        Refusal{"extern int a", "not terminated", "';'"},
        Refusal{"extern \"C\" { }", "C++", "declarations of C"},
        Refusal{"", "no provider is declared", "provider shop"},
        Refusal{" /* nothing */ int x;", "no provider is declared", "provider shop"},
        Refusal{"provider p { probe a(); };\n /* and", "shop.d:2: this comment is not terminated",
                "*/"},
        Refusal{"int x = \"abc\nprovider p { };", "shop.d:1: this string is not terminated", "\""},
        Refusal{std::string("provider p\0 { };", 16), "unexpected byte 0x00", "ASCII"},
        Refusal{"provider \xff", "byte 0xff", "ASCII"}, Refusal{"\xff", "byte 0xff", "ASCII"},
        Refusal{"provider caf\xc3\xa9 { };", "byte 0xc3", "ASCII"},
        Refusal{"\x7f"
                "ELF\x02\x01",
                "an ELF file", "-s"},
        Refusal{"#include <stdint.h>\nprovider p { };",
                "shop.d:1: #include requires the C preprocessor", "-C"},
        Refusal{"provider p {\n#define X 1\n};", "shop.d:2: #define requires", "-C"},
        Refusal{"#line abc\n", "#line without a line number", "#line 12"}));

INSTANTIATE_TEST_SUITE_P(
    Names, Refused,
    testing::Values(
        Refusal{"provider shop2 { };", "provider 'shop2' ends in a digit", "process ID"},
        Refusal{"provider " + many("p", 64) + " { };", "has 64 characters", "63"},
        Refusal{"provider p { probe " + many("a", 64) + "(); };", "has 64 characters", "63"},
        Refusal{"provider p { probe a(int);\n probe a(long); };",
                "shop.d:2: probe a of provider p is declared twice (first shop.d:1)", "remove"},
        Refusal{"provider p { probe a(int);\n probe a(int); };", "declared twice", "remove"},
        Refusal{"provider p { probe a(int); };\nprovider p { probe a(long); };",
                "a different prototype", "the same"},
        Refusal{"provider a_ { probe b(); };\nprovider a { probe _b(); };",
                "has the symbol __dtrace_a____b", "rename"}));

INSTANTIATE_TEST_SUITE_P(
    Parameters, Refused,
    testing::Values(
        Refusal{"provider p { probe a(int x, ...); };", "probe a: '...' is not a parameter",
                "declare each"},
        Refusal{"provider p { probe a(void, int); };", "'void' with other parameters", "(void)"},
        Refusal{"provider p { probe a(void x); };", "'void' with", "void *"},
        Refusal{"provider p { probe a(int x) : (long); };", "translated parameter 1 has no name",
                "name"},
        Refusal{"provider p { probe a(int x) : (long y); };",
                "translated parameter 'y' is not declared in its prototype", "before ':'"},
        Refusal{"provider p { probe a(int x, int x); };", "two parameters are named 'x'", "own"},
        Refusal{"provider p { probe a(" + many("int, ", 255) + "int); };",
                "more than 255 parameters", "struct"},
        Refusal{"provider p { probe a(double _Complex d); };",
                "parameter 1 (double _Complex) occupies two registers", "parts"},
        Refusal{"provider p { probe a(struct s s); };", "passed by value", "struct s *"},
        Refusal{"provider p { probe a(__int128 x); };", "two registers", "64 bits"},
        Refusal{"provider p { probe a(struct { int x; } *s); };", "the parameters define a struct",
                "before the provider"},
        Refusal{"provider p { probe a(struct *s); };", "'struct' is followed by '*'", "name it"},
        Refusal{"provider p { probe a(*x); };", "expected a type before '*'", "const char *"},
        Refusal{"provider p { probe a(int, ); };", "expected a type before ')'", "write a type"},
        Refusal{"provider p { probe a(long char x); };", "'long char' is not a type",
                "write a type"},
        Refusal{"provider p { probe a(unsigned float x); };", "'unsigned float' is not a type",
                "write a type"},
        Refusal{"provider p { probe a(static int x); };", "unexpected 'static'", "remove"},
        Refusal{"provider p { probe a(int " + many("(", 100) + "x); };", "nested more than 32 deep",
                "typedef"},
        Refusal{"provider p { probe a(" + many("int (*)(", 100) + "); };",
                "nested more than 32 deep", "typedef"},
        Refusal{"provider p { probe a(int " + many("*", 100) + "x); };", "too many stars",
                "typedef"},
        Refusal{"provider p { probe a(int x" + many("[1]", 100) + "); };", "too many brackets",
                "typedef"},
        Refusal{"provider p { probe a(" + many("t", 128) + " x); };", "more than 127 characters",
                "typedef"}));

INSTANTIATE_TEST_SUITE_P(
    Pragmas, Refused,
    testing::Values(
        Refusal{"provider p { };\n#pragma D attributes Stable/Stable/Common provider p bogus",
                "shop.d:2: 'bogus' is not a part of a provider",
                "provider, module, function, name, args"},
        Refusal{"provider p { };\n#pragma D attributes Good/Stable/Common provider p args",
                "'Good' is not a stability", "Evolving"},
        Refusal{"provider p { };\n#pragma D attributes Stable/Stable/All provider p args",
                "'All' is not a dependency class", "ISA"},
        Refusal{"provider p { };\n#pragma D attributes Stable provider p args",
                "'Stable' is not three attributes", "Evolving/Evolving/Common"},
        Refusal{"provider p { };\n#pragma D attributes Stable/Stable/Common p",
                "expected the attributes of a provider", "Evolving/Evolving/Common"},
        Refusal{"provider p { };\n#pragma D attributes Stable/Stable/Common provider q args",
                "declares no provider 'q'", "use the name of a declared"},
        Refusal{"provider p { };\n#pragma D optoin quiet", "unknown pragma: #pragma D 'optoin'",
                "option"},
        Refusal{"provider p { };\n#pragma error do not use this", "#pragma error do not use this",
                "itself"}));

TEST(Parse, TakesLinesOfCommentsBeginWithAHash) {
  const auto read = parse(
      "# file: src/rpc/server.c\n"
      "  # prefix: rpc, in src/*.c \"quoted\n"
      "## heading\n"
      "#\n"
      "# 12 calls of it\n"
      "# if the socket is closed, or\n"
      "# else in the caller\n"
      "# include all of them\n"
      "# line of the caller\n"
      "provider p {\n"
      "\t# binary: qemu\n"
      "\tprobe a(int x);\n"
      "};\n",
      "x.d");
  ASSERT_TRUE(read) << read.error().message;
  ASSERT_EQ(read->providers.size(), 1U);
  EXPECT_EQ(read->providers[0].probes.size(), 1U);
  const auto wrong = parse("# file: a\n# 40 \"y.d\"\nprovider p`q { };", "x.d");
  ASSERT_FALSE(wrong);
  EXPECT_THAT(wrong.error().message, testing::HasSubstr("y.d:40"));
  for (const char* text :
       {"# include <a.h>\n", "# include HEADER\n", "# if X\n", "# if defined X && (Y + 1)\n",
        "# ifdef X // for the socket\n", "# else\n", "#if the socket\n", "#file: a\n"})
    EXPECT_FALSE(parse(std::string(text) + "provider p { probe a(); };", "x.d")) << text;
}

TEST(Parse, NamesThePlaceThatLineMarkersTell) {
  const auto one =
      parse("# 1 \"types.h\" 1\nint x;\n# 40 \"real.d\" 2\nprovider p {\n probe a;\n};", "x");
  ASSERT_FALSE(one);
  EXPECT_THAT(one.error().message, HasSubstr("real.d:41: "));
  const auto two = parse("#line 7\nprovider p { probe a; };", "x.d");
  ASSERT_FALSE(two);
  EXPECT_THAT(two.error().message, HasSubstr("x.d:7: "));
}

TEST(Parse, TellsWhereTheFirstDeclarationWas) {
  const auto one = parse(
      "# 3 \"a.d\"\nprovider p { probe a(int); };\n# 9 \"b.d\"\nprovider p { probe a(long); };",
      "x");
  ASSERT_FALSE(one);
  EXPECT_THAT(one.error().message, HasSubstr("b.d:9: "));
  EXPECT_THAT(one.error().message, HasSubstr("first a.d:3"));
}

TEST(Parse, RefusesWhatIsLargerThanAnyDefinition) {
  const auto one = parse(std::string(limits::definition_bytes + 1, ' '), "big.d");
  ASSERT_FALSE(one);
  EXPECT_EQ(one.error().code, ErrorCode::limit);
}

TEST(Parse, SurvivesEveryTruncation) {
  const std::string text =
      "#pragma D attributes Stable/Stable/Common provider p args\n"
      "typedef struct { int a[2]; } s_t; /* c */\n"
      "provider p { probe a(int (*f)(char, ...), string s) : (s_t *f, string s); };\n";
  ASSERT_TRUE(parse(text, "p.d"));
  for (std::size_t size = 0; size + 1 < text.size(); ++size) {
    const auto one = parse(text.substr(0, size), "p.d");
    ASSERT_FALSE(one) << size;
    EXPECT_FALSE(one.error().remedy.empty()) << size;
  }
}

}  // namespace
}  // namespace vitrine::usdt
