// Files with stapsdt notes, written by hand: for each rule one that keeps it and one that breaks it.
#include <fmt/format.h>

#include "check/publishers.hpp"

namespace vitrine::test {
namespace {

using check::Profile;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

/// A program or library with two probes, each part of which a macro can spoil.
constexpr const char* notes = R"asm(
#ifndef SITE
#define SITE .byte 0x90
#endif
#ifndef PC
#define PC site
#endif
#ifndef BASE
#define BASE _.stapsdt.base
#endif
#ifndef SEMAPHORE
#define SEMAPHORE semaphore
#endif
#ifndef ARGUMENTS
#define ARGUMENTS "-4@%edi 8@(%rsp)"
#endif
#ifndef PROVIDER
#define PROVIDER "shop"
#endif
#ifndef PROBES
#define PROBES .section .probes, "aw"
#endif
#ifndef PAGE
#define PAGE 4096
#endif
#ifndef NOTES
#define NOTES .section .note.stapsdt, "", "note"
#endif
#ifndef TYPE
#define TYPE 3
#endif
#ifndef END
#define END 5f
#endif
  .text
  .globl main, _start
main:
_start:
site:
  SITE
  nop
  nop
  nop
  nop
other:
  nop
  ret

#ifdef RELRO
  .section .data.rel.ro, "aw", @progbits
  .quad 1
#endif
  PROBES
#ifdef EXPORTED
  .globl semaphore
  .type semaphore, @object
  .size semaphore, 2
#endif
  .balign PAGE
#ifdef ODD
  .byte 0
#endif
semaphore:
  .zero 2

#ifndef NO_BASE
  .section .stapsdt.base, "aR", @progbits
_.stapsdt.base:
  .zero 1
#endif

