// The DOFs of files that real linkers made of a DOF written by hand.
#include <elf.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "elf/symbol_table.hpp"
#include "probe/dof_probes.hpp"
#include "support/buffer_memory.hpp"
#include "support/child.hpp"

namespace vitrine::probe {
namespace {

using ::testing::ElementsAre;
using ::testing::Field;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using Words = std::vector<std::string>;

class DofFileTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = "/tmp/vitrine-dof-XXXXXX";
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  static void run(const Words& command) {
    const test::Outcome outcome = test::run(command);
    ASSERT_EQ(outcome.status, 0) << command[0] << ": " << outcome.err;
  }

  /// Compiles and links the program; returns its path.
  std::string build(const Words& options, const std::string& compiler = "gcc") {
    const std::string path = folder_ + "/file";
    Words command{compiler, "-nostdlib", "-o", path, VITRINE_DOF_SUBJECT};
    command.insert(command.end(), options.begin(), options.end());
    run(command);
    return path;
  }

  void load(const std::string& path) {
    std::ifstream stream(path, std::ios::binary);
    const std::string text((std::istreambuf_iterator<char>(stream)), {});
    bytes_.clear();
    for (const char c : text) bytes_.push_back(static_cast<std::byte>(c));
    open();
  }

  void open() {
    memory_ = std::make_unique<test::BufferMemory>();
    memory_->place(0, bytes_);
    auto elf = elf::read_file(*memory_);
    ASSERT_TRUE(elf) << elf.error().message;
    elf_ = std::move(*elf);
  }

  DofFile find() { return find_dof(*memory_, elf_); }

  Address symbol(std::string_view name) {
    const auto table = elf::SymbolTable::read(*memory_, elf_, SHT_SYMTAB);
    EXPECT_TRUE(table);
    const auto found = table->find(name);
    EXPECT_THAT(found, SizeIs(1)) << name;
    return found.empty() ? 0 : table->at(found[0]).value;
  }

  /// Forgets the section headers, as sstrip does.
  void forget_sections() {
    if (elf_.encoding.wide) {
      std::fill_n(bytes_.begin() + offsetof(Elf64_Ehdr, e_shoff), 8, std::byte{0});
      std::fill_n(bytes_.begin() + offsetof(Elf64_Ehdr, e_shentsize), 6, std::byte{0});
    } else {
      std::fill_n(bytes_.begin() + offsetof(Elf32_Ehdr, e_shoff), 4, std::byte{0});
      std::fill_n(bytes_.begin() + offsetof(Elf32_Ehdr, e_shentsize), 6, std::byte{0});
    }
    open();
    ASSERT_THAT(elf_.sections, IsEmpty());
  }

  /// The one site there is, as the DOF tells it.
  static Address only_site(const DofFile& found) {
    EXPECT_THAT(found.problems, IsEmpty());
    if (found.dofs.size() != 1) {
      ADD_FAILURE() << found.dofs.size() << " DOFs";
      return 0;
    }
    const PlacedDof& dof = found.dofs[0];
    EXPECT_THAT(dof.object.problems, IsEmpty());
    if (dof.object.providers.size() != 1 || dof.object.providers[0].records.size() != 1) {
      ADD_FAILURE();
      return 0;
    }
    const dof::Record& tick = dof.object.providers[0].records[0];
    EXPECT_EQ(tick.name, "tick");
    EXPECT_THAT(tick.prototype.native, ElementsAre("int"));
    const auto function = dof::function_address(dof.object, tick, dof.placement());
    EXPECT_TRUE(function);
    return dof::site_address(dof.object.model, function.value_or(0), tick.offsets.at(0));
  }

  /// The site is where its label is; so it is without section headers.
  void expect_site(std::size_t dynamic_relocations) {
    const Address site = symbol("serve_site");
    const DofFile by_section = find();
    EXPECT_EQ(only_site(by_section), site);
    EXPECT_FALSE(by_section.searched);
    forget_sections();
    const DofFile by_search = find();
    EXPECT_EQ(only_site(by_search), site);
    EXPECT_TRUE(by_search.searched);
    for (const DofFile* found : {&by_section, &by_search}) {
      EXPECT_THAT(found->dofs.at(0).dynamic_relocations, SizeIs(dynamic_relocations));
      EXPECT_EQ(found->dofs.at(0).file_offset, by_section.dofs.at(0).file_offset);
      EXPECT_EQ(found->dofs.at(0).address, by_section.dofs.at(0).address);
    }
  }

