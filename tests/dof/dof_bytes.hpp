// DOF by hand: bytes put together from the tables of docs/formats/dof.md, with nothing of src/dof
// and nothing of src/abi, so that the decoder and the encoder cannot share a mistake with them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace vitrine::test {

/// Little-endian numbers and text, one after another.
class Bytes {
 public:
  Bytes& u8(std::uint64_t value) { return number(value, 1); }
  Bytes& u16(std::uint64_t value) { return number(value, 2); }
  Bytes& u32(std::uint64_t value) { return number(value, 4); }
  Bytes& u64(std::uint64_t value) { return number(value, 8); }
  Bytes& text(std::string_view value) {
    for (const char c : value) data_.push_back(static_cast<std::byte>(c));
    return *this;
  }
  Bytes& zeros(std::size_t count) {
    data_.resize(data_.size() + count);
    return *this;
  }
  Bytes& align(std::size_t to) { return zeros((to - data_.size() % to) % to); }
  Bytes& append(const Bytes& other) {
    data_.insert(data_.end(), other.data_.begin(), other.data_.end());
    return *this;
  }
  /// Overwrites `size` bytes at `at`.
  Bytes& put(std::size_t at, std::uint64_t value, std::size_t size) {
    for (std::size_t i = 0; i < size; ++i)
      data_.at(at + i) = static_cast<std::byte>(value >> 8 * i & 255);
    return *this;
  }

  [[nodiscard]] std::size_t size() const { return data_.size(); }
  [[nodiscard]] const std::vector<std::byte>& data() const { return data_; }
  std::vector<std::byte>& data() { return data_; }

 private:
  Bytes& number(std::uint64_t value, std::size_t size) {
    data_.resize(data_.size() + size);
    return put(data_.size() - size, value, size);
  }

  std::vector<std::byte> data_;
};

/// A section as its header says it is. What is given in place of `offset` and `size` is written
/// instead of the truth.
struct HandSection {
  std::uint32_t type, align, flags, entsize;
  Bytes content;
};

/// Where the fields of a section header are, from its start.
enum SectionField : std::size_t {
  type_at = 0,
  align_at = 4,
  flags_at = 8,
  entsize_at = 12,
  offset_at = 16,
  size_at = 24
};

struct HandDof {
  std::vector<HandSection> sections;  ///< [0] is the string table, whose data comes last
  std::uint8_t model = 2, version = 1;

  /// Where section `index` begins.
  [[nodiscard]] std::size_t offset(std::size_t index) const {
    std::size_t at = 64 + 32 * sections.size();
    const auto place = [&](std::size_t i) {
      at = (at + sections[i].align - 1) / sections[i].align * sections[i].align;
      const std::size_t begin = at;
      at += sections[i].content.size();
      return begin;
    };
    for (std::size_t i = 1; i < sections.size(); ++i)
      if (sections[i].flags & 1)
        if (const std::size_t begin = place(i); i == index) return begin;
    if (const std::size_t begin = place(0); index == 0) return begin;
    loadable_ = at;
    for (std::size_t i = 1; i < sections.size(); ++i)
      if (!(sections[i].flags & 1))
        if (const std::size_t begin = place(i); i == index) return begin;
    return at;
  }

  /// Where a field of the header of section `index` is.
  static std::size_t field(std::size_t index, SectionField field) {
    return 64 + 32 * index + field;
  }

  [[nodiscard]] std::vector<std::byte> bytes() const {
    const std::size_t all = offset(sections.size());
    Bytes out;
    out.text(
           "\x7f"
           "DOF")
        .u8(model)
        .u8(1)
        .u8(version)
        .u8(2)
        .u8(8)
        .u8(8)
        .zeros(6);
    out.u32(0).u32(64).u32(32).u32(sections.size()).u64(64).u64(loadable_).u64(all).u64(0);
    for (std::size_t i = 0; i < sections.size(); ++i) {
      const HandSection& one = sections[i];
      out.u32(one.type).u32(one.align).u32(one.flags).u32(one.entsize);
      out.u64(offset(i)).u64(one.content.size());
    }
    out.data().resize(all);
    for (std::size_t i = 0; i < sections.size(); ++i)
      for (std::size_t k = 0; k < sections[i].content.size(); ++k)
        out.data()[offset(i) + k] = sections[i].content.data()[k];
    return out.data();
  }

 private:
  mutable std::size_t loadable_ = 0;
};

/// The sections of hand_dof(), by index.
enum HandIndex : std::size_t {
  strings,
  probes,
  arguments,
  offsets,
  enabled_offsets,
  provider,
  relocations,
  relocation_header,
  semaphores
};

/// The strings of hand_dof(), by where they are in the table.
enum HandString : std::uint32_t {
  shop = 1,
  order = 6,
  serve = 12,
  natives = 18,
  pay = 29,
  total = 33
};

/// The provider "shop": "order" in "serve" with the sites 4 and 0x10 and the is-enabled site 0x20,
/// (int, char *) translated to (char *), and "pay" in "serve" with the site 0x30 and no arguments;
/// both relocated by DOFREL. Version 2. A semaphore for "pay".
inline HandDof hand_dof() {
  HandDof dof;
  dof.version = 2;
  Bytes string_bytes;
  string_bytes.text(std::string_view("\0shop\0order\0serve\0int\0char *\0pay\0", 33));
  Bytes records;
  // addr; func, name, nargv, xargv, argidx, offidx; nargc, xargc, noffs; enoffidx; nenoffs, pads
  records.u64(0x1122334455667788).u32(serve).u32(order).u32(natives).u32(natives + 4).u32(0).u32(0);
  records.u8(2).u8(1).u16(2).u32(0).u16(1).u16(0).u32(0);
  records.u64(0xfffffffffffff000).u32(serve).u32(pay).u32(total).u32(total).u32(0).u32(2);
  records.u8(0).u8(0).u16(1).u32(0).u16(0).u16(0).u32(0);
  Bytes provider_bytes;
  provider_bytes.u32(strings).u32(probes).u32(arguments).u32(offsets).u32(shop);
  provider_bytes.u32(0x05050500).u32(0x01010000).u32(0x01010000).u32(0x06070200).u32(0x05050500);
  provider_bytes.u32(enabled_offsets);
  dof.sections = {
      {8, 1, 1, 0, string_bytes},
      {16, 8, 1, 48, records},
      {17, 1, 1, 1, Bytes().u8(1)},
      {18, 4, 1, 4, Bytes().u32(4).u32(0x10).u32(0x30)},
      {26, 4, 1, 4, Bytes().u32(0x20)},
      {15, 4, 1, 0, provider_bytes},
      {10, 8, 1, 24, Bytes().u32(serve).u32(2).u64(0).u64(0).u32(serve).u32(2).u64(48).u64(0)},
      {12, 4, 1, 0, Bytes().u32(strings).u32(relocations).u32(probes)},
      {0x76747273, 8, 0, 16, Bytes().u64(0xabc).u32(provider).u32(pay)},
  };
  return dof;
}

}  // namespace vitrine::test
