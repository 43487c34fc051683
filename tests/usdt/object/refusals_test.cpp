// What is no object file, or a broken one: a message that says what and where, and nothing changed.
#include <elf.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <functional>

#include "usdt/link.hpp"
#include "usdt/object/workshop.hpp"
#include "usdt/object_file.hpp"

namespace vitrine::usdt {
namespace {

using test::Workshop;
using testing::HasSubstr;

using Bytes = std::vector<std::byte>;

Result<RewrittenObject> process(std::span<const std::byte> bytes) {
  static const Definition definition = test::shop();
  static const DeclaredProbes declared(definition);
  return rewrite(bytes, declared, {}, "salt");
}

class Refusals : public testing::Test {
 protected:
  void SetUp() override {
    good_ = test::bytes_of(
        shop_.compile("a", std::string(test::shop_header) + test::shop_program, "gcc -O0 -fPIE"));
    ASSERT_TRUE(process(good_));
    const auto object = ObjectFile::read(good_);
    ASSERT_TRUE(object);
    for (std::uint32_t i = 1; i < object->sections().size(); ++i) {
      if (object->section_name(i) == ".text") text_ = i;
      if (object->section_name(i) == ".rela.text") relocations_ = i;
      if (object->section_name(i) == ".symtab") symbols_ = i;
    }
    ASSERT_NE(text_, 0U);
    ASSERT_NE(relocations_, 0U);
    strings_ = object->sections()[symbols_].link;
  }

  Elf64_Ehdr* header(Bytes& bytes) { return reinterpret_cast<Elf64_Ehdr*>(bytes.data()); }
  Elf64_Shdr* section(Bytes& bytes, std::uint32_t i) {
    return reinterpret_cast<Elf64_Shdr*>(bytes.data() + header(bytes)->e_shoff) + i;
  }
  template <class T>
  T* in_section(Bytes& bytes, std::uint32_t i, std::size_t index) {
    return reinterpret_cast<T*>(bytes.data() + section(bytes, i)->sh_offset) + index;
  }
  /// The first relocation against a symbol whose name has `part`.
  Elf64_Rela* relocation(Bytes& bytes, const char* part) {
    for (std::size_t i = 0; i < section(bytes, relocations_)->sh_size / sizeof(Elf64_Rela); ++i) {
      auto* one = in_section<Elf64_Rela>(bytes, relocations_, i);
      const auto* symbol = in_section<Elf64_Sym>(bytes, symbols_, ELF64_R_SYM(one->r_info));
      if (std::strstr(in_section<char>(bytes, strings_, symbol->st_name), part)) return one;
    }
    return nullptr;
  }

  void refused(const char* what, const std::function<void(Bytes&)>& spoil, const char* says) {
    SCOPED_TRACE(what);
    Bytes bytes = good_;
    spoil(bytes);
    const Bytes before = bytes;
    const auto done = process(bytes);
    ASSERT_FALSE(done);
    EXPECT_THAT(done.error().message, HasSubstr(says));
    EXPECT_EQ(bytes, before);
  }

