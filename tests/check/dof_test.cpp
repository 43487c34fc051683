// Files with DOFs: for each rule one that keeps it and one that breaks it.
#include "check/publishers.hpp"
#include "dof/dof_bytes.hpp"
#include "observe/dof_subject.hpp"
#include "support/probe_image.hpp"

namespace vitrine::test {
namespace {

using check::Profile;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::StartsWith;

/// A file whose `.SUNW_dof` has these bytes, at an address in its code.
std::string image_of(const std::vector<std::byte>& dof,
                     std::uint64_t address = ProbeImage::code_address + 0x800) {
  ProbeImage image;
  image.sections.push_back({".SUNW_dof", SHT_PROGBITS, SHF_ALLOC, address, dof});
  return image.bytes();
}

check::Report of(const HandDof& dof) {
  const Folder folder;
  return check_file(folder.write("file", image_of(dof.bytes())));
}

Words parts_that_fail(const check::Report& report) {
  Words parts;
  for (const std::string& id : failing(report, false))
    if (!id.starts_with("dof.site")) parts.push_back(id);  // a DOF by hand has no code
  return parts;
}

TEST(DofRules, OfAFileThatALinkerMadeAllHold) {
  for (const char* linker : {"-fuse-ld=bfd", "-fuse-ld=gold", "-fuse-ld=lld", "-fuse-ld=mold"}) {
    const Folder folder;
    const std::string path = folder / "program";
    ASSERT_EQ(run({"gcc", "-nostdlib", "-pie", linker, "-o", path, DOF_SOURCE}).status, 0);
    const auto report = check_file(path);
    EXPECT_THAT(failing(report), ElementsAre("dof.known-relocation")) << linker;
    EXPECT_EQ(said(report, "dof.site-pattern"), "holds: 1 sites") << linker;
    EXPECT_THAT(report.checked.names(), ElementsAre("dof")) << linker;
  }
}

TEST(DofRules, ADofThatTheDynamicLinkerMustWriteIsAdvisedAgainst) {
  const Folder folder;
  const std::string path = folder / "program";
  ASSERT_EQ(run({"gcc", "-nostdlib", "-pie", "-DABSOLUTE", "-o", path, DOF_SOURCE}).status, 0);
  const auto report = check_file(path);
  EXPECT_THAT(failing(report), ElementsAre("dof.read-only"));
  EXPECT_THAT(said(report, "dof.read-only"), HasSubstr("writes 1 words"));
}

TEST(DofRules, OtherInstructionsAtASiteAreFound) {
  const Folder folder;
  const std::string path = folder / "program";
  ASSERT_EQ(run({"gcc", "-nostdlib", "-o", path, DOF_SOURCE}).status, 0);
  std::string bytes = content_of(path);
  const std::size_t nops = bytes.find(std::string(15, '\x90') + '\xc3');
  ASSERT_NE(nops, bytes.npos);
  bytes.replace(nops + 10, 5, "\x48\x89\xc3\x31\xc0");
  const auto report = check_file(folder.write("program", bytes));
  EXPECT_THAT(failing(report, false), ElementsAre("dof.site-pattern"));
}

TEST(DofRules, OfAnotherMachineAreCheckedAlike) {
  const Folder folder;
  for (const char* compiler : {"aarch64-linux-gnu-gcc", "i686-linux-gnu-gcc"}) {
    const std::string path = folder / "program";
    ASSERT_EQ(run({compiler, "-nostdlib", "-o", path, DOF_SOURCE}).status, 0);
    EXPECT_THAT(failing(check_file(path), false), IsEmpty()) << compiler;
  }
}

TEST(DofRules, OfADofByHandItsPartsHold) {
  EXPECT_THAT(parts_that_fail(of(hand_dof())), IsEmpty());
}

TEST(DofRules, ALieInAPartIsFoundThere) {
  struct Lie {
    const char* rule;
    std::size_t section, at;
    std::uint64_t value;
    std::size_t size;
  };
  const Lie lies[] = {
      {"dof.providers", provider, 4, 99, 4},    {"dof.providers", provider, 16, 0, 4},
      {"dof.records", probes, 12, 0, 4},        {"dof.records", probes, 28, 0x40000000, 4},
      {"dof.records", probes, 40, 2, 2},        {"dof.relocations", relocations, 4, 99, 4},
      {"dof.semaphores", semaphores, 12, 0, 4},
  };
  for (const Lie& lie : lies) {
    HandDof dof = hand_dof();
    dof.sections[lie.section].content.put(lie.at, lie.value, lie.size);
    EXPECT_THAT(parts_that_fail(of(dof)), Contains(lie.rule)) << lie.section << '+' << lie.at;
  }
}

TEST(DofRules, ALieInAHeaderIsFoundThere) {
  struct Lie {
    const char* rule;
    std::size_t at;
    std::uint64_t value;
    std::size_t size;
  };
  const Lie lies[] = {
      {"dof.header", 6, 9, 1},         // version
      {"dof.header", 48, 0x10000, 8},  // bytes of it
      {"dof.placement", 4, 1, 1},      // data model
      {"dof.sections", 24, 8, 4},      // of section headers
      {"dof.sections", HandDof::field(offsets, align_at), 3, 4},
      {"dof.sections", HandDof::field(probes, flags_at), 0, 4},
  };
  for (const Lie& lie : lies) {
    const Folder folder;
    Bytes bytes;
    bytes.data() = hand_dof().bytes();
    bytes.put(lie.at, lie.value, lie.size);
    const auto report = check_file(folder.write("file", image_of(bytes.data())));
    EXPECT_THAT(said(report, lie.rule), StartsWith("fails")) << lie.at;
  }
}

TEST(DofRules, ADofOutsideOfWhatIsLoadedIsFound) {
  const Folder folder;
  const auto report = check_file(folder.write("file", image_of(hand_dof().bytes(), 0x8)));
  EXPECT_THAT(said(report, "dof.loaded"), StartsWith("fails"));
  EXPECT_THAT(said(report, "dof.site-executable"), StartsWith("fails"));
  EXPECT_THAT(said(check_file(folder.write(
                       "odd", image_of(hand_dof().bytes(), ProbeImage::code_address + 4))),
                   "dof.placement"),
              StartsWith("fails"));
}

TEST(DofRules, TwoSitesAtOneAddressAreToldOf) {
  HandDof dof = hand_dof();
  dof.sections[offsets].content.put(4, 4, 4);
  EXPECT_THAT(said(of(dof), "dof.sites-unique"), StartsWith("fails: 1 of 4"));
  EXPECT_THAT(said(of(hand_dof()), "dof.sites-unique"), StartsWith("holds"));
}

TEST(DofRules, LongNamesOfFunctionsAreToldOf) {
  HandDof dof = hand_dof();
  const std::size_t at = dof.sections[strings].content.size();
  dof.sections[strings].content.text(std::string(150, 'f')).u8(0);
  dof.sections[probes].content.put(8, at, 4);
  EXPECT_THAT(said(of(dof), "dof.function-names"), StartsWith("fails: 1 of 2"));
  EXPECT_THAT(said(of(hand_dof()), "dof.function-names"), StartsWith("holds"));
}

TEST(DofRules, OfWhatOurOwnObjectStepMadeAllHold) {
  for (const auto protocol : {usdt::EnabledProtocol::semaphore, usdt::EnabledProtocol::return_value,
                              usdt::EnabledProtocol::pointer}) {
    const DofProgram program(protocol);
    const auto report = check_file(program.path());
    EXPECT_THAT(failing(report, false), IsEmpty());
    EXPECT_THAT(said(report, "dof.read-only"), StartsWith("holds"));
  }
}

TEST(DofRules, WhoAsksForOneLearnsThatThereIsNone) {
  const Folder folder;
  const auto report =
      check_file(folder.make("plain", "int main(void) { return 0; }", {}), {Profile::dof});
  EXPECT_THAT(failing(report), ElementsAre("dof.present"));
}

}  // namespace
}  // namespace vitrine::test
