// The dictionary of an OTLP file: tables that its resources refer to by position; entry 0 of a table is
// "none" (docs/formats/profiles.md, "Reading").
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "profile/decoder.hpp"
#include "profile/otlp.hpp"

namespace vitrine::profile {

using OtlpReader = protozero::pbf_reader;
using OtlpView = protozero::data_view;

/// Takes a field of indices, packed or not. False: `message` is at another field.
template <class Each>
bool take_indices(OtlpReader& message, otlp::Field field, Each each) {
  if (message.tag_and_type() == nested(field)) {
    for (const std::int32_t one : message.get_packed_int32()) each(one);
    return true;
  }
  if (message.tag_and_type() != varint(field)) return false;
  each(message.get_int32());
  return true;
}

/// Views into the file, which must outlive it. All functions throw Refused, and what protozero throws.
class OtlpDictionary {
 public:
  struct Value {
    std::string_view text;
    std::int64_t number = 0;
    bool is_number = false;
    std::vector<std::string_view> texts;  ///< of an array

    [[nodiscard]] std::string str() const {
      return is_number ? std::to_string(number) : std::string(text);
    }
  };

  struct NamedValue {
    std::string_view key;
    Value value;
  };

  /// What is read goes to `reading`; `place` is where, for errors.
  OtlpDictionary(ProfileReading& reading, Place& place) : reading_(reading), place_(place) {}

  /// Keeps the tables of a ProfilesDictionary; a file may have them in parts.
  void find_tables(OtlpReader message);
  /// Reads the tables that were found.
  void read();

  [[nodiscard]] std::string_view string(std::int64_t index) const;
  [[nodiscard]] Value any_value(OtlpReader message) const;
  /// Null: none. Valid as long as the dictionary.
  [[nodiscard]] const NamedValue* attribute(std::int64_t index) const;
  /// In the tables of the profile.
  [[nodiscard]] Index stack(std::int64_t index) const;
  [[nodiscard]] Index link(std::int64_t index) const;

 private:
  using Views = std::vector<OtlpView>;

  std::string text(std::int64_t index) { return reading_.text(string(index)); }
  void read_attributes();
  void read_mappings();
  void read_functions();
  void read_locations();
  void read_stacks();
  void read_links();
  [[nodiscard]] Line line(OtlpReader message) const;

  ProfileReading& reading_;
  Place& place_;
  Views mappings_, locations_, functions_, links_, strings_, attribute_views_, stacks_;
  std::vector<NamedValue> attributes_;
  std::vector<std::optional<StackEnd>> ends_;  ///< of locations that mark one
  std::vector<Index> stack_places_, link_places_;
};

}  // namespace vitrine::profile
