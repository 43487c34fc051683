// Files with label slots: for each rule one that keeps it and one that breaks it.
#include <fmt/format.h>

#include "abi/custom_labels.hpp"
#include "check/publishers.hpp"

namespace vitrine::test {
namespace {

using check::Profile;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::StartsWith;

constexpr const char* slot_source = R"(
#ifndef VERSION
#define VERSION 1
#endif
#ifndef SLOT_TYPE
#define SLOT_TYPE void*
#endif
#ifndef VERSION_TYPE
#define VERSION_TYPE unsigned
#endif
#ifndef CONST
#define CONST const
#endif
#ifndef SLOT_ATTRIBUTES
#define SLOT_ATTRIBUTES visibility("default")
#endif
#ifndef VERSION_ATTRIBUTES
#define VERSION_ATTRIBUTES visibility("default")
#endif
#ifndef THREAD
#define THREAD __thread
#endif
#ifndef SLOT
#define SLOT custom_labels_current_set
#endif
#ifndef NO_VERSION
__attribute__((used, VERSION_ATTRIBUTES)) CONST VERSION_TYPE custom_labels_abi_version = VERSION;
#endif
#ifndef NO_SLOT
__attribute__((used, SLOT_ATTRIBUTES)) THREAD SLOT_TYPE SLOT;
#ifndef UNUSED
void* use(void) { return (void*)&SLOT; }
#endif
#endif
#ifdef PROGRAM
#ifdef ODD
__thread char odd[ODD] __attribute__((aligned(64))) = {1};
#endif
int main(void) { return use() == 0; }
#endif
)";

const Words library{"-shared", "-fPIC", "-ftls-model=global-dynamic", "-mtls-dialect=gnu2"};

Words with(Words options, const Words& more) {
  options.insert(options.end(), more.begin(), more.end());
  return options;
}

TEST(LabelFiles, ALibraryByTheDocumentKeepsEveryRule) {
  const Folder folder;
  const auto report = check_file(folder.make("libcustomlabels.so", slot_source, library));
  EXPECT_THAT(failing(report), IsEmpty());
  EXPECT_THAT(report.checked.names(), ElementsAre("custom-labels-v1"));
  EXPECT_EQ(said(report, "labels.version-value"), "holds: it is 1");
  EXPECT_EQ(said(report, "labels.tlsdesc"), "holds: it is reached by TLSDESC");
}

struct Wrong {
  const char* name;
  const char* rule;
  Words options;  ///< beyond those of the library by the document
  const char* file = "libcustomlabels.so";
  Words also = {};  ///< rules that cannot but fail, too
};

void PrintTo(const Wrong& wrong, std::ostream* out) {
  *out << wrong.name;
}

const Wrong wrongs[] = {
    {"hidden_slot", "labels.slot-exported", {"-DSLOT_ATTRIBUTES=visibility(\"hidden\")"}},
    {"no_slot", "labels.slot-exported", {"-DNO_SLOT"}},
    {"global_slot",
     "labels.slot-thread-local",
     {"-DTHREAD="},
     "libcustomlabels.so",
     {"labels.tlsdesc"}},
    {"large_slot", "labels.slot-thread-local", {"-DSLOT_TYPE=struct{void*a;long b;}"}},
    {"hidden_version", "labels.version-exported", {"-DVERSION_ATTRIBUTES=visibility(\"hidden\")"}},
    {"no_version", "labels.version-exported", {"-DNO_VERSION"}},
    {"wide_version", "labels.version-object", {"-DVERSION_TYPE=long"}},
    {"version_7", "labels.version-value", {"-DVERSION=7"}},
    {"version_of_v0", "labels.version-value", {"-DVERSION=0"}},
    {"variable_version",
     "labels.version-constant",
     {"-DCONST="},
     "libcustomlabels.so",
     {"labels.version-at-its-offset"}},
    {"bss_version",
     "labels.version-at-its-offset",
     {"-DCONST=", "-DVERSION=0"},
     "libcustomlabels.so",
     {"labels.version-constant", "labels.version-value"}},
    {"lld",
     "labels.version-at-its-offset",
     {"-DCONST=", "-fuse-ld=lld"},
     "libcustomlabels.so",
     {"labels.version-constant"}},
    {"gd", "labels.tlsdesc", {"-mtls-dialect=gnu"}},
    {"ie", "labels.tlsdesc", {"-ftls-model=initial-exec"}},
    {"unused", "labels.tlsdesc", {"-DUNUSED"}},
    {"no_symbol", "labels.tlsdesc-symbol", {"-fuse-ld=lld", "-Wl,-Bsymbolic", "-DCONST=const"}},
    {"versioned_file", "labels.file-name", {}, "libcustomlabels.so.1"},
    {"another_file", "labels.file-name", {}, "liblabels.so"},
};

class LabelFilesWrong : public testing::TestWithParam<Wrong> {};

TEST_P(LabelFilesWrong, IsFound) {
  const Wrong& wrong = GetParam();
  const Folder folder;
  const auto report =
      check_file(folder.make(wrong.file, slot_source, with(library, wrong.options)));
  std::vector<std::string> expected(wrong.also.begin(), wrong.also.end());
  expected.emplace_back(wrong.rule);
  EXPECT_THAT(failing(report), testing::UnorderedElementsAreArray(expected));
  for (const check::Finding& one : report.findings) {
    if (one.fails()) {
      EXPECT_NE(one.outcome.remedy, "") << one.rule->id;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(, LabelFilesWrong, testing::ValuesIn(wrongs),
                         [](const auto& one) { return std::string(one.param.name); });

TEST(LabelFiles, EveryLinkerMakesAGoodLibrary) {
  for (const char* linker : {"bfd", "gold", "lld", "mold"}) {
    const Folder folder;
    const auto report = check_file(
        folder.make("libcustomlabels.so", slot_source,
                    with(library, {fmt::format("-fuse-ld={}", linker), "-DCONST=const"})));
    EXPECT_THAT(failing(report, false), IsEmpty()) << linker;
    EXPECT_EQ(said(report, "labels.tlsdesc"), "holds: it is reached by TLSDESC") << linker;
    EXPECT_EQ(said(report, "labels.version-value"), "holds: it is 1") << linker;
  }
}

TEST(LabelFiles, OfVersion0AreKnownByTheirSlot) {
  const Folder folder;
  const Words v0{"-DSLOT=custom_labels_thread_local_data", "-DVERSION=0",
                 "-DSLOT_TYPE=struct{void*a;long b;}"};
  const std::string path = folder.make("libcustomlabels.so.0", slot_source, with(library, v0));
  const auto report = check_file(path);
  EXPECT_THAT(failing(report), IsEmpty());
  EXPECT_THAT(report.checked.names(), ElementsAre("custom-labels-v0"));
  EXPECT_EQ(said(report, "labels.version-value"), "holds: it is 0");
  // Who asks for version 1 does not have it.
  EXPECT_THAT(failing(check_file(path, {Profile::custom_labels_v1})),
              Contains("labels.slot-exported"));
}

TEST(LabelFiles, OneVersionCannotMatchTwoSlots) {
  const Folder folder;
  const std::string second =
      "__attribute__((used)) __thread struct { void* storage; unsigned long count; } "
      "custom_labels_thread_local_data;\n"
      "void* also(void) { return &custom_labels_thread_local_data; }\n";
  const auto path = folder.make("libcustomlabels.so", slot_source + second, library);
  EXPECT_THAT(said(check_file(path), "labels.version-value"),
              AllOf(StartsWith("fails: it is 1"), HasSubstr("custom_labels_thread_local_data"),
                    HasSubstr("custom_labels_current_set")));
  // Asked for one, that one is checked.
  EXPECT_THAT(said(check_file(path, {Profile::custom_labels_v1}), "labels.version-value"),
              StartsWith("holds"));
  EXPECT_THAT(said(check_file(path, {Profile::custom_labels_v0}), "labels.version-value"),
              StartsWith("fails: it is 1"));
}

TEST(LabelFiles, AHiddenVisibilityInTheDynamicTableIsFound) {
  const Folder folder;
  const std::string path = folder.make("libcustomlabels.so", slot_source, library);
  std::string bytes = content_of(path);
  Elf64_Ehdr header;
  std::memcpy(&header, bytes.data(), sizeof header);
  for (unsigned i = 0; i < header.e_shnum; ++i) {
    Elf64_Shdr section, strings;
    std::memcpy(&section, bytes.data() + header.e_shoff + i * sizeof section, sizeof section);
    if (section.sh_type != SHT_DYNSYM) continue;
    std::memcpy(&strings, bytes.data() + header.e_shoff + section.sh_link * sizeof strings,
                sizeof strings);
    for (std::uint64_t at = section.sh_offset; at < section.sh_offset + section.sh_size;
         at += sizeof(Elf64_Sym)) {
      Elf64_Sym symbol;
      std::memcpy(&symbol, bytes.data() + at, sizeof symbol);
      if (std::strcmp(bytes.data() + strings.sh_offset + symbol.st_name,
                      abi::custom_labels::v1_slot_symbol) != 0)
        continue;
      symbol.st_other = STV_HIDDEN;
      std::memcpy(bytes.data() + at, &symbol, sizeof symbol);
    }
  }
  const auto report = check_file(folder.write("libcustomlabels.so", bytes));
  EXPECT_THAT(failing(report), ElementsAre("labels.slot-visible"));
}

TEST(LabelFiles, OfProgramsNeedTheirSlotsExported) {
  const Folder folder;
  const auto made = [&](const char* name, Words options) {
    options.insert(options.end(), {"-DPROGRAM"});
    return check_file(folder.make(name, slot_source, options));
  };
  EXPECT_THAT(failing(made("exported", {"-Wl,--export-dynamic"}), false), IsEmpty());
  const auto plain = made("plain", {});
  EXPECT_THAT(failing(plain, false),
              ElementsAre("labels.slot-exported", "labels.version-exported"));
  EXPECT_THAT(said(plain, "labels.slot-exported"), HasSubstr("in .symtab only"));
  EXPECT_THAT(failing(made("pie", {"-static-pie", "-Wl,--export-dynamic"}), false), IsEmpty());
}

TEST(LabelFiles, OfWhatTheLinkMadeLocalTheRemedyNamesTheOption) {
  const Folder folder;
  const std::string object = folder.make("slot.o", slot_source, {"-c"});
  ASSERT_EQ(run({"ar", "rcs", folder / "libslot.a", object}).status, 0);
  const std::string script = folder.write("script", "{ global: main; local: *; };");
  const auto remedy_of = [&](const Words& options, std::string_view rule) -> std::string {
    const auto report = check_file(folder.make(
        "program", "void* use(void); int main(void) { return use() == 0; }",
        with({folder / "libslot.a", "-Wl,--export-dynamic-symbol=custom_labels_current_set",
              "-Wl,--export-dynamic-symbol=custom_labels_abi_version"},
             options)));
    for (const check::Finding& one : report.findings)
      if (one.rule->id == rule) return one.fails() ? one.outcome.remedy : "none: it holds";
    return "not asked";
  };
  for (const char* rule : {"labels.slot-exported", "labels.version-exported"}) {
    EXPECT_EQ(remedy_of({}, rule), "none: it holds");
    for (const std::string& option :
         {"-Wl,--version-script=" + script, std::string("-Wl,--exclude-libs,ALL")}) {
      EXPECT_THAT(remedy_of({option}, rule), HasSubstr("--exclude-libs")) << option;
      EXPECT_THAT(remedy_of({option}, rule), HasSubstr("version script")) << option;
    }
  }
}

TEST(LabelFiles, OfASlotThatNoCodeUsesTheRemedyNamesTheLibrary) {
  const Folder folder;
  const auto report =
      check_file(folder.make("libcustomlabels.so", slot_source, {"-shared", "-fPIC", "-DUNUSED"}));
  std::string remedy;
  for (const check::Finding& one : report.findings)
    if (one.rule->id == std::string_view("labels.tlsdesc") && one.fails())
      remedy = one.outcome.remedy;
  EXPECT_THAT(remedy, HasSubstr("links libcustomlabels.so"));
}

TEST(LabelFiles, AProgramThatRefersToALibrarysVersionPublishesNothing) {
  constexpr const char* source = R"(
extern const unsigned custom_labels_abi_version;
int main(void) { return (int)custom_labels_abi_version; }
)";
  const Folder folder;
  const std::string program =
      folder.make("program", source, {"-fno-pie", "-no-pie", LABELS_LIBRARY});
  ASSERT_THAT(run({"readelf", "-rW", program}).out, HasSubstr("R_X86_64_COPY"));
  EXPECT_THAT(check_file(program).findings, IsEmpty());
}

TEST(LabelFiles, OfProgramsWithFixedAddressesGetARemedyThatHelps) {
  constexpr std::string_view rule = "labels.version-at-its-offset";
  const auto remedy_for = [&](const Words& options) -> std::string {
    const Folder folder;
    const auto report = check_file(
        folder.make("program", slot_source, with({"-DPROGRAM", "-Wl,--export-dynamic"}, options)));
    for (const check::Finding& one : report.findings)
      if (one.rule->id == rule) return one.fails() ? one.outcome.remedy : "none: it holds";
    return "not asked";
  };
  EXPECT_THAT(remedy_for({"-no-pie", "-fno-pie"}), HasSubstr("-pie"));
  EXPECT_THAT(remedy_for({"-static"}), HasSubstr("-static-pie"));
  // What the remedy advises helps.
  EXPECT_EQ(remedy_for({"-pie", "-fPIE"}), "none: it holds");
  EXPECT_EQ(remedy_for({"-static-pie", "-fPIE"}), "none: it holds");
}

TEST(LabelFiles, OfAProgramThatIsStaticAndStrippedNobodyCanTell) {
  const Folder folder;
  const std::string path = folder.make("static", slot_source, {"-static", "-DPROGRAM"});
  const auto whole = check_file(path);
  EXPECT_THAT(said(whole, "labels.slot-exported"), HasSubstr("the program is static"));
  ASSERT_EQ(run({"strip", path}).status, 0);
  const auto asked = check_file(path, {Profile::custom_labels_v1});
  EXPECT_THAT(said(asked, "labels.slot-exported"), StartsWith("fails: it is static and stripped"));
  const auto by_default = check_file(path);
  EXPECT_THAT(said(by_default, "labels.slot-exported"),
              StartsWith("undecided: it is static and stripped"));
}

TEST(LabelFiles, GapsInTheBlockOfAProgramAreToldOf) {
  const Folder folder;
  const auto of = [&](const char* odd) {
    return said(
        check_file(folder.make("program", slot_source, {"-DPROGRAM", "-Wl,--export-dynamic", odd})),
        "labels.no-gap");
  };
  EXPECT_THAT(of("-DODD=72"), StartsWith("fails: the thread-local block has "));
  EXPECT_THAT(of("-DODD=56"), StartsWith("holds"));
}

TEST(LabelFiles, OfThreadContextsHaveTheirOwnRules) {
  const Folder folder;
  const auto made = [&](Words options) {
    options.insert(options.begin(),
                   {"-shared", "-fPIC", "-DNO_VERSION", "-DSLOT=otel_thread_ctx_v1"});
    return check_file(folder.make("libctx.so", slot_source, options));
  };
  EXPECT_THAT(failing(made({"-mtls-dialect=gnu2"})), IsEmpty());
  const auto gd = made({"-mtls-dialect=gnu"});
  EXPECT_THAT(failing(gd), ElementsAre("otep-4947.tlsdesc"));
  EXPECT_THAT(failing(gd, false), IsEmpty()) << "the document allows it";
  EXPECT_EQ(said(gd, "otep-4947.tls-model"), "holds: it is reached by GD");
  EXPECT_THAT(failing(made({"-DUNUSED", "-mtls-dialect=gnu2"}), false),
              ElementsAre("otep-4947.tls-model"));
  EXPECT_THAT(failing(made({"-DSLOT_ATTRIBUTES=visibility(\"hidden\")"}), false),
              ElementsAre("otep-4947.slot-exported"));
  EXPECT_THAT(failing(made({"-mtls-dialect=gnu2", "-DSLOT_TYPE=int"}), false),
              ElementsAre("otep-4947.slot-thread-local"));
}

TEST(LabelFiles, OfAnotherMachineAreCheckedAlike) {
  const Folder folder;
  const Words aarch64{"-shared", "-fPIC", "-nostdlib"};
  const auto good =
      check_file(folder.make("libcustomlabels.so", slot_source, aarch64, "aarch64-linux-gnu-gcc"));
  EXPECT_THAT(failing(good, false), IsEmpty());
  EXPECT_EQ(said(good, "labels.tlsdesc"), "holds: it is reached by TLSDESC");
  const auto bad =
      check_file(folder.make("libcustomlabels.so", slot_source,
                             with(aarch64, {"-mtls-dialect=trad"}), "aarch64-linux-gnu-gcc"));
  EXPECT_THAT(failing(bad, false), ElementsAre("labels.tlsdesc"));
  const auto narrow = check_file(folder.make(
      "libcustomlabels.so", slot_source, {"-shared", "-fPIC", "-nostdlib"}, "i686-linux-gnu-gcc"));
  EXPECT_THAT(said(narrow, "labels.slot-exported"), HasSubstr("32-bit"));
}

TEST(LabelFiles, OurOwnKeepEveryRule) {
  for (const char* path : {LABELS_LIBRARY, LABELS_V0_LIBRARY})
    EXPECT_THAT(failing(check_file(path)), IsEmpty()) << path;
}

}  // namespace
}  // namespace vitrine::test
