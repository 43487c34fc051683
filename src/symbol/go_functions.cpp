// The layout is that of runtime.pcHeader and runtime._func (symtab.go of Go's runtime and
// internal/abi): a header of words, then tables at offsets from its start. Offsets of functions are
// from the start of the code, which the header of Go 1.26 no longer has.
#include "symbol/go_functions.hpp"

#include <span>
#include <vector>

#include "base/limits.hpp"

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
  const elf::Section* code = elf.find(".text");
  if (text == 0 && code != nullptr) text = code->address;
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

}  // namespace vitrine::symbol
