// The layout is that of runtime.pcHeader and runtime._func (symtab.go of Go's runtime and
// internal/abi): a header of words, then tables at offsets from its start. Offsets of functions are
// from the start of Go's code, which Go 1.26 no longer has in the header, but in runtime.moduledata.
// Depths of the stack are pairs of differences (decoding: runtime.step).
#include "elf/go_functions.hpp"

#include <elf.h>

#include <algorithm>
#include <array>
#include <span>

#include "base/limits.hpp"

namespace vitrine::elf {
namespace {

constexpr std::uint32_t magic_1_18 = 0xfffffff0, magic_1_20 = 0xfffffff1;
constexpr std::uint64_t max_go_table = 512U << 20;  // bytes; the Go compiler's own has 20 MiB

/// Where Go's code begins: in .text, after what C libraries put there.
Address start_of_code(Memory& file, const File& elf, Address table) {
  const Section* code = elf.find(".text");
  const Section* module = elf.find(".go.module");
  if (code == nullptr) return 0;
  if (module == nullptr) return code->address;
  constexpr std::uint64_t max_module = 64 * 1024;
  auto read = read_section(file, elf, *module, max_module);
  if (!read) return code->address;
  const auto word = [&](std::uint64_t index) -> std::uint64_t {
    const std::uint64_t at = index * elf.encoding.address_bytes();
    if (read->bytes.size() < at + elf.encoding.address_bytes()) return 0;
    return elf.encoding.address(read->bytes.data() + at);
  };
  constexpr std::uint64_t text_index = 22;
  const Address text = word(text_index);
  const bool is_known = word(0) == table && text - code->address < code->size;
  return is_known ? text : code->address;
}

const Section* go_table_of(const File& elf) {
  const Section* section = elf.find(".gopclntab");
  return section != nullptr ? section : elf.find(".data.rel.ro.gopclntab");
}

}  // namespace

bool is_go_file(const File& elf) {
  return go_table_of(elf) != nullptr || elf.find(".go.buildinfo") != nullptr;
}

std::uint64_t GoFunctions::number(std::uint64_t at, std::size_t bytes) {
  std::array<std::byte, 8> word{};
  if (at > bytes_ || bytes > bytes_ - at) return 0;
  if (file_->read_some(offset_ + at, std::span(word).first(bytes)) != bytes) return 0;
  return bytes == 8 ? encoding_.u64(word.data()) : encoding_.u32(word.data());
}

std::optional<GoFunctions> GoFunctions::open(Memory& file, const File& elf) {
  const Section* section = go_table_of(elf);
  if (section == nullptr || section->type == SHT_NOBITS || section->size > max_go_table)
    return std::nullopt;
  GoFunctions table(file, elf.encoding, *section);
  const std::uint32_t magic = table.u32(0);
  if (magic != magic_1_18 && magic != magic_1_20) return std::nullopt;
  constexpr std::uint64_t words_at = 8;
  const std::size_t word = elf.encoding.address_bytes();
  const auto header = [&](std::uint64_t index) {
    return table.number(words_at + index * word, word);
  };
  table.has_start_lines_ = magic == magic_1_20;
  table.quantum_ = elf.machine == EM_AARCH64 ? 4 : 1;
  table.count_ = header(0);
  table.text_ = header(2);
  table.names_ = header(3);
  table.depths_ = header(6);
  table.functions_ = header(7);
  if (table.text_ == 0) table.text_ = start_of_code(file, elf, section->address);
  if (table.count_ > limits::file_symbols) return std::nullopt;
  return table;
}

std::optional<GoFunction> GoFunctions::at(std::uint64_t index) {
  // Offset of the code, offset of its _func; behind the last: offset of the end of all code.
  constexpr std::uint64_t entry = 8;
  const std::uint64_t at = functions_ + index * entry;
  if (index >= count_ || at > bytes_ || bytes_ - at < entry + 4) return std::nullopt;
  GoFunction function{text_ + u32(at), text_ + u32(at + entry), functions_ + u32(at + 4)};
  if (function.end < function.start) return std::nullopt;
  return function;
}

std::optional<GoFunction> GoFunctions::find(Address address) {
  std::uint64_t first = 0, last = count_;
  while (first < last) {
    const std::uint64_t middle = first + (last - first) / 2;
    const auto function = at(middle);
    if (!function) return std::nullopt;
    if (address < function->start)
      last = middle;
    else if (address >= function->end)
      first = middle + 1;
    else
      return function;
  }
  return std::nullopt;
}

std::string GoFunctions::name(const GoFunction& function) {
  constexpr std::uint64_t name_at = 4;
  const std::uint64_t at = names_ + u32(function.at + name_at);
  std::string name;
  std::array<char, 128> part;
  while (at + name.size() < bytes_ && name.size() < limits::name_bytes) {
    const std::uint64_t from = at + name.size();
    const std::size_t size = static_cast<std::size_t>(
        std::min<std::uint64_t>({part.size(), bytes_ - from, limits::name_bytes - name.size()}));
    const std::size_t got =
        file_->read_some(offset_ + from, std::as_writable_bytes(std::span(part).first(size)));
    const char* const end = std::find(part.data(), part.data() + got, '\0');
    name.append(part.data(), static_cast<std::size_t>(end - part.data()));
    if (end != part.data() + got) return name;
    if (got < size) break;
  }
  return {};
}

GoFunctions::Flags GoFunctions::flags(const GoFunction& function) {
  const std::uint64_t at = function.at + (has_start_lines_ ? 40 : 36);  // the byte before: a number
  const auto flags = static_cast<std::uint32_t>(u32(at) >> (encoding_.big_endian ? 16 : 8));
  return {(flags & 1) != 0, (flags & 2) != 0};
}

void GoFunctions::visit_depths(const GoFunction& function, const VisitDepth& visit) {
  constexpr std::uint64_t depths_at = 16;
  const std::uint32_t first = u32(function.at + depths_at);
  if (first == 0) return;
  std::uint64_t at = depths_ + first;
  std::array<std::byte, 64> bytes;
  std::size_t used = 0, got = 0;
  bool failed = false;
  const auto uleb = [&] {
    std::uint32_t value = 0;
    for (unsigned shift = 0; shift < 35; shift += 7) {
      if (used == got) {
        used = 0;
        const std::uint64_t left = at < bytes_ ? bytes_ - at : 0;
        got = file_->read_some(offset_ + at, std::span(bytes).first(static_cast<std::size_t>(
                                                 std::min<std::uint64_t>(bytes.size(), left))));
        at += got;
      }
      if (got == 0) break;
      const auto byte = static_cast<std::uint32_t>(bytes[used++]);
      if (shift < 32) value |= (byte & 0x7f) << shift;
      if (byte < 0x80) return value;
    }
    failed = true;
    return value;
  };
  Address from = function.start;
  std::uint32_t depth = ~0U;
  while (from < function.end) {
    const std::uint32_t change = uleb();
    if (failed || (change == 0 && from != function.start)) return;
    depth += change & 1 ? ~(change >> 1) : change >> 1;
    const std::uint64_t code = std::uint64_t{uleb()} * quantum_;
    if (failed || code == 0) return;
    const Address to = std::min(from + code, function.end);
    if (!visit(from, to, static_cast<std::int32_t>(depth))) return;
    from = to;
  }
}

void visit_go_functions(Memory& file, const File& elf, const VisitGoFunction& visit) {
  const Section* section = go_table_of(elf);
  if (section == nullptr) return;
  auto read = read_section(file, elf, *section, max_go_table);
  if (!read) return;
  // All of it is read at once, and the rest of the file is as before.
  class TableMemory final : public Memory {
   public:
    TableMemory(Memory& file, std::vector<std::byte> table, std::uint64_t start)
        : file_(file), size_(table.size()), start_(start), table_(std::move(table), start) {}
    void read(std::span<ReadRequest> requests) override {
      for (ReadRequest& request : requests)
        request.address - start_ < size_ ? table_.read({&request, 1}) : file_.read({&request, 1});
    }

   private:
    Memory& file_;
    std::uint64_t size_, start_;
    ByteMemory table_;
  };
  TableMemory memory(file, std::move(read->bytes), section->offset);
  auto table = GoFunctions::open(memory, elf);
  if (!table) return;
  for (std::uint64_t number = 0; number < table->size(); ++number) {
    const auto function = table->at(number);
    if (!function) return;
    const std::string name = table->name(*function);
    if (!name.empty()) visit(function->start, name);
  }
}

}  // namespace vitrine::elf
