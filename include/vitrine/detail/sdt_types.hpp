// SPDX-License-Identifier: Apache-2.0
// What an argument is, in C++: the macros of sdt_types.h, and containers of characters and bytes.
//
// Our names begin with vitrine_ here, because a program may have any other word as a macro.
#ifndef VITRINE_DETAIL_SDT_TYPES_HPP
#define VITRINE_DETAIL_SDT_TYPES_HPP

#pragma GCC system_header

extern "C++" {

#include <cstddef>
#include <type_traits>
#include <utility>

namespace vitrine_sdt {

// Everything here is for the compiler: no code comes of it.
#define VITRINE_DETAIL_TRANSPARENT __attribute__((__always_inline__, __artificial__)) inline

template <class vitrine_T, bool = std::is_enum<vitrine_T>::value>
struct vitrine_has_sign
    : std::integral_constant<bool, std::is_signed<vitrine_T>::value &&
                                       !std::is_floating_point<vitrine_T>::value> {};
template <class vitrine_T>
struct vitrine_has_sign<vitrine_T, true>
    : vitrine_has_sign<typename std::underlying_type<vitrine_T>::type> {};
#ifdef __SIZEOF_INT128__
__extension__ typedef __int128 vitrine_int128;
template <>
struct vitrine_has_sign<vitrine_int128, false> : std::true_type {};
#endif

/// What is passed for an expression of decltype((expression)) vitrine_T: for arrays and functions,
/// their address.
template <class vitrine_T>
struct vitrine_passed {
  typedef typename std::decay<vitrine_T>::type vitrine_type;
  static constexpr int vitrine_signed_size = vitrine_has_sign<vitrine_type>::value
                                                 ? -static_cast<int>(sizeof(vitrine_type))
                                                 : static_cast<int>(sizeof(vitrine_type));
  /// A scalar is passed as its value: no reference binds to a bit-field, nor with g++ to a field of a
  /// packed structure. An object of a class stays that object, because a copy may have side effects.
  /// (A bool as the byte that it is: clang 19 passes one bit of a bit-field, and what is beside it.)
  typedef typename std::conditional<
      std::is_scalar<vitrine_type>::value,
      typename std::conditional<std::is_same<vitrine_type, bool>::value, unsigned char,
                                vitrine_type>::type,
      typename std::conditional<
          std::is_lvalue_reference<vitrine_T>::value, vitrine_T,
          typename std::conditional<std::is_class<vitrine_type>::value, vitrine_type&&,
                                    vitrine_type>::type>::type>::type vitrine_operand;
};

#define VITRINE_DETAIL_IS_FLOATING(x) (__builtin_classify_type(x) == 8)
#define VITRINE_DETAIL_SIGNED_SIZE(x) \
  (::vitrine_sdt::vitrine_passed<decltype((x))>::vitrine_signed_size)
#define VITRINE_DETAIL_VALUE(x) \
  (static_cast<typename ::vitrine_sdt::vitrine_passed<decltype((x))>::vitrine_operand>(x))

/// The kind of a typed note for an element of a container: text, bytes, or neither.
template <class vitrine_T>
struct vitrine_element_kind : std::integral_constant<int, 0> {};
template <>
struct vitrine_element_kind<char> : std::integral_constant<int, 8> {};
template <>
struct vitrine_element_kind<unsigned char> : std::integral_constant<int, 9> {};
#ifdef __cpp_char8_t
template <>
struct vitrine_element_kind<char8_t> : std::integral_constant<int, 8> {};
#endif
#ifdef __cpp_lib_byte
template <>
struct vitrine_element_kind<std::byte> : std::integral_constant<int, 9> {};
#endif

/// Whether it has data() and size(): std::string, std::string_view, std::span, …
template <class vitrine_T, class = void>
struct vitrine_view_kind : std::integral_constant<int, 0> {};
template <class vitrine_T>
struct vitrine_view_kind<vitrine_T,
                         decltype(static_cast<void>(std::declval<const vitrine_T&>().data()),
                                  static_cast<void>(std::declval<const vitrine_T&>().size()))>
    : vitrine_element_kind<typename std::remove_cv<typename std::remove_pointer<
          decltype(std::declval<const vitrine_T&>().data())>::type>::type> {};

/// enum vitrine_note_kind of the typed note, for a decayed type.
template <class vitrine_T>
struct vitrine_kind {
  static constexpr int vitrine_value =
      std::is_same<vitrine_T, bool>::value                                                   ? 3
      : std::is_floating_point<vitrine_T>::value                                             ? 2
      : std::is_same<vitrine_T, char*>::value || std::is_same<vitrine_T, const char*>::value ? 5
      : std::is_pointer<vitrine_T>::value || std::is_same<vitrine_T, std::nullptr_t>::value  ? 4
      : std::is_enum<vitrine_T>::value                                                       ? 6
      : std::is_class<vitrine_T>::value || std::is_union<vitrine_T>::value
          ? vitrine_view_kind<vitrine_T>::value
          : 1;
  static_assert(vitrine_value != 0,
                "an argument of a typed probe is a number, a bool, an enumeration, a pointer, or a "
                "container of characters or bytes; describe others by their members");
};
template <class vitrine_T>
struct vitrine_decayed_kind : vitrine_kind<typename std::decay<vitrine_T>::type> {};

/// What is passed for a value (const vitrine_T&), and the number of bytes of those that have one.
template <class vitrine_T, bool = (vitrine_decayed_kind<vitrine_T>::vitrine_value & 8) != 0>
struct vitrine_described {
  static constexpr int vitrine_signed_size = vitrine_passed<vitrine_T>::vitrine_signed_size;
  VITRINE_DETAIL_TRANSPARENT static typename vitrine_passed<const vitrine_T&>::vitrine_operand
  vitrine_data(const vitrine_T& vitrine_value) {
    return vitrine_value;
  }
  VITRINE_DETAIL_TRANSPARENT static std::size_t vitrine_length(const vitrine_T&) { return 0; }
};
template <class vitrine_T>
struct vitrine_described<vitrine_T, true> {
  static constexpr int vitrine_signed_size = static_cast<int>(sizeof(void*));
  VITRINE_DETAIL_TRANSPARENT static const void* vitrine_data(const vitrine_T& vitrine_value) {
    return vitrine_value.data();
  }
  VITRINE_DETAIL_TRANSPARENT static std::size_t vitrine_length(const vitrine_T& vitrine_value) {
    return vitrine_value.size();
  }
};
template <class vitrine_T>
struct vitrine_description : vitrine_described<typename std::remove_reference<vitrine_T>::type> {};

#define VITRINE_DETAIL_ADDRESSED VITRINE_DETAIL_ARGUMENT

/// Bytes of any number. (clang has no operands of an unknown size. It takes an operand in memory for all memory.)
#ifdef __clang__
using vitrine_bytes = const volatile char*;
#else
using vitrine_bytes = const volatile char (*)[];
#endif

/// What a value points at, or a container has: the compiler completes what it stores there. The address may be null.
template <bool vitrine_is_address>
struct vitrine_memory_at {
  VITRINE_DETAIL_TRANSPARENT static void vitrine_read(const volatile void* vitrine_address) {
    __asm__ __volatile__("" ::"m"(*static_cast<vitrine_bytes>(vitrine_address)));
  }
};
template <>
struct vitrine_memory_at<false> {
  template <class vitrine_T>
  VITRINE_DETAIL_TRANSPARENT static void vitrine_read(const vitrine_T&) {}
};
/// A function decays to its pointer, and nothing else does to the pointer to it.
template <class vitrine_T>
struct vitrine_is_object_pointer
    : std::integral_constant<
          bool, std::is_pointer<vitrine_T>::value &&
                    !std::is_same<
                        typename std::decay<typename std::remove_pointer<vitrine_T>::type>::type,
                        vitrine_T>::value> {};
/// For decltype(value) of a bound value, which is a reference.
template <class vitrine_T>
struct vitrine_memory
    : vitrine_memory_at<vitrine_is_object_pointer<typename std::decay<vitrine_T>::type>::value ||
                        vitrine_view_kind<typename std::decay<vitrine_T>::type>::value != 0> {};

/// Calls a function. In braces its arguments are computed from left to right.
struct vitrine_call_in_order {
  template <class vitrine_F, class... vitrine_T>
  __attribute__((__no_instrument_function__))  // which would keep copies with probes
  VITRINE_DETAIL_TRANSPARENT explicit vitrine_call_in_order(const vitrine_F& vitrine_function,
                                                            const vitrine_T&... vitrine_values) {
    vitrine_function(vitrine_values...);
  }
};

#define VITRINE_DETAIL_KIND(x) (::vitrine_sdt::vitrine_decayed_kind<decltype((x))>::vitrine_value)
#define VITRINE_DETAIL_DESCRIPTION(x) ::vitrine_sdt::vitrine_description<decltype((x))>
#define VITRINE_DETAIL_DESCRIBED(n, x)                                    \
  [vitrine_s##n] "n"(VITRINE_DETAIL_DESCRIPTION(x)::vitrine_signed_size), \
      [vitrine_a##n] VITRINE_DETAIL_CONSTRAINT(vitrine_data_##n),         \
      [vitrine_l##n] VITRINE_DETAIL_CONSTRAINT(VITRINE_DETAIL_DESCRIPTION(x)::vitrine_length(x))

}  // namespace vitrine_sdt
}

#endif
