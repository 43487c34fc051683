// pack: values as bytes and back, for two processes of one program (src/sandbox/worker.hpp). Numbers are as the
// machine has them; strings and lists have their count before them.
//
// What comes back may be a lie: the other process reads untrusted files. Whatever the bytes
// are, unpacking ends, takes memory in proportion to them, and gives an error or a value whose
// booleans and enumerations are among those there are. The code that uses a value
// checks what else must hold of it.
//
// A structure is packed by its fields, which it lists once, beside it:
//
//   template <pack::Of<Point> T>
//   auto fields(T& point) {
//     auto& [x, y] = point;  // a field that is added and not packed does not compile
//     return std::tie(x, y);
//   }
//
// and an enumeration by its last value: `constexpr Colour last(Colour) { return Colour::blue; }`.
#pragma once

#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/machine.hpp"
#include "base/result.hpp"

namespace vitrine::pack {

/// A structure, to be read or to be written.
template <class T, class Wanted>
concept Of = std::same_as<std::remove_const_t<T>, Wanted>;

/// Kept as the bytes that it has.
template <class T>
concept Plain = (std::is_arithmetic_v<T> && !std::same_as<T, bool>) || std::same_as<T, std::byte>;

template <class T>
concept Structure = requires(T& value) {
  fields(value);
};

class Writer {
 public:
  template <Plain T>
  void put(const T& value) {
    append(&value, sizeof value);
  }
  void put(bool value) { put(static_cast<std::uint8_t>(value)); }
  template <class T>
  requires(std::is_enum_v<T> && !Plain<T>) void put(T value) {
    put(static_cast<std::underlying_type_t<T>>(value));
  }
  void put(const std::string& text) {
    put(static_cast<std::uint32_t>(text.size()));
    append(text.data(), text.size());
  }
  template <class T>
  void put(const std::vector<T>& list) {
    put(static_cast<std::uint32_t>(list.size()));
    if constexpr (Plain<T>)
      append(list.data(), list.size() * sizeof(T));
    else
      for (const T& one : list) put(one);
  }
  template <class T, std::size_t Size>
  void put(const std::array<T, Size>& all) {
    for (const T& one : all) put(one);
  }
  template <class T>
  void put(const std::optional<T>& value) {
    put(value.has_value());
    if (value) put(*value);
  }
  template <class T, class E>
  void put(const tl::expected<T, E>& value) {
    put(value.has_value());
    value ? put(*value) : put(value.error());
  }
  template <Structure T>
  void put(const T& value) {
    std::apply([&](const auto&... field) { (put(field), ...); }, fields(value));
  }

  std::vector<std::byte> bytes;

 private:
  void append(const void* data, std::size_t size) {
    if (size == 0) return;
    const std::size_t at = bytes.size();
    bytes.resize(at + size);
    std::memcpy(bytes.data() + at, data, size);
  }
};

class Reader {
 public:
  explicit Reader(std::span<const std::byte> bytes) : rest_(bytes) {}

  template <Plain T>
  void get(T& value) {
    take(&value, sizeof value);
  }
  void get(bool& value) {
    std::uint8_t byte = 0;
    get(byte);
    broken_ = broken_ || byte > 1;
    value = byte == 1;
  }
  template <class T>
  requires(std::is_enum_v<T> && !Plain<T>) void get(T& value) {
    using Number = std::underlying_type_t<T>;
    static_assert(std::is_unsigned_v<Number> || std::same_as<Number, int>);
    Number number{};
    get(number);
    broken_ = broken_ || std::cmp_less(number, 0) ||
              std::cmp_greater(number, static_cast<Number>(last(T{})));
    if (!broken_) value = static_cast<T>(number);
  }
  void get(std::string& text) {
    text.resize(count(1));
    take(text.data(), text.size());
  }
  template <class T>
  void get(std::vector<T>& list) {
    list.clear();
    if constexpr (Plain<T>) {
      list.resize(count(sizeof(T)));
      take(list.data(), list.size() * sizeof(T));
    } else {
      // One after the other: a large count costs nothing before its elements are there.
      for (std::size_t n = count(1); n > 0 && !broken_; --n) get(list.emplace_back());
    }
  }
  template <class T, std::size_t Size>
  void get(std::array<T, Size>& all) {
    for (T& one : all) get(one);
  }
  template <class T>
  void get(std::optional<T>& value) {
    bool there = false;
    get(there);
    value.reset();
    if (there) get(value.emplace());
  }
  template <class T, class E>
  void get(tl::expected<T, E>& value) {
    bool there = false;
    get(there);
    if (there) {
      value = T{};
      get(*value);
    } else {
      E error{};
      get(error);
      value = tl::unexpected<E>(std::move(error));
    }
  }
  template <Structure T>
  void get(T& value) {
    std::apply([&](auto&... field) { (get(field), ...); }, fields(value));
  }

  /// Whether all that was read was there, made sense, and was all there is.
  [[nodiscard]] bool complete() const { return !broken_ && rest_.empty(); }
  [[nodiscard]] bool broken() const { return broken_; }

 private:
  /// How many elements follow, of `size` bytes each at least.
  std::size_t count(std::size_t size) {
    std::uint32_t number = 0;
    get(number);
    if (number > rest_.size() / size) broken_ = true;
    return broken_ ? 0 : number;
  }
  void take(void* to, std::size_t size) {
    if (size > rest_.size()) broken_ = true;
    if (broken_ || size == 0) return;
    std::memcpy(to, rest_.data(), size);
    rest_ = rest_.subspan(size);
  }

  std::span<const std::byte> rest_;
  bool broken_ = false;
};

template <class T>
std::vector<std::byte> pack(const T& value) {
  Writer writer;
  writer.put(value);
  return std::move(writer.bytes);
}

/// Errors: malformed.
template <class T>
Result<T> unpack(std::span<const std::byte> bytes) {
  Reader reader(bytes);
  T value{};
  reader.get(value);
  if (!reader.complete()) return fail(ErrorCode::malformed, "invalid packed value");
  return value;
}

}  // namespace vitrine::pack

namespace vitrine {

constexpr ErrorCode last(ErrorCode) {
  return ErrorCode::another_program;
}
constexpr Machine last(Machine) {
  return Machine::other;
}

template <pack::Of<Error> T>
auto fields(T& error) {
  auto& [code, message, remedy] = error;
  return std::tie(code, message, remedy);
}

}  // namespace vitrine
