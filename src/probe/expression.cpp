#include "probe/expression.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <charconv>

#include "base/limits.hpp"
#include "probe/evaluate.hpp"
#include "probe/x86.hpp"

namespace vitrine::probe {
namespace {

struct RelocationName {
  std::string_view name;
  SymbolPart part;
};
constexpr RelocationName relocations[] = {
    {"GOTPCREL", SymbolPart::got_slot},    {"GOT", SymbolPart::got_slot_bias},
    {"GOTOFF", SymbolPart::got_bias},      {"TPOFF", SymbolPart::thread_offset},
    {"NTPOFF", SymbolPart::thread_offset},
};

/// Recursive descent. Every step that goes deeper is counted.
class Expression {
 public:
  explicit Expression(Cursor& cursor) : cursor_(cursor) {}

  Parsed<Sum> sum() {
    auto left = product();
    while (left) {
      cursor_.skip_blanks();
      const char sign = cursor_.peek();
      if (sign != '+' && sign != '-') break;
      cursor_.skip(1);
      auto right = TRY(product());
      left = add(*left, right, sign == '-');
    }
    return left;
  }

 private:
  static Parsed<Sum> add(Sum left, const Sum& right, bool negative) {
    if (right.symbol && (left.symbol || negative))
      return unsupported("a difference or sum of symbols: its value is not in the file");
    if (right.symbol) left.symbol = right.symbol;
    left.value += negative ? 0 - right.value : right.value;
    left.beyond_i64 = left.beyond_i64 || right.beyond_i64;
    return left;
  }

  Parsed<Sum> product() {
    auto left = unary();
    while (left) {
      cursor_.skip_blanks();
      const std::string_view rest = cursor_.rest();
      std::string_view sign = rest.substr(0, 1);
      if (rest.starts_with("<<") || rest.starts_with(">>")) sign = rest.substr(0, 2);
      if (sign.empty() || std::string_view("*/&|^<>").find(sign[0]) == std::string_view::npos ||
          sign == "<" || sign == ">")
        break;
      cursor_.skip(sign.size());
      auto right = TRY(unary());
      left = combine(*left, right, sign);
    }
    return left;
  }

  static Parsed<Sum> combine(const Sum& left, const Sum& right, std::string_view sign) {
    if (left.symbol || right.symbol)
      return unsupported("arithmetic with a symbol other than + and -");
    const std::uint64_t a = left.value, b = right.value;
    Sum sum;
    switch (sign[0]) {
      case '*':
        sum.value = a * b;
        break;
      case '/':
        if (b == 0) return syntax_error("a division by zero");
        sum.value = static_cast<std::uint64_t>(
            b == UINT64_MAX ? 0 - a
                            : static_cast<std::uint64_t>(static_cast<std::int64_t>(a) /
                                                         static_cast<std::int64_t>(b)));
        break;
      case '&':
        sum.value = a & b;
        break;
      case '|':
        sum.value = a | b;
        break;
      case '^':
        sum.value = a ^ b;
        break;
      case '<':
        sum.value = b < 64 ? a << b : 0;
        break;
      default:
        sum.value = b < 64 ? a >> b : 0;
        break;
    }
    return sum;
  }

  Parsed<Sum> unary() {
    if (++depth_ > limits::argument_depth)
      return syntax_error(
          fmt::format("it is nested more than {} levels deep", limits::argument_depth));
    cursor_.skip_blanks();
    auto result = [&]() -> Parsed<Sum> {
      const char sign = cursor_.peek();
      if (sign != '-' && sign != '~' && sign != '+') return primary();
      cursor_.skip(1);
      auto operand = unary();
      if (!operand || sign == '+') return operand;
      if (operand->symbol) return unsupported("a negated symbol");
      operand->value = sign == '-' ? 0 - operand->value : ~operand->value;
      operand->beyond_i64 = false;
      return operand;
    }();
    --depth_;
    return result;
  }

  Parsed<Sum> primary() {
    if (cursor_.take("(")) {
      auto inner = sum();
      if (inner && !cursor_.take(")")) return syntax_error("missing closing parenthesis");
      return inner;
    }
    Sum sum;
    if (Cursor::is_digit(cursor_.peek())) {
      const auto number = TRY(take_number(cursor_));
      sum.value = number;
      sum.beyond_i64 = number > INT64_MAX;
      return sum;
    }
    sum.symbol = TRY(take_symbol());
    return sum;
  }