  NOTES
  .balign 4
  .long 8, END - 4f, TYPE
  .asciz "stapsdt"
4:
  .quad PC, BASE, SEMAPHORE
  .asciz PROVIDER
  .asciz "order"
  .asciz ARGUMENTS
5:
  .balign 4
#ifdef TWICE
  .long 8, 7f - 6f, 3
  .asciz "stapsdt"
6:
  .quad PC, BASE, SEMAPHORE
  .asciz PROVIDER
  .asciz "order"
  .asciz ARGUMENTS
7:
  .balign 4
#endif
  .section .note.GNU-stack, "", @progbits
)asm";

const Words program{"-nostdlib", "-no-pie"};

TEST(SdtRules, OfAGoodFileAllHold) {
  for (const char* linker : {"bfd", "gold", "lld", "mold"}) {
    const Folder folder;
    Words options = program;
    options.push_back(fmt::format("-fuse-ld={}", linker));
    const auto report = check_file(folder.make("program", notes, options, "gcc", ".S"));
    EXPECT_THAT(failing(report), IsEmpty()) << linker;
    EXPECT_EQ(said(report, "sdt.site-nop"), "holds: 1 sites") << linker;
    EXPECT_EQ(said(report, "sdt.arguments-parse"), "holds: 2 arguments") << linker;
    EXPECT_EQ(said(report, "sdt.semaphore-writable"), "holds: 1 sites with semaphores") << linker;
  }
}

struct WrongNote {
  const char* name;
  const char* rule;
  Words options;
  const char* seen = "";
  Words also = {};  ///< rules that cannot but fail, too
  const char* compiler = "gcc";
};

void PrintTo(const WrongNote& wrong, std::ostream* out) {
  *out << wrong.name;
}

const WrongNote wrong_notes[] = {
    {"loaded_notes",
     "sdt.section",
     {"-DNOTES=.section .note.stapsdt, \"a\", \"note\""},
     "SHF_ALLOC"},
    {"notes_that_are_none",
     "sdt.section",
     {"-DNOTES=.section .note.stapsdt, \"\", @progbits"},
     "type"},
    {"length_that_lies", "sdt.notes-decode", {"-DEND=4f+9999"}, "", {"sdt.notes-kept"}},
    {"no_base", "sdt.base", {"-DNO_BASE", "-DBASE=0"}, "no section"},
    {"base_0", "sdt.base", {"-DBASE=0"}, "base is 0"},
    {"tombstone", "sdt.no-tombstones", {"-DTWICE", "-DPC=0"}, "2 of 2"},
    {"site_in_data", "sdt.site-executable", {"-DPC=semaphore"}, "shop:order"},
    {"site_on_push_pop", "sdt.site-nop", {"-DSITE=.byte 0x31, 0xc0"}, "is not the nop"},
    {"site_on_slow_nop", "sdt.site-nop", {"-DSITE=.byte 0x66, 0x0f, 0x1f, 0x00"}, "single-step"},
    {"nop5", "sdt.site-safe", {"-DSITE=.byte 0x0f, 0x1f, 0x44, 0x00, 0x00"}, "5-byte"},
    {"twice", "sdt.sites-unique", {"-DTWICE"}, "1 of 2 sites"},
    {"read_only_semaphore",
     "sdt.semaphore-writable",
     {"-DPROBES=.section .probes, \"a\""},
     "semaphore 0x"},
    {"semaphore_in_bss", "sdt.semaphore-in-file", {"-DPROBES=.bss"}, "semaphore 0x"},
    {"odd_semaphore", "sdt.semaphore-even", {"-DODD"}, "semaphore 0x"},
    {"semaphore_in_a_page_of_relro_by_lld",
     "sdt.semaphore-page",
     {"-DRELRO", "-DPAGE=2", "-fuse-ld=lld"},
     "in another segment, at 0x"},
    {"semaphore_in_a_page_of_relro_by_mold",
     "sdt.semaphore-page",
     {"-DRELRO", "-DPAGE=2", "-fuse-ld=mold"},
     "in another segment, at 0x"},
    {"exported_semaphore",
     "sdt.semaphore-hidden",
     {"-shared", "-DEXPORTED", "-fPIC"},
     "semaphore 0x"},
    {"broken_argument",
     "sdt.arguments-parse",
     {"-DARGUMENTS=\"8@(%rax,%rbx,3) -4@%edi\""},
     "1 of 2 arguments"},
    {"lost_symbol", "sdt.arguments-resolve", {"-DARGUMENTS=\"8f@.LC0(%rip)\""}, ".LC0"},
    {"many_arguments",
     "sdt.argument-count",
     {"-DARGUMENTS=\"4@$1 4@$1 4@$1 4@$1 4@$1 4@$1 4@$1 4@$1 4@$1 4@$1 4@$1 4@$1 4@$1\""},
     "13 arguments"},
    {"quoted_provider", "sdt.names", {"-DPROVIDER=\"\\\"shop\\\"\""}, ""},
};

class SdtWrong : public testing::TestWithParam<WrongNote> {};

TEST_P(SdtWrong, IsFound) {
  const WrongNote& wrong = GetParam();
  const Folder folder;
  Words options = wrong.options;
  const bool shared = !options.empty() && options.front() == "-shared";
  options.insert(options.begin(), "-nostdlib");
  if (!shared) options.insert(options.begin(), "-no-pie");
  const auto report = check_file(folder.make("file", notes, options, wrong.compiler, ".S"));
  EXPECT_THAT(said(report, wrong.rule), HasSubstr("fails: "));
  EXPECT_THAT(said(report, wrong.rule), HasSubstr(wrong.seen));
  std::vector<std::string> expected(wrong.also.begin(), wrong.also.end());
  expected.emplace_back(wrong.rule);
  EXPECT_THAT(failing(report), testing::IsSupersetOf(expected));
}

INSTANTIATE_TEST_SUITE_P(, SdtWrong, testing::ValuesIn(wrong_notes),
                         [](const auto& one) { return std::string(one.param.name); });

TEST(SdtRules, NotesThatWereStrippedAreMissed) {
  const Folder folder;
  const std::string path = folder.make("program", notes, program, "gcc", ".S");
  ASSERT_EQ(run({"objcopy", "--remove-section=.note.stapsdt", path}).status, 0);
  const auto report = check_file(path);
  EXPECT_THAT(said(report, "sdt.notes-kept"), HasSubstr("they have been stripped"));
  EXPECT_THAT(failing(report), ElementsAre("sdt.notes-kept"));
  EXPECT_THAT(
      failing(check_file(folder.make("plain", "int main(void) { return 0; }", {}), {Profile::sdt})),
      ElementsAre("sdt.notes-kept"));
}

TEST(SdtRules, OfAnotherMachineAreCheckedAlike) {
  const Folder folder;
  const auto made = [&](const char* site) {
    return check_file(folder.make(
        "program", notes, {"-nostdlib", "-no-pie", site, "-DARGUMENTS=\"-4@w0 8@[sp, 16]\""},
        "aarch64-linux-gnu-gcc", ".S"));
  };
  EXPECT_THAT(failing(made("-DSITE=nop")), IsEmpty());
  EXPECT_THAT(failing(made("-DSITE=ret")), ElementsAre("sdt.site-nop"));
}

TEST(SdtRules, OfOurOwnHeaderHoldWithEveryLinker) {
  constexpr const char* source = R"(
#include <vitrine/sdt.h>
void* const relocated[] = {&relocated};
int main(int argc, char** argv) { VITRINE_PROBE(shop, order, argc, argv[0]); return 0; }
)";
  for (const char* linker : {"bfd", "gold", "lld", "mold"})
    for (const char* compiler : {"gcc", "clang"}) {
      const Folder folder;
      const auto report = check_file(folder.make(
          "program", source, {"-I" INCLUDE_DIR, fmt::format("-fuse-ld={}", linker)}, compiler));
      EXPECT_THAT(failing(report), IsEmpty()) << linker << ' ' << compiler;
      EXPECT_EQ(said(report, "sdt.notes-kept"), "holds: 1 notes") << linker << ' ' << compiler;
      EXPECT_EQ(said(report, "sdt.semaphore-page"), "holds: 1 sites with semaphores")
          << linker << ' ' << compiler;
    }
}

}  // namespace
}  // namespace vitrine::test
