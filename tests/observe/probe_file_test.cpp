// The probes of files: as readelf has them, of every class and byte order, split from their notes,
// and of files that lie.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include <filesystem>
#include <fstream>

#include "observe/probe_listing.hpp"
#include "observe/probes/probe_symbols.hpp"
#include "observe/probes/probes.hpp"
#include "probe/note_bytes.hpp"
#include "support/probe_image.hpp"

namespace vitrine::observe {
namespace {

using namespace vitrine::test;
using testing::Contains;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

/// A directory that goes with the test.
class Directory {
 public:
  Directory() {
    // In memory: a disk would be waited for at each of thousands of small files.
    char name[] = "/dev/shm/vitrine-probes-XXXXXX";
    path_ = ::mkdtemp(name);
  }
  ~Directory() { std::filesystem::remove_all(path_); }
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

std::shared_ptr<const ProbeFile> opened(const std::string& path) {
  auto file = ProbeFiles({.functions = true}).open(path);
  EXPECT_TRUE(file) << file.error().message;
  return file ? *file : std::make_shared<const ProbeFile>();
}

void command(std::vector<std::string> words) {
  const Outcome outcome = run(std::move(words));
  ASSERT_EQ(outcome.status, 0) << outcome.err;
}

// ---- as readelf has them ----------------------------------------------------------------------

TEST(ProbeFiles, OfThisMachineAreAsReadelfHasThem) {
  ProbeFiles files;
  std::size_t with_probes = 0, sites = 0;
  for (const char* directory : {"/usr/bin", "/usr/lib/x86_64-linux-gnu", "/usr/lib/systemtap"}) {
    if (!std::filesystem::exists(directory)) continue;
    for (const auto& entry : std::filesystem::directory_iterator(directory)) {
      if (!entry.is_regular_file() || entry.is_symlink()) continue;
      const auto file = files.open(entry.path());
      if (!file) continue;  // a script, an archive
      const Listing ours = listing(**file);
      // Of the many that have none, a sample is asked for: each costs a run of readelf.
      if (ours.empty() && entry.path().string().size() % 8 != 0) continue;
      ASSERT_EQ(ours, readelf_listing(entry.path())) << entry.path();
      with_probes += ours.empty() ? 0 : 1;
      sites += ours.size();
      for (const probe::Probe& probe : (*file)->probes)
        for (const probe::Site& site : probe.sites)
          EXPECT_THAT(site.problems, IsEmpty()) << entry.path() << " " << probe.name;
    }
  }
  EXPECT_GE(with_probes, 1U) << "libstdc++ has some everywhere";
  EXPECT_GE(sites, 3U);
}

TEST(ProbeFiles, OfA32BitProgramAreAsReadelfHasThem) {
  const auto file = opened(PROBE_SUBJECT_32);
  EXPECT_FALSE(file->encoding.wide);
  EXPECT_EQ(file->machine, Machine::i386);
  EXPECT_EQ(listing(*file), readelf_listing(PROBE_SUBJECT_32));
  ASSERT_THAT(file->probes, SizeIs(3));
  EXPECT_EQ(file->probes[2].sites.size(), 2U);
  for (const probe::Probe& probe : file->probes)
    for (const probe::Site& site : probe.sites) {
      EXPECT_EQ(site.function, "work");
      EXPECT_THAT(site.problems, IsEmpty());
      EXPECT_TRUE(site.file_offset && site.semaphore_offset) << probe.name;
    }
}

TEST(ProbeFiles, TellFunctionsAndSemaphores) {
  const auto file = opened(PROBE_SUBJECT);
  EXPECT_EQ(listing(*file), readelf_listing(PROBE_SUBJECT));
  ASSERT_THAT(file->probes, SizeIs(3));
  EXPECT_EQ(file->probes[0].name, "bare");
  EXPECT_THAT(file->probes[0].sites.at(0).arguments, IsEmpty());
  EXPECT_EQ(file->probes[2].name, "inlined");
  EXPECT_THAT(file->probes[2].sites, SizeIs(2));
  std::ifstream stream(PROBE_SUBJECT, std::ios::binary);
  for (const probe::Probe& probe : file->probes)
    for (const probe::Site& site : probe.sites) {
      EXPECT_EQ(site.function, "work");
      ASSERT_TRUE(site.file_offset && site.semaphore_offset) << probe.name;
      stream.seekg(static_cast<std::streamoff>(*site.file_offset));
      EXPECT_EQ(stream.get(), 0x90) << "a nop";
    }
}

// ---- made by hand -----------------------------------------------------------------------------

struct Shape {
  bool wide, big_endian;
  friend void PrintTo(const Shape& shape, std::ostream* out) {
    *out << (shape.wide ? 64 : 32) << (shape.big_endian ? " MSB" : " LSB");
  }
};

class Image : public testing::TestWithParam<Shape> {
 protected:
  /// Two probes; the second is not where it was linked to any more.
  ProbeImage image() const {
    ProbeImage image;
    image.encoding = {GetParam().wide, GetParam().big_endian};
    image.machine = GetParam().wide ? GetParam().big_endian ? EM_PPC64 : EM_X86_64 : EM_386;
    NoteSection notes(image.encoding);
    notes.add(note(0x41010, "made", "plain", "-4@%edi 8@(%rsi)"));
    NoteText moved = note(0x31020, "made", "moved", "");
    moved.base = 0x43000;
    moved.semaphore = 0x43004;
    notes.add(moved);
    image.sections.push_back({".note.stapsdt", SHT_NOTE, 0, 0, notes.bytes()});
    image.sections.push_back({".stapsdt.base", SHT_PROGBITS, SHF_ALLOC, 0x53000, {std::byte{0}}});
    return image;
  }
  std::shared_ptr<const ProbeFile> read(const ProbeImage& image) {
    image.write(directory_ / "image");
    return opened(directory_ / "image");
  }
  void expect_both(const ProbeFile& file) {
    EXPECT_THAT(listing(file),
                testing::ElementsAre(listed("made", "moved", 0x41020, 0x53004, ""),
                                     listed("made", "plain", 0x41010, 0, "-4@%edi 8@(%rsi)")));
    EXPECT_THAT(file.problems, IsEmpty());
    for (const probe::Probe& probe : file.probes) {
      EXPECT_EQ(probe.sites.at(0).file_offset, probe.name == "moved" ? 0x1020U : 0x1010U);
      EXPECT_THAT(probe.sites.at(0).problems, IsEmpty());
    }
    if (!file.probes.empty()) {
      EXPECT_EQ(file.probes[0].sites.at(0).semaphore_offset, 0x2004U);
    }
  }
  Directory directory_;
};

INSTANTIATE_TEST_SUITE_P(Shapes, Image,
                         testing::Values(Shape{true, false}, Shape{true, true}, Shape{false, false},
                                         Shape{false, true}));

TEST_P(Image, IsReadAndMovedByItsBase) {
  ProbeImage whole = image();
  expect_both(*read(whole));
  // readelf tells the notes as they are written, unmoved.
  EXPECT_THAT(readelf_listing(directory_ / "image"),
              testing::ElementsAre(listed("made", "moved", 0x31020, 0x43004, ""),
                                   listed("made", "plain", 0x41010, 0, "-4@%edi 8@(%rsi)")));
}

TEST_P(Image, MayKeepItsCountsInTheFirstSection) {
  ProbeImage extended = image();
  extended.extended_counts = true;
  expect_both(*read(extended));
}

TEST_P(Image, WithoutSectionHeadersSaysSo) {
  ProbeImage bare = image();
  bare.with_sections = false;
  const auto file = read(bare);
  EXPECT_THAT(file->probes, IsEmpty());
  EXPECT_THAT(file->problems, Contains(HasSubstr("no section headers")));
}

TEST_P(Image, MayPackItsNotes) {
  ProbeImage packed = image();
  auto& section = packed.sections[0];
  std::vector<Bytef> out(compressBound(section.bytes.size()));
  uLongf size = out.size();
  ASSERT_EQ(compress(out.data(), &size, reinterpret_cast<const Bytef*>(section.bytes.data()),
                     section.bytes.size()),
            Z_OK);
  std::string header;
  const auto number = [&](std::uint64_t value, std::size_t bytes) {
    for (std::size_t i = 0; i < bytes; ++i)
      header += static_cast<char>(value >> 8 * (GetParam().big_endian ? bytes - 1 - i : i) & 0xff);
  };
  number(ELFCOMPRESS_ZLIB, 4);
  if (GetParam().wide) number(0, 4);
  number(section.bytes.size(), packed.encoding.address_bytes());
  number(4, packed.encoding.address_bytes());
  header.append(reinterpret_cast<const char*>(out.data()), size);
  section.bytes.assign(reinterpret_cast<const std::byte*>(header.data()),
                       reinterpret_cast<const std::byte*>(header.data()) + header.size());
  section.flags = SHF_COMPRESSED;
  expect_both(*read(packed));

  section.bytes.resize(section.bytes.size() - 8);
  EXPECT_THAT(read(packed)->problems, Contains(HasSubstr(".note.stapsdt")));
  section.bytes[GetParam().big_endian ? 3 : 0] = std::byte{77};
  EXPECT_THAT(read(packed)->problems, Contains(HasSubstr("method 77")));
}

TEST_P(Image, ThatEndsEarlyGivesWhatIsLeft) {
  ProbeImage cut = image();
  cut.sections[0].size = std::uint64_t{1} << 30;
  const auto file = read(cut);
  EXPECT_THAT(listing(*file), Contains(listed("made", "plain", 0x41010, 0, "-4@%edi 8@(%rsi)")));
  EXPECT_THAT(file->problems, Contains(HasSubstr("the file ends after")));
}

TEST_P(Image, WhoseNotesHaveNoBytesHasNoProbes) {
  ProbeImage empty = image();
  empty.sections[0].type = SHT_NOBITS;
  EXPECT_THAT(read(empty)->probes, IsEmpty());
}

TEST_P(Image, OfLiesIsReadToItsEnd) {
  const std::string honest = image().bytes();
  std::size_t listed_some = 0;
  // Every byte of the header, and of the program and section headers, in turn is all ones.
  const std::size_t sections = (GetParam().wide ? 64U : 40U) * 5;
  for (std::size_t i = 0; i < honest.size(); ++i) {
    if (i >= 256 && i + sections < honest.size()) continue;
    std::string lie = honest;
    lie[i] = '\xff';
    std::ofstream(directory_ / "lie", std::ios::binary) << lie;
    const auto file = ProbeFiles({.functions = true}).open(directory_ / "lie");
    if (file) listed_some += (*file)->probes.empty() ? 0 : 1;
    EXPECT_TRUE(file || file.error().code == ErrorCode::malformed) << i;
  }
  EXPECT_GT(listed_some, 100U) << "most lies are about other things";
  for (std::size_t size = 0; size < honest.size(); size += size < 256 ? 1 : 97) {
    std::ofstream(directory_ / "cut", std::ios::binary) << honest.substr(0, size);
    const auto file = ProbeFiles({.functions = true}).open(directory_ / "cut");
    EXPECT_TRUE(file || file.error().code == ErrorCode::malformed) << size;
  }
}

TEST_P(Image, WithSegmentsThatOverlapOrLieIsPlacedWhereItsBytesAre) {
  ProbeImage many = image();
  const std::uint64_t last = GetParam().wide ? ~std::uint64_t{0} : 0xffff'ffff;
  // In front: no bytes in the file, bytes beyond any file, and a size that wraps.
  many.segments.insert(many.segments.begin(),
                       {{PT_LOAD, PF_R | PF_X, 0, 0x41000, 0, 0x1000},
                        {PT_LOAD, PF_R | PF_W, 0x1000, 0x41000, 0x1000, 0x1000},
                        {PT_LOAD, PF_R | PF_X, last - 0x100, last - 0x100, last, last}});
  for (int i = 0; i < 30; ++i)
    many.segments.push_back({PT_LOAD, PF_R | PF_X, 0x900000, 0x41000, 0x1000, 0x1000});
  expect_both(*read(many));
}

TEST_P(Image, AnObjectFileIsListedWithoutAddresses) {
  ProbeImage object = image();
  object.type = ET_REL;
  object.segments.clear();
  const auto file = read(object);
  ASSERT_THAT(file->probes, SizeIs(2));
  EXPECT_FALSE(file->probes[0].sites.at(0).file_offset);
  EXPECT_THAT(file->probes[0].sites.at(0).problems, Contains(HasSubstr("not linked")));
}

TEST_P(Image, TombstonesAreCountedAndDuplicatesAreOne) {
  ProbeImage dead = image();
  NoteSection notes(dead.encoding);
  for (const std::uint64_t address : {0x0, 0x4, 0x41010, 0x41010})
    notes.add(note(address, "made", "twice", "8@%rax"));
  dead.sections[0].bytes = notes.bytes();
  const auto file = read(dead);
  EXPECT_EQ(file->tombstones, 2U);
  EXPECT_THAT(listing(*file), testing::ElementsAre(listed("made", "twice", 0x41010, 0, "8@%rax")));
}

TEST(ArgumentErrors, NameEachArgumentThatCannotBeDecodedAndNoOther) {
  const Directory directory;
  ProbeImage image;
  NoteSection notes;
  notes.add(note(0x41010, "made", "bad", "8@%rax 8@.LC0(%rip) 8@(%rbx,%rcx,3) -4@$7"));
  notes.add(note(0x41020, "made", "good", "8@%rax -4@8(%rsp)"));
  image.sections.push_back({".note.stapsdt", SHT_NOTE, 0, 0, notes.bytes()});
  image.write(directory / "image");
  const auto file = opened(directory / "image");
  ASSERT_THAT(file->probes, SizeIs(2));
  ArgumentErrors errors(*file);
  const auto bad = errors.of(file->probes[0].sites.at(0));
  ASSERT_THAT(bad, SizeIs(4));
  EXPECT_FALSE(bad[0] || bad[3]);
  ASSERT_TRUE(bad[1] && bad[2]);
  EXPECT_EQ(bad[1]->kind, probe::ArgumentError::Kind::unresolved);
  EXPECT_EQ(bad[2]->kind, probe::ArgumentError::Kind::syntax);
  EXPECT_THAT(errors.of(file->probes[1].sites.at(0)), IsEmpty());
}

TEST(ArgumentErrors, ThereAreNoneInThisMachinesFiles) {
  ProbeFiles files;
  std::size_t arguments = 0;
  for (const char* path : {"/usr/bin/stap", "/usr/bin/staprun", "/usr/bin/python3.11",
                           "/usr/lib/x86_64-linux-gnu/libstdc++.so.6"}) {
    const auto file = files.open(path);
    if (!file || (*file)->probes.empty()) continue;
    ArgumentErrors errors(**file);
    for (const probe::Probe& probe : (*file)->probes)
      for (const probe::Site& site : probe.sites) {
        EXPECT_THAT(errors.of(site), IsEmpty()) << path << " " << probe.name;
        arguments += site.arguments.size();
      }
  }
  EXPECT_GE(arguments, 6U) << "libstdc++ has that many everywhere";
}

// ---- what is no such file ---------------------------------------------------------------------

TEST(ProbeFiles, OfWhatIsNoFileAreRefusedAtOnce) {
  const Directory directory;
  ASSERT_EQ(::mkfifo((directory / "pipe").c_str(), 0600), 0);
  std::ofstream(directory / "text") << "#!/bin/sh\n";
  const auto error = [](const std::string& path) {
    const auto file = ProbeFiles().open(path);
    return file ? Error{} : file.error();
  };
  EXPECT_EQ(error(directory / "pipe").code, ErrorCode::unsupported);
  EXPECT_THAT(error(directory / "pipe").message, HasSubstr("is a pipe"));
  EXPECT_THAT(error("/dev/zero").message, HasSubstr("is a device"));
  EXPECT_THAT(error("/tmp").message, HasSubstr("is a directory"));
  EXPECT_EQ(error(directory / "absent").code, ErrorCode::not_found);
  EXPECT_EQ(error(directory / "text").code, ErrorCode::malformed);
  EXPECT_THAT(error(directory / "text").message, HasSubstr("not an ELF file"));
}

// ---- separate debug files ---------------------------------------------------------------------

class DebugFiles : public testing::Test {
 protected:
  /// `program` without notes and symbols, which `debug` has.
  void split(const std::string& program, const std::string& debug) {
    command({"objcopy", "--only-keep-debug", PROBE_SUBJECT, debug});
    command({"objcopy", "--strip-all", "--remove-section=.note.stapsdt", PROBE_SUBJECT, program});
    ASSERT_THAT(readelf_listing(program), IsEmpty());
  }
  void expect_all(const ProbeFile& file) {
    const auto whole = opened(PROBE_SUBJECT);
    EXPECT_EQ(listing(file), listing(*whole));
    ASSERT_EQ(file.probes.size(), whole->probes.size());
    for (std::size_t i = 0; i < file.probes.size(); ++i)
      for (std::size_t k = 0; k < file.probes[i].sites.size(); ++k) {
        const probe::Site& site = file.probes[i].sites[k];
        EXPECT_EQ(site.file_offset, whole->probes[i].sites[k].file_offset);
        EXPECT_EQ(site.semaphore_offset, whole->probes[i].sites[k].semaphore_offset);
        EXPECT_EQ(site.function, "work");
      }
  }
  Directory directory_;
};

TEST_F(DebugFiles, AreFoundByTheirLink) {
  split(directory_ / "program", directory_ / "program.debug");
  command(
      {"objcopy", "--add-gnu-debuglink=" + directory_ / "program.debug", directory_ / "program"});
  expect_all(*opened(directory_ / "program"));
  // In .debug, too.
  std::filesystem::create_directory(directory_ / ".debug");
  std::filesystem::rename(directory_ / "program.debug", directory_ / ".debug/program.debug");
  expect_all(*opened(directory_ / "program"));
}

TEST_F(DebugFiles, OfAnotherBuildAreNotTaken) {
  split(directory_ / "program", directory_ / "program.debug");
  command(
      {"objcopy", "--add-gnu-debuglink=" + directory_ / "program.debug", directory_ / "program"});
  command({"objcopy", "--only-keep-debug", PROBE_SUBJECT_LIBRARY, directory_ / "program.debug"});
  EXPECT_THAT(opened(directory_ / "program")->probes, IsEmpty());
}

TEST_F(DebugFiles, AreFoundByBuildIdWhereAProcessLooks) {
  split(directory_ / "program", directory_ / "program.debug");
  const std::string id = opened(directory_ / "program")->build_id;
  ASSERT_EQ(id.size(), 40U);
  const std::string place = directory_ / "usr/lib/debug/.build-id/" + id.substr(0, 2);
  std::filesystem::create_directories(place);
  std::filesystem::rename(directory_ / "program.debug", place + "/" + id.substr(2) + ".debug");
  const auto root = sandbox::open_at(AT_FDCWD, directory_ / ".", O_PATH);
  ASSERT_TRUE(root);
  auto memory =
      sandbox::FileMemory::from(*sandbox::open_at(AT_FDCWD, directory_ / "program", O_RDONLY));
  ASSERT_TRUE(memory);
  const auto file =
      read_probe_file(std::move(*memory), "/program", {{root->get()}, "/program"}, {true});
  ASSERT_TRUE(file) << file.error().message;
  expect_all(*file);
}

TEST_F(DebugFiles, GivenThemselvesHaveNoCodeToProbe) {
  split(directory_ / "program", directory_ / "program.debug");
  const auto file = opened(directory_ / "program.debug");
  ASSERT_FALSE(file->probes.empty());
  for (const probe::Probe& probe : file->probes)
    EXPECT_THAT(probe.sites.at(0).problems, Contains(HasSubstr("not in the file")));
}

}  // namespace
}  // namespace vitrine::observe
