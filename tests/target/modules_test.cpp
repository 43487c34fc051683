// The list of modules, and TLS resolution, of processes made by hand: the hostile ones that no
// dynamic linker would produce, and access models of the other machine.
#include "target/modules.hpp"

#include <elf.h>
#include <gmock/gmock.h>

#include "base/limits.hpp"
#include "base/memory.hpp"
#include "elf/symbols.hpp"
#include "support/buffer_memory.hpp"
#include "support/elf_image.hpp"
#include "target/tls_resolver.hpp"

namespace vitrine::target {
namespace {

using test::BufferMemory;
using test::ElfImage;
using testing::HasSubstr;

constexpr Address executable_at = 0x5555'0000'0000;
constexpr Address library_at = 0x7f00'0000'0000;
constexpr Address linker_data = 0x7fff'0000'0000;  // r_debug, nodes, names

struct Node {
  Address bias, name, dynamic, next, previous;
};

// A process of an executable and libraries, whose list is where a test can spoil it.
class FakeProcess {
 public:
  FakeProcess() {
    executable.dynamic(DT_DEBUG, linker_data);
    executable.segment(PT_INTERP,
                       executable.add_text(std::string("/lib/ld-musl-x86_64.so.1\0", 25)), 25);
  }

  /// Puts all in place. Further nodes follow the executable's.
  void start(const std::vector<Node>& more = {}) {
    executable.finish();
    memory.place(executable_at, executable.bytes());
    set_debug(1, 0);
    place_node(0, {executable_at, name(0), executable_at + executable.at_dynamic, 0, 0});
    for (std::size_t i = 0; i < more.size(); ++i) place_node(i + 1, more[i]);
    link(more.size() + 1);
  }

  void set_debug(std::int32_t version, std::int32_t state) {
    struct {
      std::int32_t version, padding;
      Address map, breakpoint;
      std::int32_t state, padding2;
      Address base, next;
    } debug{version, 0, node(0), 0, state, 0, 0, 0};
    memory.place_value(linker_data, debug);
  }

  static Address node(std::size_t n) { return linker_data + 0x1000 + 0x100 * n; }
  static Address name(std::size_t n) { return node(n) + 0x80; }

  void place_node(std::size_t n, const Node& value) {
    nodes_.resize(std::max(nodes_.size(), n + 1));
    nodes_[n] = value;
    memory.place_value(node(n), value);
    memory.place(name(n), std::vector<std::byte>(64, std::byte{0}));
  }

  void link(std::size_t count) {
    for (std::size_t n = 0; n < count; ++n) {
      nodes_[n].next = n + 1 < count ? node(n + 1) : 0;
      memory.place_value(node(n), nodes_[n]);
    }
  }

  Modules modules() const { return modules_of(executable); }

  static Modules modules_of(const ElfImage& executable) {
    // ElfImage: PT_LOAD, PT_INTERP, others, PT_DYNAMIC last.
    Elf64_Ehdr header;
    std::memcpy(&header, executable.bytes().data(), sizeof header);
    return Modules({executable_at + sizeof(Elf64_Ehdr), header.e_phnum, 0}, "/bin/fake");
  }

  ElfImage executable;
  BufferMemory memory;

 private:
  std::vector<Node> nodes_;
};

// A library that defines and uses `custom_labels_current_set`.
struct FakeLibrary {
  explicit FakeLibrary(std::uint32_t relocation, Address first, Address second,
                       std::uint16_t machine = EM_X86_64)
      : elf(machine) {
    elf.segment(PT_TLS, 0x2000, 64, 8);
    const auto symbol = elf.symbol("custom_labels_current_set", STT_TLS, 0x18, 8);
    got = elf.add(std::array<Address, 2>{first, second});
    elf.relocation(got, relocation, symbol, 0);
    elf.finish();
  }

  Node node() const { return {library_at, 0, library_at + elf.at_dynamic, 0, 0}; }

