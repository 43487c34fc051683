// Version: the labels that a set of the C interface has at one time, as an immutable array and the
// bytes that its labels refer to. Versions are cells (cells.hpp); handles refer to them (handle.hpp).
#pragma once

#include <customlabels.h>

#include <cerrno>
#include <cstdint>
#include <cstring>

#include "publish/base/block.hpp"
#include "publish/base/bytes.hpp"
#include "publish/base/cells.hpp"

namespace vitrine::publish {

using String = custom_labels_string_t;
using Label = custom_labels_label_t;

/// Labels, and behind them their keys and values, in the same order: `Cell | labels[count] |
/// strings`. Every string is inside, empty ones too, so a copy of the whole needs one difference
/// added to each pointer. A value has the room up to the next key.
struct alignas(16) Version : Cell {
  std::uint32_t used;  ///< bytes of strings, with that room
  std::uint32_t live;  ///< bytes of the units that the strings need
  /// Of the same owner's versions with the same number, labels have the same keys, and their strings
  /// are at the same places. 0: no other is known.
  std::uint64_t layout;

  [[nodiscard]] Label* labels() noexcept { return reinterpret_cast<Label*>(this + 1); }
  [[nodiscard]] const Label* labels() const noexcept {
    return reinterpret_cast<const Label*>(this + 1);
  }
  [[nodiscard]] std::uint64_t storage() const noexcept {
    return reinterpret_cast<std::uint64_t>(this + 1);
  }
  /// Whether each string has the room of one unit: values are as far from each other as labels are.
  /// (Then `live` is `used`.)
  [[nodiscard]] bool in_units() const noexcept;
  static Version* of(std::uint64_t storage) noexcept {
    return reinterpret_cast<Version*>(storage) - 1;
  }
};
static_assert(sizeof(Version) == 48);

/// As the `buf` of a value in an edit: removes the label.
extern const unsigned char removed[1];

/// A change of several labels at once. Of two with one key the last counts.
struct Edit {
  const Label* labels;
  std::size_t count;
};

inline bool same_key(String a, String b) noexcept {
  return a.len == b.len && equal_bytes(reinterpret_cast<const char*>(a.buf),
                                       reinterpret_cast<const char*>(b.buf), a.len);
}

/// The label with this key among `count`, or null.
inline const Label* find_label(const Label* labels, std::size_t count, String key) noexcept {
  for (std::size_t i = 0; i < count; ++i) {
    if (labels[i].key.buf != nullptr && same_key(labels[i].key, key)) return &labels[i];
  }
  return nullptr;
}

/// The same where no key is null, as in our versions.
inline std::size_t find_index(const Label* labels, std::size_t count, String key) noexcept {
  std::size_t i = 0;
  while (i < count && !same_key(labels[i].key, key)) ++i;
  return i;
}

/// The same where `ours` is at most one unit long.
inline bool same_unit(String ours, String key) noexcept {
  if (ours.len != key.len) return false;
  const auto* a = reinterpret_cast<const char*>(ours.buf);
  const auto* b = reinterpret_cast<const char*>(key.buf);
  if (key.len < 8) return equal_bytes(a, b, key.len);
  return load<std::uint64_t>(a) == load<std::uint64_t>(b) &&
         load<std::uint64_t>(a + key.len - 8) == load<std::uint64_t>(b + key.len - 8);
}

inline constexpr std::size_t string_bytes_max = 64 * 1024;

/// 0, EINVAL or EMSGSIZE.
inline int check_key(String key) noexcept {
  if (key.buf == nullptr) return EINVAL;
  return key.len > string_bytes_max ? EMSGSIZE : 0;
}
inline int check_value(String value) noexcept {
  if (value.buf == nullptr && value.len != 0) return EINVAL;
  return value.len > string_bytes_max ? EMSGSIZE : 0;
}

/// A copy to be freed by the caller, with a NUL behind it. Null `buf`: no memory.
String copy_for_caller(String from) noexcept;

/// 16 bytes, moved as one. Versions consist of them (strings begin on multiples of 16 from the
/// first), and are written and copied so: a load that covers several recent stores would wait until
/// they reached the cache.
using Unit = unsigned long long __attribute__((vector_size(16)));
static_assert(sizeof(String) == sizeof(Unit) && offsetof(String, len) == 0 &&
              offsetof(String, buf) == 8);

/// Strings are copied two units at a time, past their end.
constexpr std::size_t slack = sizeof(Unit);

/// At least one unit.
constexpr std::size_t room_for(std::size_t bytes) noexcept {
  return bytes == 0 ? sizeof(Unit) : (bytes + sizeof(Unit) - 1) / sizeof(Unit) * sizeof(Unit);
}

inline bool Version::in_units() const noexcept {
  return used == count * (2 * sizeof(Unit));
}
static_assert(sizeof(Label) == 2 * sizeof(Unit));

/// Copies `size` bytes, and zeroes up to a whole unit.
inline void put_bytes(char* to, const char* from, std::size_t size) noexcept {
  for (; __builtin_expect(size > sizeof(Unit), 0); size -= sizeof(Unit)) {
    store(to, load<Unit>(from));
    to += sizeof(Unit);
    from += sizeof(Unit);
  }
  std::uint64_t head = 0, tail = 0;
  if (size > 8) {
    head = load<std::uint64_t>(from);
    tail = load<std::uint64_t>(from + size - 8) >> (8 * (16 - size));
  } else if (size == 8) {
    head = load<std::uint64_t>(from);
  } else if (size >= 4) {
    head = load<std::uint32_t>(from) | std::uint64_t{load<std::uint32_t>(from + size - 4)}
                                           << (8 * (size - 4));
  } else if (size != 0) {
    const auto byte = [from](std::size_t at) {
      return std::uint64_t{static_cast<unsigned char>(from[at])} << (8 * at);
    };
    head = byte(0) | byte(size / 2) | byte(size - 1);
  } else {
    return;
  }
  store(to, Unit{head, tail});
}

/// Copies a string to `to`, and makes `string` refer to the copy.
inline void put_string(String& string, char* to, String from) noexcept {
  put_bytes(to, reinterpret_cast<const char*>(from.buf), from.len);
  store(reinterpret_cast<char*>(&string), Unit{from.len, reinterpret_cast<std::uint64_t>(to)});
}

inline char* writable(String string) noexcept {
  return const_cast<char*>(reinterpret_cast<const char*>(string.buf));
}

inline std::size_t version_bytes(std::size_t labels, std::size_t strings) noexcept {
  return sizeof(Version) + labels * sizeof(Label) + strings + slack;
}

inline char* strings_of(Version& version, std::size_t labels) noexcept {
  return reinterpret_cast<char*>(version.labels() + labels);
}
inline const char* strings_of(const Version& version, std::size_t labels) noexcept {
  return strings_of(const_cast<Version&>(version), labels);
}

/// Copies `count` labels of `from`, whose strings will be `moved` bytes on from where they are.
inline void copy_labels(const Version& from, Version& to, std::size_t count,
                        std::uint64_t moved) noexcept {
  const char* old = reinterpret_cast<const char*>(from.labels());
  const char* const end = old + count * sizeof(Label);
  char* copy = reinterpret_cast<char*>(to.labels());
  const Unit difference{0, moved};
  for (; old != end; old += sizeof(Label), copy += sizeof(Label)) {
    store(copy, load<Unit>(old) + difference);
    store(copy + sizeof(Unit), load<Unit>(old + sizeof(Unit)) + difference);
  }
}

/// Copies strings of versions: two units at a time.
inline void copy_units(char* to, const char* from, std::size_t bytes) noexcept {
  for (std::size_t at = 0; at < bytes; at += 2 * sizeof(Unit)) {
    const Unit one = load<Unit>(from + at);
    const Unit other = load<Unit>(from + at + sizeof(Unit));
    store(to + at, one);
    store(to + at + sizeof(Unit), other);
  }
}
/// More than these are better copied by a call.
inline constexpr std::size_t copied_by_units = 1024;

/// Copies what may differ between versions of one layout.
inline void copy_values(const Version& from, std::uint64_t moved) noexcept {
  const Label* label = from.labels();
  for (const Label* const end = label + from.count; label != end; ++label) {
    auto* copy = reinterpret_cast<Label*>(reinterpret_cast<std::uint64_t>(label) + moved);
    char* value = writable(label->value);
    const std::size_t size = label->value.len;
    copy->value.len = size;
    store(value + moved, load<Unit>(value));
    if (__builtin_expect(size > sizeof(Unit), 0)) copy_units(value + moved, value, size);
  }
}

/// The same where `from.in_units()`.
inline void copy_unit_values(const Version& from, std::uint64_t moved) noexcept {
  const auto span = static_cast<std::ptrdiff_t>(from.used);
  const char* label = reinterpret_cast<const char*>(from.labels());
  for (const char* const end = label + span; label != end; label += sizeof(Label)) {
    char* copy = const_cast<char*>(label) + moved;
    store(copy + offsetof(Label, value), load<std::size_t>(label + offsetof(Label, value)));
    // Behind all labels, and behind its key.
    store(copy + span + sizeof(Unit), load<Unit>(label + span + sizeof(Unit)));
  }
}

/// A layout that no other version has. Only code that no operation was interrupted for numbers them.
inline std::uint64_t new_layout(const Work& work) noexcept {
  return work.alone() ? ++work.cells().layouts : 0;
}

/// Copies the labels and strings of `from`; in `to` the strings begin at `strings`.
inline void copy_whole(const Version& from, Version& to, char* strings) noexcept {
  const char* old = strings_of(from, from.count);
  copy_labels(from, to, from.count, static_cast<std::uint64_t>(strings - old));
  if (__builtin_expect(from.used > copied_by_units, 0))
    std::memcpy(strings, old, from.used);
  else
    copy_units(strings, old, from.used);
}

struct Made {
  int error;  ///< 0, EMSGSIZE or ENOMEM
  Version* version;
};

/// `base` after `change`, with nothing between its strings.
Made make_version(const Work& work, const Label* base, std::size_t count, Edit change) noexcept;

/// `from` after `change`: where the change is a small one, by copying it whole.
Made make_successor(const Work& work, const Version& from, Edit change) noexcept;

}  // namespace vitrine::publish
