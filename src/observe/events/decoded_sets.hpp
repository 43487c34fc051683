// DecodedSets: label sets that the kernel sends once, and names by their ids afterwards, decoded.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/result.hpp"
#include "format/label_set.hpp"

namespace vitrine::observe {

/// What the thread published, in all formats together.
struct DisplayedLabels {
  format::LabelSet set;
  std::string error;     ///< why (some of) it could not be read; empty: it was
  std::uint64_t id = 0;  ///< TraceEvent::labels_id
  /// A thread record has keys whose names the process has not published, or not yet.
  bool lacks_keys = false;
};

/// What the labels of a set take, and what is noted about them.
std::size_t decoded_bytes(const format::LabelSet& set);

/// Adds what another format has. Content that several have counts once; ids that lead to a span go before others.
void add_to(DisplayedLabels& displayed, const format::LabelSet& set);

/// A target can have the sets of its definitions in force in any combination, each of which is a set of its own here:
/// so it is their bytes that are bounded. When there is no room for one more, all are forgotten; those that come again
/// are decoded anew.
class DecodedSets {
 public:
  using Key = std::pair<std::uint64_t, std::uint32_t>;  ///< a set's id, and its definition
  using Keys = std::vector<Key>;                        ///< of all sets of an event
  using Set = Result<format::LabelSet>;                 ///< or why it cannot be decoded

  static constexpr std::size_t max_bytes = 64U << 20;

  [[nodiscard]] const Set* find(const Key& key) const { return find_in(sets_, key); }
  [[nodiscard]] const DisplayedLabels* find(const Keys& keys) const {
    return find_in(events_, keys);
  }

  // What the last call returned is gone.
  void keep(const Key& key, Set set);
  const DisplayedLabels& keep(const Keys& keys, DisplayedLabels labels);

  void clear();

  /// What they take, about.
  [[nodiscard]] std::size_t bytes() const { return bytes_; }

 private:
  struct Hash {
    std::size_t operator()(const Key& key) const { return key.first ^ key.second; }
    std::size_t operator()(const Keys& keys) const;
  };

  template <class Map>
  static const typename Map::mapped_type* find_in(const Map& map,
                                                  const typename Map::key_type& key) {
    const auto found = map.find(key);
    return found == map.end() ? nullptr : &found->second;
  }
  void make_room(std::size_t bytes);

  std::unordered_map<Keys, DisplayedLabels, Hash> events_;
  std::unordered_map<Key, Set, Hash> sets_;  ///< of events that have others as well
  std::size_t bytes_ = 0;
};

}  // namespace vitrine::observe