  ElfImage elf;
  std::uint64_t got = 0;
};

Result<ResolvedTls> resolve(FakeProcess& process, const FakeLibrary& library,
                            Machine machine = Machine::x86_64) {
  process.start({library.node()});
  process.memory.place(library_at, library.elf.bytes());
  Modules modules = process.modules();
  EXPECT_TRUE(modules.refresh(process.memory));
  EXPECT_EQ(modules.all().size(), 2U) << testing::PrintToString(modules.notes());
  const Module& module = modules.all().back();
  const auto symbol =
      elf::find_symbol(process.memory, *module.dynamic, "custom_labels_current_set");
  TlsResolver resolver(process.memory, machine, modules.all());
  return resolver.resolve(module, **symbol, "custom_labels_current_set");
}

TEST(Modules, AreListedAndWatched) {
  FakeProcess process;
  const FakeLibrary library(R_X86_64_TPOFF64, 0, 0);
  process.start();
  Modules modules = process.modules();
  EXPECT_TRUE(*modules.refresh(process.memory));
  ASSERT_EQ(modules.all().size(), 1U);
  EXPECT_EQ(modules.all()[0].path, "/bin/fake");
  EXPECT_FALSE(*modules.refresh(process.memory));

  process.memory.place(library_at, library.elf.bytes());
  process.place_node(1, library.node());
  process.link(2);
  EXPECT_TRUE(*modules.refresh(process.memory));
  EXPECT_EQ(modules.all().size(), 2U);
  EXPECT_FALSE(*modules.refresh(process.memory));

  // Unloaded, and followed by another in the same place: the list is the same byte for byte.
  ElfImage other = library.elf;
  other.put(sizeof(Elf64_Ehdr) + sizeof(Elf64_Phdr) + offsetof(Elf64_Phdr, p_memsz),
            std::uint64_t{128});
  process.memory.place(library_at, other.bytes());
  EXPECT_TRUE(*modules.refresh(process.memory));
  EXPECT_EQ(modules.all()[1].image.find(PT_TLS)->p_memsz, 128U);
}

TEST(Modules, OfAStaticProgramAreItAlone) {
  // static-pie of musl: a dynamic section, whose DT_DEBUG no dynamic linker fills in.
  ElfImage executable;
  executable.dynamic(DT_DEBUG, 0);
  executable.symbol("custom_labels_current_set", STT_TLS, 0x18, 8);
  executable.finish();
  BufferMemory memory;
  memory.place(executable_at, executable.bytes());
  Modules modules = FakeProcess::modules_of(executable);
  EXPECT_TRUE(*modules.refresh(memory));
  EXPECT_EQ(modules.all().size(), 1U);
  EXPECT_FALSE(*modules.refresh(memory));
}

TEST(Modules, AreUnstableWhileTheLinkerChangesThem) {
  FakeProcess process;
  process.start();
  process.set_debug(1, 1);  // RT_ADD
  Modules modules = process.modules();
  EXPECT_TRUE(*modules.refresh(process.memory));
  EXPECT_FALSE(modules.stable());
  EXPECT_TRUE(*modules.refresh(process.memory));  // so it looks again, though nothing moved
  process.set_debug(1, 0);
  EXPECT_TRUE(*modules.refresh(process.memory));
  EXPECT_TRUE(modules.stable());
  EXPECT_FALSE(*modules.refresh(process.memory));
}

TEST(Modules, InACircleEndIt) {
  FakeProcess process;
  const FakeLibrary library(R_X86_64_TPOFF64, 0, 0);
  process.start({library.node()});
  process.memory.place(library_at, library.elf.bytes());
  Node node = library.node();
  node.next = FakeProcess::node(0);
  process.memory.place_value(FakeProcess::node(1), node);
  Modules modules = process.modules();
  EXPECT_TRUE(modules.refresh(process.memory));
  EXPECT_EQ(modules.all().size(), 2U);
  EXPECT_THAT(modules.notes(), testing::ElementsAre(HasSubstr("has a cycle")));
}

TEST(Modules, ThatLieAreLeftOutOneByOne) {
  FakeProcess process;
  const FakeLibrary library(R_X86_64_TPOFF64, 0, 0);
  process.memory.place(library_at, library.elf.bytes());
  // A bias that leads nowhere, and a bias that lies about a real module, which is found all the
  // same by its dynamic section.
  process.start({{0x4141'4141'0000, 0, 0x4141'4141'1000, 0, 0},
                 {library_at + 0x3000, 0, library_at + library.elf.at_dynamic, 0, 0}});
  Modules modules = process.modules();
  EXPECT_TRUE(modules.refresh(process.memory));
  ASSERT_EQ(modules.all().size(), 2U);
  EXPECT_EQ(modules.all()[1].image.bias, library_at);
  EXPECT_THAT(modules.notes(), testing::ElementsAre(HasSubstr("no ELF header belongs")));
}

TEST(Modules, AreNoMoreThanTheLimit) {
  FakeProcess process;
  process.start();
  // Every node of an endless list: the reader would follow it for ever.
  class Endless final : public Memory {
   public:
    explicit Endless(Memory& under) : under_(under) {}
    void read(std::span<ReadRequest> requests) override {
      for (ReadRequest& request : requests) {
        const bool node =
            request.into.size() == sizeof(Node) && request.address >= FakeProcess::node(0);
        const Node value{1, 0, 2, request.address + 0x100, 0};
        if (node) {
          std::memcpy(request.into.data(), &value, sizeof value);
          request.got = sizeof value;
        } else {
          under_.read({&request, 1});
        }
      }
    }

   private:
    Memory& under_;
  } endless(process.memory);
  BoundedMemory bounded(endless, limits::search_requests, limits::search_bytes);
  Modules modules = process.modules();
  EXPECT_TRUE(modules.refresh(bounded));
  EXPECT_EQ(modules.all().size(), 1U);
  EXPECT_LE(modules.notes().size(), limits::search_notes);
}

// One header with many segments, in the list again and again.
TEST(Modules, HaveNoMoreMemoryThanTheLimit) {
  FakeProcess process;
  ElfImage library;
  for (int i = 0; i < 50; ++i) library.segment(PT_NOTE, 0, 0);
  library.dynamic(DT_DEBUG, 0);
  library.finish();
  constexpr std::size_t listed = 6000;
  process.start(
      std::vector<Node>(listed, Node{library_at, 0, library_at + library.at_dynamic, 0, 0}));
  process.memory.place(library_at, library.bytes());
  Modules modules = process.modules();
  EXPECT_TRUE(modules.refresh(process.memory));
  EXPECT_GT(modules.all().size(), 2U);
  EXPECT_LT(modules.all().size(), listed);
  EXPECT_LT(modules.held_bytes(), limits::module_bytes + (1U << 20));
  EXPECT_THAT(modules.notes(), testing::Contains(HasSubstr("they exceed 16 MiB")));
}

/// Counts what is read.
class Counting final : public Memory {
 public:
  explicit Counting(Memory& under) : under_(under) {}
  void read(std::span<ReadRequest> requests) override {
    count += requests.size();
    under_.read(requests);
  }