  std::string folder_;
  std::vector<std::byte> bytes_;
  std::unique_ptr<test::BufferMemory> memory_;
  elf::File elf_;
};

TEST_F(DofFileTest, FindsSitesInWhatEveryLinkerMakes) {
  for (const char* linker : {"bfd", "gold", "lld", "mold"})
    for (const char* mode : {"-no-pie", "-pie", "-shared", "-static"}) {
      SCOPED_TRACE(fmt::format("{} {}", linker, mode));
      load(build({fmt::format("-fuse-ld={}", linker), mode}));
      expect_site(0);
    }
}

TEST_F(DofFileTest, FollowsDynamicRelocations) {
  for (const char* linker : {"bfd", "gold", "lld", "mold"})
    for (const char* mode : {"-pie", "-shared"}) {
      SCOPED_TRACE(fmt::format("{} {}", linker, mode));
      load(build({fmt::format("-fuse-ld={}", linker), mode, "-DABSOLUTE"}));
      expect_site(1);
    }
  load(build({"-no-pie", "-DABSOLUTE"}));
  expect_site(0);
}

TEST_F(DofFileTest, FollowsPackedRelocations) {
  for (const Words& options : {Words{"-fuse-ld=lld", "-Wl,--pack-dyn-relocs=relr"},
                               Words{"-fuse-ld=mold", "-Wl,--pack-dyn-relocs=relr"},
                               Words{"-fuse-ld=bfd", "-Wl,-z,pack-relative-relocs"}}) {
    SCOPED_TRACE(options[0]);
    Words all = options;
    all.insert(all.end(), {"-pie", "-DABSOLUTE"});
    load(build(all));
    expect_site(1);
  }
}

TEST_F(DofFileTest, FindsSitesOfOtherMachines) {
  for (const char* compiler : {"i686-linux-gnu-gcc", "aarch64-linux-gnu-gcc"})
    for (const char* mode : {"-no-pie", "-pie", "-shared"}) {
      SCOPED_TRACE(fmt::format("{} {}", compiler, mode));
      load(build({mode}, compiler));
      expect_site(0);
      load(build({mode, "-DABSOLUTE"}, compiler));
      expect_site(std::string_view(mode) == "-no-pie" ? 0 : 1);
    }
}

TEST_F(DofFileTest, TellsWhatALinkerHasToDo) {
  load(build({"-c"}));
  const DofFile found = find();
  EXPECT_THAT(found.problems, IsEmpty());
  ASSERT_THAT(found.dofs, SizeIs(1));
  EXPECT_THAT(found.dofs[0].dynamic_relocations, IsEmpty());
  ASSERT_THAT(found.dofs[0].relocations, SizeIs(1));
  const elf::SectionRelocation& one = found.dofs[0].relocations[0];
  EXPECT_EQ(one.offset, found.dofs[0].object.providers.at(0).records.at(0).word_offset);
  EXPECT_EQ(one.symbol, "serve");
  EXPECT_EQ(elf::relocation_name(elf_.machine, one.type), "R_X86_64_PC64");
}

TEST_F(DofFileTest, FindsBothOfTwoObjectsLinkedTogether) {
  const std::string path = build({"-c"});
  run({"objcopy", "--localize-symbol=serve", "--strip-symbol=main", "--strip-symbol=_start", path,
       folder_ + "/second.o"});
  std::filesystem::rename(path, folder_ + "/first.o");
  run({"gcc", "-nostdlib", "-o", path, folder_ + "/first.o", folder_ + "/second.o"});
  load(path);
  const DofFile found = find();
  EXPECT_THAT(found.problems, IsEmpty());
  ASSERT_THAT(found.dofs, SizeIs(2));
  std::vector<Address> sites;
  for (const PlacedDof& dof : found.dofs) {
    const dof::Record& record = dof.object.providers.at(0).records.at(0);
    const auto function = dof::function_address(dof.object, record, dof.placement());
    ASSERT_TRUE(function);
    sites.push_back(*function + record.offsets.at(0));
  }
  const auto table = elf::SymbolTable::read(*memory_, elf_, SHT_SYMTAB);
  std::vector<Address> labels;
  for (const std::size_t index : table->find("serve_site"))
    labels.push_back(table->at(index).value);
  EXPECT_THAT(sites, ::testing::UnorderedElementsAreArray(labels));
}

TEST_F(DofFileTest, SaysThatADebugFileHasNoContent) {
  const std::string path = build({"-pie"});
  run({"objcopy", "--only-keep-debug", path, path + ".debug"});
  load(path + ".debug");
  const DofFile found = find();
  EXPECT_THAT(found.dofs, IsEmpty());
  EXPECT_TRUE(found.content_elsewhere);
}

TEST_F(DofFileTest, FindsNothingInFilesWithoutAny) {
  load("/bin/true");
  const DofFile found = find();
  EXPECT_THAT(found.dofs, IsEmpty());
  EXPECT_THAT(found.problems, IsEmpty());
  EXPECT_FALSE(found.content_elsewhere);
  forget_sections();
  EXPECT_THAT(find().dofs, IsEmpty());
}

TEST_F(DofFileTest, TellsWhatIsWrongWithTheSection) {
  load(build({"-pie"}));
  const auto offset = find().dofs.at(0).file_offset;
  std::vector<std::byte> whole = bytes_;
  bytes_[offset + 6] = std::byte{9};
  open();
  EXPECT_THAT(find().problems, ElementsAre(HasSubstr("its version is 9")));
  bytes_ = whole;
  bytes_[offset + 4] = std::byte{1};
  open();
  EXPECT_THAT(find().dofs.at(0).object.problems,
              ElementsAre(Field(&dof::Problem::text, HasSubstr("ILP32 in a 64-bit file"))));
  bytes_ = whole;
  std::fill_n(bytes_.begin() + static_cast<std::ptrdiff_t>(offset), 8, std::byte{0x55});
  open();
  EXPECT_THAT(find().problems, ElementsAre(HasSubstr("are not a DOF")));
  EXPECT_THAT(find().dofs, IsEmpty());
}

}  // namespace
}  // namespace vitrine::probe
