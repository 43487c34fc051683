#include "unwind/cfi.hpp"

#include <dwarf.h>

#include <algorithm>
#include <string_view>
#include <utility>

#include "base/limits.hpp"

namespace vitrine::unwind {
namespace {

constexpr std::size_t index_chunk = 1U << 20;
constexpr std::size_t kept_commons = 256;  // of a file; linkers leave a few

/// The letters after 'z', each with its data (LSB 5.0, 10.6.1.1.1). False: an unknown one.
bool read_augmentation(std::string_view letters, Cursor data, CommonEntry& entry) {
  for (const char letter : letters.substr(1)) {
    switch (letter) {
      case 'R':
        entry.pointer_encoding = data.u8();
        break;
      case 'L':
        data.u8();
        break;
      case 'P': {
        const std::uint8_t encoding = data.u8();
        if (encoding != pointer_omitted && !read_number(data, encoding)) return false;
        break;
      }
      case 'S':
        entry.is_signal = true;
        break;
      case 'B':  // aarch64: return addresses are signed with the B key
      case 'G':  // aarch64: memory tagging of the stack
        break;
      default:
        return false;
    }
  }
  return !data.failed();
}

/// Calls take(start of the code, address of the entry) for each row of .eh_frame_hdr's table, which is `size` bytes at
/// `offset` of the Memory, and at `address` in the file's own address space. It may not be sorted. Of none, if it is not
/// in the one encoding that linkers write.
template <class Take>
void visit_frame_index(Memory& memory, std::uint64_t offset, std::uint64_t size, Address address,
                       const Take& take) {
  // Version, then the encodings of: the pointer to .eh_frame, the count, the table.
  constexpr std::byte known[] = {std::byte{1}, std::byte{0x1b}, std::byte{0x03}, std::byte{0x3b}};
  constexpr std::size_t row_bytes = 8;
  std::byte head[12];
  if (size < sizeof head || memory.read_some(offset, head) != sizeof head) return;
  if (!std::equal(std::begin(known), std::end(known), head)) return;
  Cursor cursor{std::span(head).subspan(8)};
  const std::uint64_t count = std::min<std::uint64_t>(
      {cursor.number<std::uint32_t>(), (size - sizeof head) / row_bytes, limits::cfi_entries});
  std::vector<std::byte> chunk;
  for (std::uint64_t n = 0; n < count; n += chunk.size() / row_bytes) {
    chunk.resize(std::min<std::size_t>(static_cast<std::size_t>(count - n) * row_bytes,
                                       index_chunk / row_bytes * row_bytes));
    const std::size_t got = memory.read_some(offset + sizeof head + n * row_bytes, chunk);
    chunk.resize(got / row_bytes * row_bytes);
    if (chunk.empty()) return;
    for (Cursor row(chunk); !row.at_end();) {
      const Address start = address + static_cast<std::uint64_t>(row.number<std::int32_t>());
      take(start, address + static_cast<std::uint64_t>(row.number<std::int32_t>()));
    }
  }
}

}  // namespace

std::vector<std::byte> CfiSection::bytes(std::uint64_t from, std::uint64_t to) {
  std::vector<std::byte> bytes(static_cast<std::size_t>(to - from));
  bytes.resize(memory_->read_some(place_.offset + from, bytes));
  return bytes;
}

std::optional<CfiSection::Raw> CfiSection::header(std::uint64_t position) {
  if (position >= place_.size) return std::nullopt;
  std::byte buffer[20];
  const std::uint64_t most = std::min<std::uint64_t>(sizeof buffer, place_.size - position);
  const std::size_t got = memory_->read_some(place_.offset + position,
                                             std::span(buffer, static_cast<std::size_t>(most)));
  Cursor cursor(std::span(buffer, got));
  Raw raw;
  std::uint64_t length = cursor.number<std::uint32_t>();
  const bool is_wide = length == 0xffff'ffff;
  if (is_wide) length = cursor.number<std::uint64_t>();
  raw.id_at = position + cursor.position();
  raw.is_end = length == 0;
  if (cursor.failed() || length > place_.size - raw.id_at) return std::nullopt;
  raw.next = raw.id_at + length;
  if (raw.is_end) return raw;
  // Only .debug_frame has ids as wide as lengths.
  const bool wide_id = is_wide && place_.is_debug;
  raw.id = wide_id ? cursor.number<std::uint64_t>() : cursor.number<std::uint32_t>();
  raw.body_at = position + cursor.position();
  if (cursor.failed() || raw.body_at > raw.next) return std::nullopt;
  raw.is_common =
      place_.is_debug ? raw.id == (wide_id ? ~std::uint64_t{0} : 0xffff'ffff) : raw.id == 0;
  return raw;
}

std::optional<CommonEntry> CfiSection::read_common(const Raw& raw) {
  if (!raw.is_common || raw.next - raw.body_at > limits::cfi_entry_bytes) return std::nullopt;
  const std::vector<std::byte> body = bytes(raw.body_at, raw.next);
  Cursor cursor(body);
  const std::uint8_t version = cursor.u8();
  if (version != 1 && version != 3 && version != 4) return std::nullopt;
  const auto* letters = reinterpret_cast<const char*>(body.data()) + cursor.position();
  std::size_t length = 0;
  while (cursor.u8() != 0) ++length;
  if (cursor.failed()) return std::nullopt;
  const std::string_view augmentation(letters, length);
  // In version 4, sizes of an address and of a segment selector.
  if (version == 4 && (cursor.u8() != 8 || cursor.u8() != 0)) return std::nullopt;
  CommonEntry entry;
  entry.code_alignment = cursor.uleb();
  entry.data_alignment = cursor.sleb();
  entry.result_column = version == 1 ? cursor.u8() : cursor.uleb();
  if (!augmentation.empty()) {
    if (augmentation[0] != 'z') return std::nullopt;
    entry.has_augmentation = true;
    const std::uint64_t size = cursor.uleb();
    if (!read_augmentation(augmentation, Cursor(cursor.take(size)), entry)) return std::nullopt;
  }
  const auto program = cursor.rest();
  if (cursor.failed()) return std::nullopt;
  entry.program.assign(program.begin(), program.end());
  return entry;
}

const CommonEntry* CfiSection::common(std::uint64_t position) {
  auto known = commons_.find(position);
  if (known == commons_.end()) {
    if (commons_.size() >= kept_commons) commons_.clear();
    const auto raw = header(position);
    known = commons_.emplace(position, raw ? read_common(*raw) : std::nullopt).first;
  }
  return known->second ? &*known->second : nullptr;
}

std::optional<FrameEntry> CfiSection::read_entry(const Raw& raw, bool with_program) {
  if (raw.is_common || raw.is_end) return std::nullopt;
  // From .eh_frame it is a distance backwards, in .debug_frame a position.
  if (!place_.is_debug && raw.id > raw.id_at) return std::nullopt;
  FrameEntry entry;
  entry.common = common(place_.is_debug ? raw.id : raw.id_at - raw.id);
  if (entry.common == nullptr) return std::nullopt;
  // Two addresses are 20 bytes at most, where LEB128 is not padded.
  const std::uint64_t size = raw.next - raw.body_at;
  if (with_program && size > limits::cfi_entry_bytes) return std::nullopt;
  const std::vector<std::byte> body =
      bytes(raw.body_at, with_program ? raw.next : raw.body_at + std::min<std::uint64_t>(size, 20));
  Cursor cursor(body);
  const std::uint8_t encoding = entry.common->pointer_encoding;
  const auto start = read_pointer(cursor, encoding, place_.address + raw.body_at);
  const auto length = read_number(cursor, encoding);
  if (!start || !length || cursor.failed()) return std::nullopt;
  entry.start = *start;
  entry.size = *length;
  if (!with_program) return entry;
  if (entry.common->has_augmentation) cursor.take(cursor.uleb());
  const auto program = cursor.rest();
  if (cursor.failed()) return std::nullopt;
  entry.program.assign(program.begin(), program.end());
  return entry;
}

void CfiSection::add(Address start, std::uint64_t position) {
  if (start < lowest_ || start - lowest_ > UINT32_MAX || position > UINT32_MAX) return;
  index_.push_back(
      {static_cast<std::uint32_t>(start - lowest_), static_cast<std::uint32_t>(position)});
}

bool CfiSection::use_index(std::uint64_t offset, std::uint64_t size, Address address) {
  bool is_first = true;
  visit_frame_index(*memory_, offset, size, address, [&](Address start, Address entry) {
    if (std::exchange(is_first, false)) lowest_ = start;
    if (entry - place_.address < place_.size) add(start, entry - place_.address);
  });
  // What is not sorted would be searched in vain.
  const auto lower = [](const Indexed& a, const Indexed& b) { return a.start < b.start; };
  if (!std::is_sorted(index_.begin(), index_.end(), lower)) index_.clear();
  return !index_.empty();
}

void CfiSection::make_index() {
  index_.clear();
  std::vector<std::pair<Address, std::uint64_t>> found;
  std::uint64_t position = 0;
  while (found.size() < limits::cfi_entries) {
    const auto raw = header(position);
    if (!raw) break;
    // Only .eh_frame ends with a zero; in .debug_frame it is padding.
    if (raw->is_end && !place_.is_debug) break;
    // Functions that the linker dropped are left at 0.
    if (const auto entry = read_entry(*raw, false); entry && entry->start != 0 && entry->size != 0)
      found.emplace_back(entry->start, position);
    position = raw->next;
  }
  std::sort(found.begin(), found.end());
  if (found.empty()) return;
  lowest_ = found.front().first;
  index_.reserve(found.size());
  for (const auto& [start, at] : found) add(start, at);
}

std::optional<std::size_t> CfiSection::position_of(Address address) const {
  if (address < lowest_ || address - lowest_ > UINT32_MAX) return std::nullopt;
  const auto wanted = static_cast<std::uint32_t>(address - lowest_);
  const auto after = std::upper_bound(
      index_.begin(), index_.end(), wanted,
      [](std::uint32_t start, const Indexed& entry) { return start < entry.start; });
  if (after == index_.begin()) return std::nullopt;
  return static_cast<std::size_t>(after - index_.begin()) - 1;
}

Address CfiSection::start_of(std::size_t position) const {
  return lowest_ + (position < index_.size() ? index_[position].start : UINT32_MAX);
}

std::optional<FrameEntry> CfiSection::entry_at(std::size_t position) {
  const auto raw = header(index_[position].position);
  return raw ? read_entry(*raw, true) : std::nullopt;
}

std::optional<FrameEntry> CfiSection::find(Address address) {
  const auto position = position_of(address);
  auto entry = position ? entry_at(*position) : std::nullopt;
  if (!entry || address - entry->start >= entry->size) return std::nullopt;
  return entry;
}

namespace {

using Kind = RegisterRule::Kind;

constexpr std::uint8_t negate_ra_state_with_pc = 0x2c;  // DW_CFA_AARCH64_*, newer than <dwarf.h>
constexpr std::uint8_t negate_ra_state = 0x2d;

/// Runs the program of a CIE, then that of an FDE, up to the row of an address.
class Interpreter {
 public:
  /// `passing`: gets the rules before that one; null: not wanted.
  Interpreter(const FrameEntry& entry, Address wanted, Machine machine, const TakeRule* passing)
      : common_(*entry.common),
        machine_(machine),
        at_(entry.start),
        wanted_(wanted),
        passing_(passing) {}

  /// Both programs. False: one is invalid before the address.
  bool run(const FrameEntry& entry) {
    if (!run(entry.common->program)) return false;
    initial_ = now_.registers;
    return run(entry.program);
  }

  [[nodiscard]] Address at() const { return at_; }

  /// The row that it has come to, without its expressions.
  [[nodiscard]] Row row() const;
  [[nodiscard]] Rule rule() const { return compact(row(), machine_); }
  std::vector<std::byte> take_expressions() { return std::move(expressions_); }

 private:
  using RuleArray = std::array<RegisterRule, register_count>;
  struct State {
    RegisterRule cfa;
    std::int64_t cfa_offset = 0;
    RuleArray registers;
  };

  bool run(std::span<const std::byte> program) {
    Cursor cursor(program);
    while (!cursor.at_end() && !arrived_)
      if (!step(cursor, cursor.u8())) return false;
    return !cursor.failed();
  }
  bool step(Cursor& cursor, std::uint8_t code);
  bool step_extended(Cursor& cursor, std::uint8_t code);

  bool advance(std::uint64_t delta) {
    const std::uint64_t distance = delta * common_.code_alignment;
    arrived_ = distance > wanted_ - at_;
    if (arrived_) return true;
    const Address start = at_;
    at_ += distance;
    return passing_ == nullptr || distance == 0 || (*passing_)(start, at_, rule());
  }

  /// Registers beyond those that we keep (vectors) have rules that are not needed.
  bool set(std::uint64_t number, Kind kind, std::int64_t value = 0, std::uint32_t size = 0) {
    if (number < register_count)
      now_.registers[static_cast<std::size_t>(number)] = {kind, size, value};
    return true;
  }
  bool set_offset(std::uint64_t number, Kind kind, std::uint64_t factored) {
    return set(number, kind, scaled(factored));
  }
  bool restore(std::uint64_t number) {
    if (number < register_count)
      now_.registers[static_cast<std::size_t>(number)] = initial_[static_cast<std::size_t>(number)];
    return true;
  }
  bool set_expression(std::uint64_t number, Kind kind, Cursor& cursor) {
    const RegisterRule rule = expression(kind, cursor);
    return set(number, rule.kind, rule.value, rule.size);
  }
  RegisterRule expression(Kind kind, Cursor& cursor) {
    const auto bytes = cursor.take(cursor.uleb());
    const auto start = static_cast<std::int64_t>(expressions_.size());
    expressions_.insert(expressions_.end(), bytes.begin(), bytes.end());
    return {kind, static_cast<std::uint32_t>(bytes.size()), start};
  }
  bool set_cfa(std::uint64_t number, std::int64_t offset) {
    const bool known = number < register_count;
    now_.cfa = {known ? Kind::in_register : Kind::undefined, 0,
                known ? static_cast<std::int64_t>(number) : 0};
    now_.cfa_offset = offset;
    return true;
  }
  [[nodiscard]] std::int64_t scaled(std::uint64_t factored) const {
    return static_cast<std::int64_t>(factored * static_cast<std::uint64_t>(common_.data_alignment));
  }

  const CommonEntry& common_;
  Machine machine_;
  Address at_;
  Address wanted_;
  const TakeRule* passing_;
  bool arrived_ = false;
  State now_;
  RuleArray initial_;
  std::vector<State> remembered_;
  std::vector<std::byte> expressions_;
};

bool Interpreter::step(Cursor& cursor, std::uint8_t code) {
  const std::uint64_t operand = code & 0x3f;
  switch (code & 0xc0) {
    case DW_CFA_advance_loc:
      return advance(operand);
    case DW_CFA_offset:
      return set_offset(operand, Kind::at_cfa, cursor.uleb());
    case DW_CFA_restore:
      return restore(operand);
    default:
      return step_extended(cursor, code);
  }
}

// An operand that is read before another is a statement of its own: arguments have no order.
bool Interpreter::step_extended(Cursor& cursor, std::uint8_t code) {
  const auto number = [&] { return cursor.uleb(); };
  const auto factored = [&] { return static_cast<std::uint64_t>(cursor.sleb()); };
  std::uint64_t r = 0;
  switch (code) {
    case DW_CFA_nop:
      return true;
    case DW_CFA_set_loc: {
      // Its place in the section is not known here, and no compiler for these machines writes it.
      return false;
    }
    case DW_CFA_advance_loc1:
      return advance(cursor.u8());
    case DW_CFA_advance_loc2:
      return advance(cursor.number<std::uint16_t>());
    case DW_CFA_advance_loc4:
      return advance(cursor.number<std::uint32_t>());
    case DW_CFA_offset_extended:
      r = number();
      return set_offset(r, Kind::at_cfa, number());
    case DW_CFA_offset_extended_sf:
      r = number();
      return set_offset(r, Kind::at_cfa, factored());
    case DW_CFA_GNU_negative_offset_extended:
      r = number();
      return set_offset(r, Kind::at_cfa, 0 - number());
    case DW_CFA_val_offset:
      r = number();
      return set_offset(r, Kind::cfa_plus, number());
    case DW_CFA_val_offset_sf:
      r = number();
      return set_offset(r, Kind::cfa_plus, factored());
    case DW_CFA_restore_extended:
      return restore(number());
    case DW_CFA_undefined:
      return set(number(), Kind::undefined);
    case DW_CFA_same_value:
      return set(number(), Kind::same);
    case DW_CFA_register: {
      r = number();
      const std::uint64_t from = number();
      return from < register_count ? set(r, Kind::in_register, static_cast<std::int64_t>(from))
                                   : set(r, Kind::undefined);
    }
    case DW_CFA_expression:
      r = number();
      return set_expression(r, Kind::at_expression, cursor);
    case DW_CFA_val_expression:
      r = number();
      return set_expression(r, Kind::expression, cursor);
    case DW_CFA_def_cfa:
      r = number();
      return set_cfa(r, static_cast<std::int64_t>(number()));
    case DW_CFA_def_cfa_sf:
      r = number();
      return set_cfa(r, scaled(factored()));
    case DW_CFA_def_cfa_register:
      return now_.cfa.kind == Kind::in_register && set_cfa(number(), now_.cfa_offset);
    case DW_CFA_def_cfa_offset:
      now_.cfa_offset = static_cast<std::int64_t>(number());
      return true;
    case DW_CFA_def_cfa_offset_sf:
      now_.cfa_offset = scaled(factored());
      return true;
    case DW_CFA_def_cfa_expression:
      now_.cfa = expression(Kind::expression, cursor);
      now_.cfa_offset = 0;
      return true;
    case DW_CFA_remember_state:
      if (remembered_.size() >= limits::cfi_states) return false;
      remembered_.push_back(now_);
      return true;
    case DW_CFA_restore_state:
      if (remembered_.empty()) return false;
      now_ = remembered_.back();
      remembered_.pop_back();
      return true;
    case DW_CFA_GNU_args_size:
      number();
      return true;
    case negate_ra_state:
    case negate_ra_state_with_pc:
      return machine_ == Machine::aarch64;  // code_address takes signatures off anyway
    default:
      return false;
  }
}

Row Interpreter::row() const {
  Row row;
  row.cfa = now_.cfa;
  row.cfa_offset = now_.cfa_offset;
  row.registers = now_.registers;
  row.is_signal = common_.is_signal;
  const auto column = static_cast<std::size_t>(common_.result_column);
  if (const std::size_t usual = roles_of(machine_).result; column != usual) {
    // A few functions of C libraries are called with the return address elsewhere.
    RegisterRule rule = row.registers[column];
    if (rule.kind == Kind::unspecified || rule.kind == Kind::same)
      rule = {Kind::in_register, 0, static_cast<std::int64_t>(column)};
    row.registers[usual] = rule;
  }
  return row;
}

}  // namespace

std::optional<Row> row_at(const FrameEntry& entry, Address address, Machine machine) {
  if (entry.common->result_column >= register_count) return std::nullopt;
  Interpreter interpreter(entry, address, machine, nullptr);
  if (!interpreter.run(entry)) return std::nullopt;
  Row row = interpreter.row();
  row.expressions = interpreter.take_expressions();
  return row;
}

void rules_of(const FrameEntry& entry, Machine machine, const TakeRule& take) {
  if (entry.common->result_column >= register_count || entry.size == 0) return;
  const Address end = entry.start + entry.size;
  Interpreter interpreter(entry, end - 1, machine, &take);
  if (interpreter.run(entry)) take(interpreter.at(), end, interpreter.rule());
}

}  // namespace vitrine::unwind