  std::size_t count = 0;

 private:
  Memory& under_;
};

TEST(Modules, ThatAreNowhereAreNotLookedForWithoutEnd) {
  FakeProcess process;
  constexpr std::size_t modules_listed = 100;
  const std::vector<Node> nodes(modules_listed, Node{1, 0, Address{1} << 40, 0, 0});
  process.start(nodes);
  Counting counting(process.memory);
  Modules modules = process.modules();
  EXPECT_TRUE(modules.refresh(counting));
  EXPECT_EQ(modules.all().size(), 1U);
  // A page costs a read: 256 MiB of address space for each would be 6 million.
  EXPECT_LT(counting.count, 500'000U);
  EXPECT_THAT(modules.notes(), testing::Contains(HasSubstr("ended after")));
  EXPECT_THAT(modules.notes().back(), HasSubstr("68 more modules could not be read"));
}

TEST(Resolution, OfAnOffsetWord) {
  FakeProcess process;
  const auto found = resolve(process, FakeLibrary(R_X86_64_TPOFF64, ~Address{0x97}, 0));
  ASSERT_TRUE(found) << found.error().message;
  EXPECT_EQ(found->location, TlsLocation(StaticTls{-0x98}));
  EXPECT_EQ(found->evidence, TlsEvidence::initial_exec);
  EXPECT_FALSE(found->watched.changed(process.memory));
}

TEST(Resolution, OfModuleWords) {
  FakeProcess process;
  FakeLibrary library(R_X86_64_DTPMOD64, 2, 0x18);
  const auto found = resolve(process, library);
  ASSERT_TRUE(found) << found.error().message;
  EXPECT_EQ(found->location, TlsLocation(DynamicTls{Libc::musl, 2, 0x18, 0}));
  EXPECT_FALSE(found->watched.changed(process.memory));
  library.elf.put(library.got, Address{3});
  process.memory.place(library_at, library.elf.bytes());
  EXPECT_TRUE(found->watched.changed(process.memory));
}

struct Code {
  const char* name;
  Machine machine;
  std::vector<std::uint8_t> bytes;
  bool returns_argument;
};

class Entry : public testing::TestWithParam<Code> {};

// What the descriptor's entry function does decides what its argument is.
TEST_P(Entry, IsReadAsCode) {
  constexpr Address entry = 0x7e00'0000'0000;
  constexpr Address argument = 0x7e00'1000'0000;
  const auto& [name, machine, code, returns_argument] = GetParam();
  FakeProcess process;
  std::vector<std::byte> bytes;
  for (const std::uint8_t byte : code) bytes.push_back(static_cast<std::byte>(byte));
  if (!bytes.empty()) process.memory.place(entry, bytes);
  process.memory.place_value(argument, std::array<std::uint64_t, 2>{5, 0x20});
  const auto type = machine == Machine::x86_64 ? R_X86_64_TLSDESC : R_AARCH64_TLSDESC;
  const Address word = returns_argument ? Address{0x58} : argument;
  const FakeLibrary library(static_cast<std::uint32_t>(type), entry,
                            machine == Machine::x86_64 && code.empty() ? -word : word);
  const auto found = resolve(process, library, machine);
  ASSERT_TRUE(found) << found.error().message;
  if (returns_argument)
    EXPECT_EQ(std::abs(std::get<StaticTls>(found->location).offset), 0x58);
  else
    EXPECT_EQ(found->location, TlsLocation(DynamicTls{Libc::musl, 5, 0x20, 0}));
}

INSTANTIATE_TEST_SUITE_P(
    Functions, Entry,
    testing::Values(
        Code{"x86", Machine::x86_64, {0x48, 0x8b, 0x40, 0x08, 0xc3, 0x90}, true},
        Code{"x86_endbr",
             Machine::x86_64,
             {0xf3, 0x0f, 0x1e, 0xfa, 0x48, 0x8b, 0x40, 0x08, 0xc3},
             true},
        Code{"x86_dynamic", Machine::x86_64, {0xf3, 0x0f, 0x1e, 0xfa, 0x57, 0x56, 0x90}, false},
        Code{"x86_at_the_end_of_a_page", Machine::x86_64, {0x48, 0x8b, 0x40, 0x08}, false},
        Code{"x86_execute_only", Machine::x86_64, {}, true},
        Code{"arm",
             Machine::aarch64,
             {0x00, 0x04, 0x40, 0xf9, 0xc0, 0x03, 0x5f, 0xd6, 0, 0, 0, 0},
             true},
        Code{"arm_bti",
             Machine::aarch64,
             {0x5f, 0x24, 0x03, 0xd5, 0x00, 0x04, 0x40, 0xf9, 0xc0, 0x03, 0x5f, 0xd6},
             true},
        Code{"arm_nop",
             Machine::aarch64,
             {0x1f, 0x20, 0x03, 0xd5, 0x00, 0x04, 0x40, 0xf9, 0xc0, 0x03, 0x5f, 0xd6},
             true},
        Code{"arm_dynamic", Machine::aarch64, {0xe0, 0x03, 0x40, 0xf9, 0, 0, 0, 0}, false},
        Code{"arm_execute_only", Machine::aarch64, {}, true},
        Code{"arm_execute_only_dynamic", Machine::aarch64, {}, false}),
    [](const auto& row) { return std::string(row.param.name); });

TEST(Resolution, OfADescriptorWhoseArgumentIsItself) {
  FakeProcess process;
  process.memory.place(0x7e00'0000'0000, std::vector<std::byte>(16, std::byte{0x90}));
  FakeLibrary library(R_X86_64_TLSDESC, 0x7e00'0000'0000, 0);
  library.elf.put(library.got + 8, library_at + library.got);
  const auto found = resolve(process, library);
  // musl: a module id that is an address. It is the evaluation that refuses it.
  ASSERT_TRUE(found);
  process.memory.place_value(Address{0x7d00'0000'0008}, Address{0x7d00'0000'1000});
  EXPECT_EQ(
      evaluate(found->location, Machine::x86_64, 0x7d00'0000'0000, process.memory).error().code,
      ErrorCode::malformed);
}

TEST(Resolution, OfADescriptorWithAnUnreadableArgumentIsAnError) {
  FakeProcess process;
  process.memory.place(0x7e00'0000'0000, std::vector<std::byte>(16, std::byte{0x90}));
  const auto found =
      resolve(process, FakeLibrary(R_X86_64_TLSDESC, 0x7e00'0000'0000, 0x4141'4141'4141));
  ASSERT_FALSE(found);
  EXPECT_EQ(found.error().code, ErrorCode::malformed);
  EXPECT_THAT(found.error().message, HasSubstr("argument of a TLS descriptor"));
}

TEST(Resolution, OfASymbolOutsideOfItsBlockIsAnError) {
  FakeProcess process;
  FakeLibrary library(R_X86_64_TPOFF64, 8, 0);
  library.elf.put(library.elf.at_symbols + sizeof(Elf64_Sym) + offsetof(Elf64_Sym, st_value),
                  std::uint64_t{1} << 40);
  const auto found = resolve(process, library);
  ASSERT_FALSE(found);
  EXPECT_THAT(found.error().message, HasSubstr("of a thread-local block of 64 bytes"));
}

TEST(Resolution, WithoutAnyReferenceIsUnsupportedByMusl) {
  FakeProcess process;
  FakeLibrary library(R_X86_64_RELATIVE, 0, 0);
  const auto found = resolve(process, library);
  ASSERT_FALSE(found);
  EXPECT_EQ(found.error().code, ErrorCode::unsupported);
}

}  // namespace
}  // namespace vitrine::target
