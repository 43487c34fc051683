// SPDX-License-Identifier: Apache-2.0
// What an argument is, in C++: the macros of sdt_types.h, and containers of characters and bytes.
#ifndef VITRINE_DETAIL_SDT_TYPES_HPP
#define VITRINE_DETAIL_SDT_TYPES_HPP

#pragma GCC system_header

extern "C++" {

#include <cstddef>
#include <type_traits>
#include <utility>

namespace vitrine {
namespace sdt {

// Everything here is for the compiler: no code comes of it.
#define VITRINE_TRANSPARENT __attribute__((always_inline, artificial)) inline

template <class T, bool = std::is_enum<T>::value>
struct HasSign
    : std::integral_constant<bool, std::is_signed<T>::value && !std::is_floating_point<T>::value> {
};
template <class T>
struct HasSign<T, true> : HasSign<typename std::underlying_type<T>::type> {};
#ifdef __SIZEOF_INT128__
__extension__ typedef __int128 Int128;
template <>
struct HasSign<Int128, false> : std::true_type {};
#endif

/// What is passed for an expression of decltype((expression)) T: for arrays and functions, their
/// address.
template <class T>
struct Passed {
  typedef typename std::decay<T>::type type;
  static constexpr int signed_size =
      HasSign<type>::value ? -static_cast<int>(sizeof(type)) : static_cast<int>(sizeof(type));
  typedef typename std::remove_reference<T>::type object;
  /// A scalar is passed as its value: no reference binds to a bit-field, nor with g++ to a field of a
  /// packed structure. An object of a class stays that object, because a copy may have side effects.
  /// (A bool as the byte that it is: clang 19 passes one bit of a bit-field, and what is beside it.)
  typedef typename std::conditional<
      std::is_scalar<type>::value,
      typename std::conditional<std::is_same<type, bool>::value, unsigned char, type>::type,
      typename std::conditional<std::is_lvalue_reference<T>::value, T,
                                typename std::conditional<std::is_class<type>::value, type&&,
                                                          type>::type>::type>::type operand;
};

#define VITRINE_IS_FLOATING(x) (__builtin_classify_type(x) == 8)
#define VITRINE_SIGNED_SIZE(x) (::vitrine::sdt::Passed<decltype((x))>::signed_size)
#define VITRINE_VALUE(x) (static_cast<typename ::vitrine::sdt::Passed<decltype((x))>::operand>(x))

/// The kind of a typed note for an element of a container: text, bytes, or neither.
template <class T>
struct ElementKind : std::integral_constant<int, 0> {};
template <>
struct ElementKind<char> : std::integral_constant<int, 8> {};
template <>
struct ElementKind<unsigned char> : std::integral_constant<int, 9> {};
#ifdef __cpp_char8_t
template <>
struct ElementKind<char8_t> : std::integral_constant<int, 8> {};
#endif
#ifdef __cpp_lib_byte
template <>
struct ElementKind<std::byte> : std::integral_constant<int, 9> {};
#endif

/// Whether it has data() and size(): std::string, std::string_view, std::span, …
template <class T, class = void>
struct ViewKind : std::integral_constant<int, 0> {};
template <class T>
struct ViewKind<T, decltype(static_cast<void>(std::declval<const T&>().data()),
                            static_cast<void>(std::declval<const T&>().size()))>
    : ElementKind<typename std::remove_cv<
          typename std::remove_pointer<decltype(std::declval<const T&>().data())>::type>::type> {};

/// enum vitrine_note_kind of the typed note, for a decayed type.
template <class T>
struct Kind {
  static constexpr int value =
      std::is_same<T, bool>::value                                           ? 3
      : std::is_floating_point<T>::value                                     ? 2
      : std::is_same<T, char*>::value || std::is_same<T, const char*>::value ? 5
      : std::is_pointer<T>::value || std::is_same<T, std::nullptr_t>::value  ? 4
      : std::is_enum<T>::value                                               ? 6
      : std::is_class<T>::value || std::is_union<T>::value                   ? ViewKind<T>::value
                                                                             : 1;
  static_assert(value != 0,
                "an argument of a typed probe is a number, a bool, an enumeration, a pointer, or a "
                "container of characters or bytes; describe others by their members");
};

/// What is passed for a value (const T&), and the number of bytes of those that have one.
template <class T, bool = (Kind<typename std::decay<T>::type>::value & 8) != 0>
struct Described {
  static constexpr int signed_size = Passed<T>::signed_size;
  VITRINE_TRANSPARENT static typename Passed<const T&>::operand data(const T& value) {
    return value;
  }
  VITRINE_TRANSPARENT static std::size_t length(const T&) { return 0; }
};
template <class T>
struct Described<T, true> {
  static constexpr int signed_size = static_cast<int>(sizeof(void*));
  VITRINE_TRANSPARENT static const void* data(const T& value) { return value.data(); }
  VITRINE_TRANSPARENT static std::size_t length(const T& value) { return value.size(); }
};

#define VITRINE_KIND(x) (::vitrine::sdt::Kind<typename ::std::decay<decltype((x))>::type>::value)
#define VITRINE_DESCRIPTION(x) \
  ::vitrine::sdt::Described<typename ::std::remove_reference<decltype((x))>::type>
#define VITRINE_DESCRIBED(n, x)                                           \
  [vitrine_s##n] "n"(VITRINE_DESCRIPTION(x)::signed_size),                \
      [vitrine_a##n] VITRINE_CONSTRAINT(VITRINE_DESCRIPTION(x)::data(x)), \
      [vitrine_l##n] VITRINE_CONSTRAINT(VITRINE_DESCRIPTION(x)::length(x))

}  // namespace sdt
}  // namespace vitrine
}

#endif