  Workshop shop_;
  Bytes good_;
  std::uint32_t text_ = 0, relocations_ = 0, symbols_ = 0, strings_ = 0;
};

TEST_F(Refusals, TruncatedAnywhere) {
  for (std::size_t size = 0; size < good_.size(); size += 64) {
    const auto done = process(std::span(good_).first(size));
    ASSERT_FALSE(done) << size;
    EXPECT_FALSE(done.error().message.empty());
  }
}

TEST_F(Refusals, WhatIsNoObject) {
  refused(
      "ET_EXEC", [&](Bytes& b) { header(b)->e_type = ET_EXEC; }, "executable");
  refused(
      "ET_DYN", [&](Bytes& b) { header(b)->e_type = ET_DYN; }, "shared object");
  refused(
      "ET_CORE", [&](Bytes& b) { header(b)->e_type = ET_CORE; }, "core dump");
  refused(
      "machine", [&](Bytes& b) { header(b)->e_machine = EM_S390; }, "machine");
  refused(
      "x32", [&](Bytes& b) { b[EI_CLASS] = std::byte{ELFCLASS32}; }, "");
  refused(
      "big-endian", [&](Bytes& b) { b[EI_DATA] = std::byte{ELFDATA2MSB}; }, "big-endian");
  refused(
      "text", [&](Bytes& b) { std::memcpy(b.data(), "int ", 4); }, "not an ELF file");
  refused(
      "archive", [&](Bytes& b) { std::memcpy(b.data(), "!<arch>\n", 8); }, "archive");
  refused(
      "thin archive", [&](Bytes& b) { std::memcpy(b.data(), "!<thin>\n", 8); }, "archive");
}

TEST_F(Refusals, SectionsOutOfRange) {
  refused(
      "offset", [&](Bytes& b) { section(b, text_)->sh_offset = 1U << 30; }, ".text (section");
  refused(
      "offset wraps", [&](Bytes& b) { section(b, text_)->sh_offset = ~0ULL; }, ".text");
  refused(
      "size", [&](Bytes& b) { section(b, text_)->sh_size = 1U << 30; }, ".text");
  refused(
      "size wraps", [&](Bytes& b) { section(b, text_)->sh_size = ~0ULL - 8; }, ".text");
  refused(
      "overlap",
      [&](Bytes& b) { section(b, text_)->sh_offset = section(b, relocations_)->sh_offset; },
      "overlaps");
  refused(
      "on the header", [&](Bytes& b) { section(b, text_)->sh_offset = 8; }, "headers");
  refused(
      "section headers", [&](Bytes& b) { header(b)->e_shoff = b.size() + 1; }, "");
  refused(
      "section header size", [&](Bytes& b) { header(b)->e_shentsize = 63; }, "");
  refused(
      "section names", [&](Bytes& b) { header(b)->e_shstrndx = 999; }, "names");
  refused(
      "no sections",
      [&](Bytes& b) {
        header(b)->e_shoff = 0;
        header(b)->e_shnum = 0;
      },
      "no sections");
}

TEST_F(Refusals, SymbolTable) {
  refused(
      "entry size", [&](Bytes& b) { section(b, symbols_)->sh_entsize = 0; }, ".symtab");
  refused(
      "odd size", [&](Bytes& b) { section(b, symbols_)->sh_size -= 1; }, ".symtab");
  refused(
      "strings", [&](Bytes& b) { section(b, symbols_)->sh_link = 999; }, "not a string table");
  refused(
      "strings are code", [&](Bytes& b) { section(b, symbols_)->sh_link = text_; },
      "not a string table");
  refused(
      "first global", [&](Bytes& b) { section(b, symbols_)->sh_info = 999; }, ".symtab");
  refused(
      "name", [&](Bytes& b) { in_section<Elf64_Sym>(b, symbols_, 1)->st_name = 1U << 20; },
      "name of symbol 1");
  refused(
      "section", [&](Bytes& b) { in_section<Elf64_Sym>(b, symbols_, 1)->st_shndx = 999; },
      "symbol 1 is in section 999");
  refused(
      "wide section index",
      [&](Bytes& b) { in_section<Elf64_Sym>(b, symbols_, 1)->st_shndx = SHN_XINDEX; }, "missing");
  refused(
      "no end of the strings",
      [&](Bytes& b) {
        const auto* strings = section(b, strings_);
        b[strings->sh_offset + strings->sh_size - 1] = std::byte{'x'};
      },
      "zero byte");
  refused(
      "two symbol tables", [&](Bytes& b) { section(b, text_)->sh_type = SHT_SYMTAB; },
      "two symbol tables");
}

TEST_F(Refusals, Relocations) {
  refused(
      "entry size", [&](Bytes& b) { section(b, relocations_)->sh_entsize = 7; }, ".rela.text");
  refused(
      "odd size", [&](Bytes& b) { section(b, relocations_)->sh_size -= 1; }, ".rela.text");
  refused(
      "symbols", [&](Bytes& b) { section(b, relocations_)->sh_link = 999; }, ".rela.text");
  refused(
      "target", [&](Bytes& b) { section(b, relocations_)->sh_info = 999; }, ".rela.text");
  refused(
      "compressed", [&](Bytes& b) { section(b, relocations_)->sh_type = 0x40000014; }, "CREL");
  refused(
      "symbol index",
      [&](Bytes& b) {
        in_section<Elf64_Rela>(b, relocations_, 0)->r_info = ELF64_R_INFO(99999, 4);
      },
      "symbol 99999");
  refused(
      "offset", [&](Bytes& b) { in_section<Elf64_Rela>(b, relocations_, 0)->r_offset = 1U << 24; },
      "relocation 0");
  refused(
      "a thread-local variable's",
      [&](Bytes& b) {
        auto* one = relocation(b, "__dtrace_shop___done");
        one->r_info = ELF64_R_INFO(ELF64_R_SYM(one->r_info), R_X86_64_TPOFF32);
      },
      "__dtrace_shop___done");
  refused(
      "two on one call",
      [&](Bytes& b) {
        *relocation(b, "__dtrace_shop___order") = *relocation(b, "__dtrace_shop___done");
      },
      "overlap");
}

TEST_F(Refusals, CodeThatChangedSinceItWasProcessed) {
  const auto object = process(good_);
  ASSERT_TRUE(object && !object->bytes.empty());
  const std::size_t code = section(good_, text_)->sh_offset;
  good_ = object->bytes;
  refused(
      "a call again",
      [&](Bytes& b) {
        b[code + relocation(b, "__dtrace_shop___done")->r_offset - 1] = std::byte{0xe8};
      },
      "processed before");
  refused(
      "never patched",
      [&](Bytes& b) {
        auto* one = relocation(b, "printf");
        const auto done = ELF64_R_SYM(relocation(b, "__dtrace_shop___done")->r_info);
        one->r_info = ELF64_R_INFO(done, R_X86_64_NONE);
      },
      "processed before");
}

TEST_F(Refusals, ProbesThatTheProviderDoesNotHave) {
  const auto done = process(test::bytes_of(shop_.compile(
      "b",
      "void __dtrace_shop___closed(void); int f(void) { __dtrace_shop___closed(); return 1; }")));
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().code, ErrorCode::usage);
  EXPECT_THAT(done.error().message, HasSubstr("__dtrace_shop___closed"));
  EXPECT_THAT(done.error().message, HasSubstr(" f calls"));
}

TEST_F(Refusals, Groups) {
  const auto inlines = test::bytes_of(
      shop_.compile("c.cc", "inline int f() { static int n; return ++n; } int g() { return f(); }",
                    "g++ -O0 -x c++"));
  good_ = inlines;
  const auto object = ObjectFile::read(good_);
  ASSERT_TRUE(object);
  std::uint32_t group = 0;
  for (std::uint32_t i = 1; i < object->sections().size(); ++i)
    if (object->sections()[i].type == SHT_GROUP) group = i;
  ASSERT_NE(group, 0U);
  refused(
      "of itself", [&](Bytes& b) { *in_section<Elf64_Word>(b, group, 1) = group; }, "group");
  refused(
      "of nothing", [&](Bytes& b) { *in_section<Elf64_Word>(b, group, 1) = 9999; }, "group");
  refused(
      "symbol", [&](Bytes& b) { section(b, group)->sh_info = 9999; }, "group");
  refused(
      "half a word", [&](Bytes& b) { section(b, group)->sh_size = 2; }, "group");
}

/// Whatever byte of a header is wrong: an answer, and never a crash.
TEST_F(Refusals, AnyByteOfAnyHeader) {
  const std::size_t headers = header(good_)->e_shoff;
  for (std::size_t at = 0; at < good_.size(); ++at) {
    if (at == sizeof(Elf64_Ehdr)) at = headers;
    for (const unsigned value : {0x00U, 0x01U, 0x7fU, 0xffU}) {
      Bytes bytes = good_;
      bytes[at] = static_cast<std::byte>(value);
      const auto done = process(bytes);
      EXPECT_TRUE(done || !done.error().message.empty());
      EXPECT_TRUE(!done || done->bytes.empty() || done->bytes.size() >= good_.size());
    }
  }
}

}  // namespace
}  // namespace vitrine::usdt
