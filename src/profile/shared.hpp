// What the encodings agree on: how a frame is called, how a cut stack is marked, what is said about
// losses, and how keys and text of others become ones that every format may hold.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "profile/profile.hpp"

namespace vitrine::profile {

/// The entry of a table; null: `index` is none, or past its end.
template <class T>
const T* entry(const std::vector<T>& table, Index index) {
  return index < table.size() ? &table[index] : nullptr;
}

/// What was measured, whether or not there was anything to see.
struct Measures {
  bool on_cpu = false;
  bool off_cpu = false;
};
Measures measures_of(const Profile& profile);

/// The name of the outermost frame that marks a stack that is not whole: "[truncated]" as ddprof has
/// it, or "[incomplete]"; empty: it is whole.
std::string_view end_mark(StackEnd end);

/// The names of the functions at a location, innermost first; never empty: of one without a symbol,
/// its file as "[libshop.so]", or "[unknown]". Any bytes.
std::vector<std::string_view> frame_names(const Profile& profile, const Location& location,
                                          std::string& scratch);

/// The outermost frames that `keys` ask for: "tenant=acme", "tenant=(none)".
std::vector<std::string> group_frames(const Profile& profile, const Sample& sample,
                                      const std::vector<std::string>& keys);

/// What was lost, and what else went wrong: sentences without a full stop. Any bytes.
std::vector<std::string> remarks(const Profile& profile);

/// Makes text of others what protobuf and JSON may hold.
class CleanText {
 public:
  std::string operator()(std::string_view bytes);
  /// Strings that were not UTF-8.
  [[nodiscard]] std::uint64_t replaced() const { return replaced_; }

 private:
  std::uint64_t replaced_ = 0;
};

/// The names under which a format has the keys of labels: prefixed, each of its own, and none that
/// the format uses itself. A key that may not stay becomes "label.KEY".
class ExportedKeys {
 public:
  /// `reserved`: names the format uses; `reserved_prefix`: so do all that begin so (empty: none).
  ExportedKeys(const Profile& profile, std::string_view label_prefix,
               std::set<std::string, std::less<>> reserved, std::string_view reserved_prefix,
               CleanText& clean);

  [[nodiscard]] const std::string& of(const std::string& key) const { return names_.at(key); }
  /// A sentence for each that is called otherwise than asked.
  [[nodiscard]] const std::vector<std::string>& renamed() const { return renamed_; }

 private:
  std::unordered_map<std::string, std::string> names_;
  std::vector<std::string> renamed_;
};

/// Hashes the indices that make samples the same.
struct IndicesHash {
  template <std::size_t n>
  std::size_t operator()(const std::array<std::uint32_t, n>& indices) const {
    std::uint64_t hash = 0;
    for (const std::uint32_t index : indices) {
      hash = (hash ^ index) * 0x9e37'79b9'7f4a'7c15ULL;
      hash ^= hash >> 29;
    }
    return hash;
  }
};

/// Nanoseconds as the signed numbers of the formats.
std::int64_t as_signed(std::uint64_t ns);

/// A tick of the sampling clock; 0: there is none.
std::int64_t period_ns(const Profile& profile);

}  // namespace vitrine::profile
