// Interner: a table that holds each value once; an index is a position in it.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <type_traits>
#include <unordered_set>
#include <utility>
#include <vector>

namespace vitrine {

/// A value is found by anything that `Hash` takes and that compares equal to a T.
template <class T, class Hash>
class Interner {
  static_assert(!std::is_integral_v<T>, "a value would be taken for an index");

 public:
  using Index = std::uint32_t;

  Interner() : known_(0, HashAt{&values_}, EqualAt{&values_}) {}
  Interner(const Interner&) = delete;
  Interner& operator=(const Interner&) = delete;

  /// Whether it is there, and where.
  template <class Like>
  std::pair<Index, bool> find(const Like& value) const {
    const auto known = known_.find(value);
    return known == known_.end() ? std::pair(Index{}, false) : std::pair(*known, true);
  }

  template <class Like>
  Index add(Like&& value) {
    if (const auto [at, there] = find(value); there) return at;
    values_.emplace_back(std::forward<Like>(value));
    const auto at = static_cast<Index>(values_.size() - 1);
    known_.insert(at);
    return at;
  }

  [[nodiscard]] const std::vector<T>& values() const { return values_; }
  [[nodiscard]] std::size_t size() const { return values_.size(); }

  /// Leaves it empty.
  std::vector<T> take() {
    known_.clear();
    return std::exchange(values_, {});
  }

 private:
  struct HashAt {
    using is_transparent = void;
    const std::vector<T>* values;
    std::size_t operator()(Index at) const { return Hash{}((*values)[at]); }
    template <class Like>
    std::size_t operator()(const Like& value) const {
      return Hash{}(value);
    }
  };
  struct EqualAt {
    using is_transparent = void;
    const std::vector<T>* values;
    bool operator()(Index a, Index b) const { return a == b; }  // values are there once
    template <class Like>
    bool operator()(const Like& value, Index at) const {
      return value == (*values)[at];
    }
    template <class Like>
    bool operator()(Index at, const Like& value) const {
      return value == (*values)[at];
    }
  };

  std::vector<T> values_;
  std::unordered_set<Index, HashAt, EqualAt> known_;
};

/// Texts, each once.
using StringInterner = Interner<std::string, std::hash<std::string_view>>;

/// Mixes a word into a hash (the finaliser of MurmurHash3).
constexpr std::size_t mix(std::size_t hash, std::uint64_t word) {
  std::uint64_t x = hash ^ (word + 0x9e37'79b9'7f4a'7c15ULL);
  x = (x ^ x >> 33) * 0xff51'afd7'ed55'8ccdULL;
  x = (x ^ x >> 33) * 0xc4ce'b9fe'1a85'ec53ULL;
  return static_cast<std::size_t>(x ^ x >> 33);
}

}  // namespace vitrine
