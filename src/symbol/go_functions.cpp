// The layout is that of runtime.pcHeader and runtime._func (symtab.go of Go's runtime and
// internal/abi): a header of words, then tables at offsets from its start. Offsets of functions are
// from the start of Go's code, which Go 1.26 no longer has in the header, but in runtime.moduledata.
#include "symbol/go_functions.hpp"

#include <elf.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <span>
#include <vector>

#include "base/limits.hpp"
#include "elf/image.hpp"

namespace vitrine::symbol {
namespace {

constexpr std::uint32_t magic_1_18 = 0xfffffff0, magic_1_20 = 0xfffffff1;
constexpr std::uint64_t max_go_table = 512U << 20;  // bytes; the Go compiler's own has 20 MiB

/// The bytes of .gopclntab, every read of which is checked.
class GoTable {
 public:
  GoTable(std::vector<std::byte> bytes, elf::Encoding encoding)
      : bytes_(std::move(bytes)), encoding_(encoding) {}

  [[nodiscard]] std::uint32_t u32(std::uint64_t at) const {
    return holds(at, 4) ? encoding_.u32(bytes_.data() + at) : 0;
  }
  [[nodiscard]] std::uint64_t word(std::uint64_t at) const {
    return holds(at, encoding_.address_bytes()) ? encoding_.address(bytes_.data() + at) : 0;
  }
  [[nodiscard]] bool holds(std::uint64_t at, std::uint64_t size) const {
    return at <= bytes_.size() && size <= bytes_.size() - at;
  }
  /// Up to its NUL; empty: it has none.
  [[nodiscard]] std::string_view text(std::uint64_t at) const {
    if (at >= bytes_.size()) return {};
    const std::string_view rest(reinterpret_cast<const char*>(bytes_.data()) + at,
                                std::min<std::uint64_t>(bytes_.size() - at, limits::name_bytes));
    const std::size_t end = rest.find('\0');
    return end == rest.npos ? std::string_view() : rest.substr(0, end);
  }

 private:
  std::vector<std::byte> bytes_;
  elf::Encoding encoding_;
};

/// Where Go's code begins: in .text, after what C libraries put there.
Address start_of_code(Memory& file, const elf::File& elf, Address table) {
  const elf::Section* code = elf.find(".text");
  const elf::Section* module = elf.find(".go.module");
  if (code == nullptr) return 0;
  if (module == nullptr) return code->address;
  constexpr std::uint64_t max_module = 64 * 1024;
  auto read = elf::read_section(file, elf, *module, max_module);
  if (!read) return code->address;
  const GoTable words(std::move(read->bytes), elf.encoding);
  constexpr std::uint64_t text_index = 22;
  const Address text = words.word(text_index * elf.encoding.address_bytes());
  const bool is_known = words.word(0) == table && text - code->address < code->size;
  return is_known ? text : code->address;
}

const elf::Section* go_table_of(const elf::File& elf) {
  const elf::Section* section = elf.find(".gopclntab");
  return section != nullptr ? section : elf.find(".data.rel.ro.gopclntab");
}

}  // namespace

bool is_go_file(const elf::File& elf) {
  return go_table_of(elf) != nullptr || elf.find(".go.buildinfo") != nullptr;
}

void visit_go_functions(Memory& file, const elf::File& elf, const VisitGoFunction& visit) {
  const elf::Section* section = go_table_of(elf);
  if (section == nullptr) return;
  auto read = elf::read_section(file, elf, *section, max_go_table);
  if (!read) return;
  const GoTable table(std::move(read->bytes), elf.encoding);
  const std::uint64_t word = elf.encoding.address_bytes();
  if (table.u32(0) != magic_1_18 && table.u32(0) != magic_1_20) return;
  constexpr std::uint64_t words_at = 8;
  const auto header = [&](std::uint64_t index) { return table.word(words_at + index * word); };
  const std::uint64_t count = header(0), names = header(3), functions = header(7);
  Address text = header(2);
  if (text == 0) text = start_of_code(file, elf, section->address);
  if (count > limits::file_symbols) return;
  constexpr std::uint64_t entry = 8, name_at = 4;  // offset of the code, offset of its _func
  for (std::uint64_t i = 0; i < count; ++i) {
    const std::uint64_t at = functions + i * entry;
    if (!table.holds(at, entry)) return;
    const std::uint64_t function = functions + table.u32(at + 4);
    if (!table.holds(function, entry)) return;
    const std::string_view name = table.text(names + table.u32(function + name_at));
    if (!name.empty()) visit(text + table.u32(at), name);
  }
}

namespace {

// What runtime.nanotime1 does before it leaves the goroutine's stack (sys_linux_amd64.s, Go 1.17 to
// 1.26). The bytes written as `any` are offsets, the only ones that differ between releases.
constexpr int any = -1;
constexpr std::array leaves_stack{0x49, 0x89, 0xe4,                         // MOVQ SP, R12
                                  0x49, 0x8b, 0x5e, any,                    // MOVQ g_m(R14), BX
                                  0x48, 0x8b, 0x8b, any,  any,  any, any,   // MOVQ m_vdsoPC(BX), CX
                                  0x48, 0x8b, 0x93, any,  any,  any, any,   // MOVQ m_vdsoSP(BX), DX
                                  0x48, 0x89, 0x0c, 0x24,                   // MOVQ CX, 0(SP)
                                  0x48, 0x89, 0x54, 0x24, 0x08,             // MOVQ DX, 8(SP)
                                  0x48, 0x8d, 0x54, 0x24, any,              // LEAQ ret+0(FP), DX
                                  0x48, 0x8b, 0x4a, 0xf8,                   // MOVQ -8(DX), CX
                                  0x48, 0x89, 0x8b, any,  any,  any, any,   // MOVQ CX, m_vdsoPC(BX)
                                  0x48, 0x89, 0x93, any,  any,  any, any};  // MOVQ DX, m_vdsoSP(BX)
constexpr std::size_t m_of_g_at = 6, stack_of_m_at = leaves_stack.size() - 4;

constexpr std::size_t max_prologue = 64;  // before these: the check of the stack's size, the frame

bool is_at(std::span<const std::byte> code) {
  return code.size() >= leaves_stack.size() &&
         std::equal(
             leaves_stack.begin(), leaves_stack.end(), code.begin(),
             [](int wanted, std::byte is) { return wanted == any || std::byte(wanted) == is; });
}

}  // namespace

std::optional<GoVdsoCall> find_go_vdso_call(Memory& file, const elf::File& elf) {
  if (elf.machine != EM_X86_64) return std::nullopt;
  std::optional<GoVdsoCall> found;
  elf::LoadedFile loaded(file, elf);
  visit_go_functions(file, elf, [&](Address address, std::string_view name) {
    // The one without the suffix may be a wrapper of the other.
    if (name != "runtime.nanotime1" && name != "runtime.nanotime1.abi0") return;
    std::array<std::byte, max_prologue + leaves_stack.size()> bytes{};
    std::span<const std::byte> code(bytes);
    code = code.first(loaded.read_some(address, bytes));
    while (!code.empty() && !is_at(code)) code = code.subspan(1);
    if (code.empty()) return;
    const GoVdsoCall call{static_cast<std::uint8_t>(code[m_of_g_at]),
                          elf.encoding.u32(code.data() + stack_of_m_at)};
    if (is_sound(call)) found = call;
  });
  return found;
}

}  // namespace vitrine::symbol