  Parsed<SymbolUse> take_symbol() {
    SymbolUse use;
    if (cursor_.take("\"")) {
      const std::size_t end = cursor_.rest().find('"');
      if (end == std::string_view::npos) return syntax_error("missing closing quote");
      use.name = cursor_.rest().substr(0, end);
      cursor_.skip(end + 1);
    } else {
      use.name = cursor_.take_name();
    }
    if (use.name.empty())
      return cursor_.done() ? syntax_error("it ends where a number or a symbol was expected")
                            : syntax_error(fmt::format("{} is neither a number nor a symbol",
                                                       quoted(cursor_.rest())));
    if (use.name.size() > limits::name_bytes)
      return syntax_error(fmt::format("a symbol name of {} bytes", use.name.size()));
    if (!cursor_.take("@")) return use;
    for (const RelocationName& relocation : relocations)
      if (cursor_.take_word(relocation.name)) {
        use.part = relocation.part;
        return use;
      }
    return unsupported(
        fmt::format("@{} of the symbol {}", quoted(cursor_.rest()), quoted(use.name)));
  }

  Cursor& cursor_;
  std::size_t depth_ = 0;
};

}  // namespace

Parsed<Sum> take_expression(Cursor& cursor) {
  return Expression(cursor).sum();
}

Parsed<std::uint64_t> take_number(Cursor& cursor) {
  cursor.skip_blanks();
  std::string_view text = cursor.rest();
  int base = 10;
  std::size_t prefix = 0;
  if (text.starts_with("0x") || text.starts_with("0X")) {
    base = 16;
    prefix = 2;
  } else if (text.starts_with('0')) {
    base = 8;
  }
  std::uint64_t number = 0;
  const auto [end, error] =
      std::from_chars(text.data() + prefix, text.data() + text.size(), number, base);
  const auto size = static_cast<std::size_t>(end - text.data());
  if (error == std::errc::result_out_of_range)
    return syntax_error(fmt::format("{} does not fit into 64 bits", quoted(text.substr(0, size))));
  if (error != std::errc() || (size < text.size() && Cursor::is_name(text[size])))
    return syntax_error(fmt::format("{} is not a number", quoted(text)));
  cursor.skip(size);
  return number;
}

std::optional<double> take_real(Cursor& cursor) {
  cursor.skip_blanks();
  const std::string_view text = cursor.rest();
  const std::size_t digits = text.find_first_not_of("+-");
  if (digits > 1 || !Cursor::is_digit(text[digits])) return std::nullopt;
  const std::size_t end = std::min(text.find_first_not_of("0123456789", digits), text.size());
  if (end == text.size() || (text[end] != '.' && text[end] != 'e' && text[end] != 'E'))
    return std::nullopt;
  double value = 0;
  const std::size_t plus = text[0] == '+' ? 1 : 0;  // from_chars knows no plus
  const auto [stop, error] = std::from_chars(text.data() + plus, text.data() + text.size(), value);
  if (error != std::errc()) return std::nullopt;
  cursor.skip(static_cast<std::size_t>(stop - text.data()));
  return value;
}

std::string quoted(std::string_view text) {
  constexpr std::size_t most = 40;
  std::string out = "`";
  for (const char c : text.substr(0, most))
    if (c >= ' ' && c <= '~')
      out += c;
    else
      out += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
  return out + (text.size() > most ? "…`" : "`");
}

namespace {

bool is_x86(Machine machine) {
  return machine == Machine::x86_64 || machine == Machine::i386;
}

std::uint8_t word_bytes(Machine machine) {
  return machine == Machine::i386 || machine == Machine::arm ? 4 : 8;
}

/// How many bytes a floating-point number of `bytes` has, in the format it is stored in.
Parsed<std::uint32_t> float_bytes(std::uint32_t bytes, Machine machine) {
  switch (bytes) {
    case 2:
    case 4:
    case 8:
      return bytes;
    case 10:
    case 12:
    case 16:
      // The rest is padding. (A __float128 of x86 is written the same, and taken for one of these.)
      if (is_x86(machine)) return 10;
      if (bytes == 16 && machine != Machine::ppc64) return 16;
      return unsupported(fmt::format("a floating-point number of {} bytes", bytes));
    default:
      return syntax_error(fmt::format("a floating-point number of {} bytes", bytes));
  }
}

/// The register with the rest of a value that begins in `low`.
std::optional<std::uint8_t> high_half(std::uint8_t low, Machine machine) {
  if (is_x86(machine)) return x86_high_half(low);
  const unsigned last = machine == Machine::aarch64 ? 30 : machine == Machine::arm ? 12 : 31;
  if (low >= last) return std::nullopt;
  return static_cast<std::uint8_t>(low + 1);
}

class Lowering {
 public:
  Lowering(const OperandText& text, Machine machine, Address address, OperandSymbols* symbols)
      : text_(text), machine_(machine), address_(address), symbols_(symbols) {
    operand_.base = operand_.index = VITRINE_NO_REGISTER;
  }

