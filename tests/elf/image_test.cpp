// Headers, the dynamic section, relocations and notes of modules in memory, well-formed and not.
#include "elf/image.hpp"

#include <gmock/gmock.h>

#include "base/limits.hpp"
#include "elf/notes.hpp"
#include "elf/relocations.hpp"
#include "support/buffer_memory.hpp"
#include "support/elf_image.hpp"

namespace vitrine::elf {
namespace {

using test::BufferMemory;
using test::ElfImage;
using testing::HasSubstr;

constexpr Address bias = 0x7f00'1234'0000;

Result<Image> read(const ElfImage& elf, Address at = bias) {
  BufferMemory memory;
  memory.place(at, elf.bytes());
  return read_image(memory, at);
}

TEST(Header, OfAModuleGivesBiasAndSegments) {
  ElfImage elf;
  elf.segment(PT_TLS, 0x2000, 24, 64);
  elf.finish();
  const auto image = read(elf);
  ASSERT_TRUE(image) << image.error().message;
  EXPECT_EQ(image->bias, bias);
  EXPECT_EQ(image->segments.size(), 3U);
  EXPECT_TRUE(image->holds(bias, ElfImage::size));
  EXPECT_FALSE(image->holds(bias, ElfImage::size + 1));
  EXPECT_FALSE(image->holds(bias + ElfImage::size, 1));
  EXPECT_FALSE(image->holds(bias - 1, 1));
  EXPECT_FALSE(image->holds(bias + 16, ~std::uint64_t{0}));
  const auto tls = tls_segment(*image);
  ASSERT_TRUE(tls && *tls);
  EXPECT_EQ(**tls, (TlsSegment{0x2000, 24, 64}));
}

struct Refusal {
  std::size_t offset;
  std::uint8_t byte;
  ErrorCode code;
  const char* says;
};

class Refused : public testing::TestWithParam<Refusal> {};

TEST_P(Refused, IsNamed) {
  ElfImage elf;
  elf.finish();
  elf.put(GetParam().offset, GetParam().byte);
  const auto image = read(elf);
  ASSERT_FALSE(image);
  EXPECT_EQ(image.error().code, GetParam().code);
  EXPECT_THAT(image.error().message, HasSubstr(GetParam().says));
}

INSTANTIATE_TEST_SUITE_P(
    Header, Refused,
    testing::Values(
        Refusal{1, 'X', ErrorCode::malformed, "is not an ELF file"},
        Refusal{EI_CLASS, ELFCLASS32, ErrorCode::unsupported, "is a 32-bit ELF file"},
        Refusal{EI_DATA, ELFDATA2MSB, ErrorCode::unsupported, "is big-endian"},
        Refusal{offsetof(Elf64_Ehdr, e_machine), EM_MIPS, ErrorCode::unsupported, "machine 8"},
        Refusal{offsetof(Elf64_Ehdr, e_phentsize), 32, ErrorCode::malformed, "of 32 bytes"},
        Refusal{offsetof(Elf64_Ehdr, e_phnum), 0, ErrorCode::limit, "0 program headers"},
        Refusal{offsetof(Elf64_Ehdr, e_phnum) + 1, 0xff, ErrorCode::limit, "program headers"},
        Refusal{offsetof(Elf64_Ehdr, e_phoff) + 7, 0x41, ErrorCode::malformed, "not readable"}));

TEST(ProgramHeaders, ToldByTheKernelGiveTheBias) {
  for (const bool has_self : {true, false}) {
    ElfImage elf;
    if (has_self) elf.segment(PT_PHDR, sizeof(Elf64_Ehdr), 3 * sizeof(Elf64_Phdr));
    elf.finish();
    BufferMemory memory;
    memory.place(bias, elf.bytes());
    const auto image = read_image_by_headers(memory, bias + sizeof(Elf64_Ehdr), has_self ? 3 : 2);
    ASSERT_TRUE(image) << image.error().message;
    EXPECT_EQ(image->bias, bias) << has_self;
  }
}

TEST(ProgramHeaders, OfAProgramAtAFixedAddressGiveNoBias) {
  Elf64_Phdr load{};
  load.p_type = PT_LOAD;
  load.p_vaddr = 0x400000;
  load.p_memsz = 0x1000;
  BufferMemory memory;
  memory.place_value(0x400040, load);
  const auto image = read_image_by_headers(memory, 0x400040, 1);
  ASSERT_TRUE(image) << image.error().message;
  EXPECT_EQ(image->bias, 0U);
}

TEST(TlsTemplate, WithAnImpossibleAlignmentOrSizeIsRefused) {
  const auto with = [](std::uint64_t size, std::uint64_t align) {
    ElfImage elf;
    elf.segment(PT_TLS, 0x2000, size, align);
    elf.finish();
    return tls_segment(*read(elf));
  };
  EXPECT_EQ((*with(8, 0))->alignment, 1U);
  EXPECT_FALSE(with(8, 3));
  EXPECT_FALSE(with(8, 1ULL << 40));
  EXPECT_FALSE(with(1ULL << 60, 8));
}

TEST(Dynamic, IsTheSameWhetherTheLinkerHasAddedTheBiasOrNot) {
  for (const Address relocated : {Address{0}, bias}) {
    ElfImage elf;
    elf.symbol("here", STT_OBJECT, 0x10, 4);
    elf.dynamic(DT_SONAME, elf.string("libhere.so.1"));
    elf.dynamic(DT_DEBUG, 0x1234);
    elf.finish(relocated);
    BufferMemory memory;
    memory.place(bias, elf.bytes());
    const auto dynamic = read_dynamic(memory, *read_image(memory, bias));
    ASSERT_TRUE(dynamic) << dynamic.error().message;
    EXPECT_EQ(dynamic->symbols.address, bias + elf.at_symbols);
    EXPECT_EQ(dynamic->strings.address, bias + elf.at_strings);
    EXPECT_EQ(dynamic->debug, 0x1234U);
  }
}

TEST(Dynamic, TablesOutsideOfTheModuleAreAbsent) {
  ElfImage elf;
  elf.finish();
  elf.put(elf.at_dynamic + offsetof(Elf64_Dyn, d_un),
          std::uint64_t{0x6666'6666'6666});  // DT_STRTAB
  BufferMemory memory;
  memory.place(bias, elf.bytes());
  const auto dynamic = read_dynamic(memory, *read_image(memory, bias));
  ASSERT_TRUE(dynamic);
  EXPECT_FALSE(dynamic->strings);
  EXPECT_TRUE(dynamic->symbols);
}

TEST(Dynamic, WithoutAnEndIsReadToTheEndOfItsSegment) {
  ElfImage elf;
  elf.symbol("here", STT_OBJECT, 0x10, 4);
  elf.finish();
  for (std::uint64_t at = elf.at_dynamic; at + 8 <= ElfImage::size; at += 16)
    if (at > elf.at_dynamic + 64) elf.put(at, std::uint64_t{0x7777});
  BufferMemory memory;
  memory.place(bias, elf.bytes());
  Image image = *read_image(memory, bias);
  image.segments.back().p_memsz = ~std::uint64_t{0};
  EXPECT_TRUE(read_dynamic(memory, image));
  image.segments.back().p_vaddr = 0x10'0000;
  EXPECT_EQ(read_dynamic(memory, image).error().code, ErrorCode::malformed);
  image.segments.pop_back();
  EXPECT_EQ(read_dynamic(memory, image).error().code, ErrorCode::not_found);
}

TEST(Relocations, OfTheWantedTypesAreFound) {
  ElfImage elf;
  elf.relocation(0x3000, R_X86_64_TLSDESC, 5, 0);
  elf.relocation(0x3010, R_X86_64_RELATIVE, 0, 77);
  elf.relocation(0x3020, R_X86_64_TPOFF64, 0, -8);
  elf.relocation(0x10'0000, R_X86_64_TLSDESC, 6, 0);  // outside of the module
  elf.finish();
  BufferMemory memory;
  memory.place(bias, elf.bytes());
  const Image image = *read_image(memory, bias);
  const auto dynamic = *read_dynamic(memory, image);
  constexpr std::array<std::uint32_t, 2> types{R_X86_64_TLSDESC, R_X86_64_TPOFF64};
  const auto found = find_relocations(memory, image, dynamic, types);
  ASSERT_TRUE(found) << found.error().message;
  EXPECT_THAT(*found, testing::ElementsAre(Relocation{bias + 0x3000, R_X86_64_TLSDESC, 5, 0},
                                           Relocation{bias + 0x3020, R_X86_64_TPOFF64, 0, -8}));
}

TEST(Relocations, OfAnAbsurdSizeEndWithTheModule) {
  ElfImage elf;
  elf.relocation(0x3000, R_X86_64_TLSDESC, 5, 0);
  elf.finish();
  BufferMemory memory;
  memory.place(bias, elf.bytes());
  Image image = *read_image(memory, bias);
  Dynamic dynamic = *read_dynamic(memory, image);
  constexpr std::array<std::uint32_t, 1> types{R_X86_64_TLSDESC};
  dynamic.rela.size = ElfImage::size * 2;  // claims more than is mapped
  EXPECT_EQ(find_relocations(memory, image, dynamic, types).error().code, ErrorCode::malformed);
  dynamic.rela.size = ~std::uint64_t{0};
  EXPECT_EQ(find_relocations(memory, image, dynamic, types).error().code, ErrorCode::limit);
}

std::uint64_t add_note(ElfImage& elf, std::uint32_t name_size, std::uint32_t size) {
  struct {
    Elf64_Nhdr header;
    char name[4];
    unsigned char id[20];
  } note{{name_size, size, NT_GNU_BUILD_ID}, {'G', 'N', 'U', 0}, {1, 2, 3}};
  return elf.add(note);
}

TEST(Notes, HoldTheBuildId) {
  ElfImage elf;
  const auto at = add_note(elf, 4, 20);
  elf.segment(PT_NOTE, at, 36, 4);
  elf.finish();
  BufferMemory memory;
  memory.place(bias, elf.bytes());
  const auto note = build_id_note(memory, *read_image(memory, bias));
  ASSERT_TRUE(note);
  ASSERT_EQ(note->size, 20U);
  std::array<std::byte, 3> id{};
  ASSERT_TRUE(memory.read_exact(note->description, id, "the build id"));
  EXPECT_EQ(id[2], std::byte{3});
}

TEST(Notes, ThatLieAboutTheirSizeEndTheSegment) {
  for (const auto& [name_size, size] :
       {std::pair(4U, 21U), {4U, 0xffff'fffcU}, {0xffff'ffffU, 4U}, {200U, 4U}}) {
    ElfImage elf;
    const auto at = add_note(elf, name_size, size);
    elf.segment(PT_NOTE, at, 36, 4);
    elf.finish();
    BufferMemory memory;
    memory.place(bias, elf.bytes());
    EXPECT_TRUE(read_notes(memory, *read_image(memory, bias)).empty()) << name_size << " " << size;
  }
}

TEST(Strings, AreBoundedAndTerminated) {
  BufferMemory memory;
  std::vector<std::byte> text(1000, std::byte{'x'});
  memory.place(0x10000, text);
  EXPECT_FALSE(read_string(memory, 0x10000, 500, "a name"));
  EXPECT_FALSE(read_string(memory, 0x10000, 5000, "a name"));
  EXPECT_FALSE(read_string(memory, 0x50000, 5000, "a name"));
  text[300] = std::byte{0};
  memory.place(0x10000, text);
  EXPECT_EQ(read_string(memory, 0x10000, 500, "a name"), std::string(300, 'x'));
}

}  // namespace
}  // namespace vitrine::elf