  Parsed<vitrine_operand> lower(std::optional<ArgumentSize> size) {
    TRY(set_size(size));
    Parsed<void> done;
    switch (text_.kind) {
      case OperandText::Kind::constant:
      case OperandText::Kind::real:
        done = constant();
        break;
      case OperandText::Kind::value:
        done = in_register();
        break;
      case OperandText::Kind::memory:
        done = in_memory();
        break;
    }
    TRY(done);
    return operand_;
  }

 private:
  Parsed<void> set_size(std::optional<ArgumentSize> size) {
    bytes_ = size                                                   ? size->bytes
             : text_.base && text_.kind == OperandText::Kind::value ? text_.base->bytes
                                                                    : word_bytes(machine_);
    if (size && size->is_signed) operand_.flags |= VITRINE_SIGNED;
    if (size && size->is_float) {
      operand_.flags |= VITRINE_FLOAT;
      bytes_ = TRY(float_bytes(bytes_, machine_));
    }
    if (bytes_ > VITRINE_OPERAND_BYTES) operand_.flags |= VITRINE_CUT;
    operand_.size =
        static_cast<std::uint8_t>(std::min<std::uint32_t>(bytes_, VITRINE_OPERAND_BYTES));
    return {};
  }

  Parsed<void> constant() {
    operand_.kind = VITRINE_CONSTANT;
    const bool is_float = (operand_.flags & VITRINE_FLOAT) != 0;
    // x86 writes the bits of floating-point constants, others the number.
    if (text_.kind == OperandText::Kind::real || (is_float && !is_x86(machine_)))
      return real_constant();
    if (bytes_ > 16 || (is_float && bytes_ > 8) || (bytes_ > 8 && text_.sum.beyond_i64))
      return unsupported(fmt::format("a constant of {} bytes", bytes_));
    operand_.displacement = text_.sum.value;
    return text_.sum.symbol ? add_symbol(!text_.thread_pointer) : Parsed<void>{};
  }

  Parsed<void> real_constant() {
    const double value = text_.kind == OperandText::Kind::real
                             ? text_.real
                             : static_cast<double>(static_cast<std::int64_t>(text_.sum.value));
    if (text_.sum.symbol) return unsupported("the address of a symbol as a floating-point number");
    if (bytes_ != 2 && bytes_ != 4 && bytes_ != 8)
      return unsupported(fmt::format("a floating-point constant of {} bytes", bytes_));
    operand_.flags |= VITRINE_FLOAT;
    operand_.displacement = bytes_ == 8   ? std::bit_cast<std::uint64_t>(value)
                            : bytes_ == 4 ? std::bit_cast<std::uint32_t>(static_cast<float>(value))
                                          : half_of_double(value);
    return {};
  }

  Parsed<void> in_register() {
    const Register& found = *text_.base;
    operand_.kind = VITRINE_REGISTER;
    operand_.base = found.number;
    operand_.shift = found.shift;
    if (found.shift != 0) {  // nothing above the second byte is the value's
      operand_.size = 1;
      return {};
    }
    // A value may be wider than the register's name: then the whole register has it.
    const std::uint32_t word = word_bytes(machine_);
    if (bytes_ <= word) return {};
    if (bytes_ > 2 * word)
      return unsupported(fmt::format("a value of {} bytes, in more than two registers", bytes_));
    const auto high = high_half(found.number, machine_);
    if (!high)
      return unsupported(fmt::format("a value of {} bytes: no register follows its first", bytes_));
    operand_.index = *high;
    if (word == 4) operand_.flags |= VITRINE_ADDRESS_32;
    return {};
  }

  Parsed<void> in_memory() {
    operand_.kind = VITRINE_MEMORY;
    operand_.displacement = text_.sum.value;
    operand_.scale = text_.scale;
    operand_.extend = text_.extend;
    if (text_.base) operand_.base = text_.base->number;
    if (text_.index) operand_.index = text_.index->number;
    const auto narrow = [](const std::optional<Register>& one) { return one && one->bytes == 4; };
    const bool narrow_index = narrow(text_.index) && text_.extend == VITRINE_EXTEND_NONE;
    if (word_bytes(machine_) == 4 || narrow(text_.base) || narrow_index) {
      operand_.flags |= VITRINE_ADDRESS_32;
      if (word_bytes(machine_) == 8 && text_.thread_pointer)
        return unsupported("a 32-bit address in the thread's segment");
    }
    if (text_.extend == VITRINE_EXTEND_NONE &&
        ((text_.base && text_.base->bytes < 4) || (text_.index && text_.index->bytes < 4)))
      return syntax_error("an address in a register of less than 32 bits");
    if (text_.thread_pointer && !add_register(VITRINE_THREAD_POINTER))
      return unsupported("an address of two registers in the thread's segment");
    if (text_.sum.symbol) return add_symbol(true);
    return {};
  }

  /// Adds an unscaled register to the address. False: there is no place left.
  bool add_register(std::uint8_t number) {
    if (operand_.base == VITRINE_NO_REGISTER) {
      operand_.base = number;
      return true;
    }
    if (operand_.index != VITRINE_NO_REGISTER) return false;
    operand_.index = number;
    operand_.scale = 0;
    operand_.extend = VITRINE_EXTEND_NONE;
    return true;
  }

  /// Adds the value of a symbol. `placed`: an address is where the file was loaded, so relative
  /// to the probe.
  Parsed<void> add_symbol(bool placed) {
    const SymbolUse& use = *text_.sum.symbol;
    if (symbols_ == nullptr)
      return tl::unexpected<ArgumentError>(
          {ArgumentError::Kind::unresolved,
           fmt::format("the symbol {} is not looked up", quoted(use.name))});
    auto value = find(use);
    if (!value && use.part == SymbolPart::got_slot && text_.sum.value == 0) {
      // Nothing but the argument's text needed the word, so there is none: what it would hold.
      value = symbols_->address(use.name);
      operand_.kind = VITRINE_CONSTANT;
    }
    operand_.displacement += TRY(std::move(value));
    const bool is_address = use.part == SymbolPart::address || use.part == SymbolPart::got_slot;
    if (!is_address || !placed) return {};
    if (use.part == SymbolPart::got_slot && !text_.symbol_is_place)
      return syntax_error("a word of the global offset table that is not relative to the code");
    // With two registers beside the symbol, it is a number in the instruction: such code is not
    // moved.
    if (add_register(VITRINE_PROBE_ADDRESS)) operand_.displacement -= address_;
    return {};
  }

  Parsed<std::uint64_t> find(const SymbolUse& use) {
    switch (use.part) {
      case SymbolPart::address:
        return symbols_->address(use.name);
      case SymbolPart::got_slot:
        return symbols_->got_slot(use.name);
      case SymbolPart::thread_offset:
        return symbols_->thread_offset(use.name).map(
            [](std::int64_t offset) { return static_cast<std::uint64_t>(offset); });
      case SymbolPart::got_bias:
      case SymbolPart::got_slot_bias:
        break;
    }
    auto table = TRY(symbols_->address("_GLOBAL_OFFSET_TABLE_"));
    const auto value = use.part == SymbolPart::got_bias ? symbols_->address(use.name)
                                                        : symbols_->got_slot(use.name);
    return value.map([&](Address found) { return found - table; });
  }

  const OperandText& text_;
  Machine machine_;
  Address address_;
  OperandSymbols* symbols_;
  std::uint32_t bytes_ = 0;
  vitrine_operand operand_{};
};

}  // namespace

Parsed<vitrine_operand> lower(const OperandText& text, std::optional<ArgumentSize> size,
                              Machine machine, Address address, OperandSymbols* symbols) {
  return Lowering(text, machine, address, symbols).lower(size);
}

}  // namespace vitrine::probe
