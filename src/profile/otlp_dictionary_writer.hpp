// Writes the dictionary of an OTLP message: tables that its samples and resources refer to by position.
//
// - Index 0 of every table is the zero message. protozero's writers of nested messages drop one that
//   is empty, which would shift every index: entries are encoded apart and added as bytes.
// - An entry is made when something refers to it, and found again by its bytes: no orphans, no
//   duplicates, whatever the tables of the profile hold.
// - The frame that marks a stack that is not whole is of the type that OpenTelemetry's profiler uses
//   for its own, "abort-marker".
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/interner.hpp"
#include "profile/encode.hpp"
#include "profile/otlp.hpp"

namespace vitrine::profile {

// proto3 leaves out what is zero; two spellings of one entry would be duplicates.
void add_number(telemetry::Writer& message, telemetry::Tag tag, std::int64_t number);
void add_indices(telemetry::Writer& message, telemetry::Tag tag,
                 const std::vector<std::int32_t>& indices);

/// Where each entry of a table of the profile went in this message; -1: nowhere yet. The next message
/// begins without clearing what the earlier ones left: a table may be far larger than a message.
class Places {
 public:
  Places(std::size_t entries, const std::uint32_t& message) : places_(entries), message_(message) {}

  [[nodiscard]] std::size_t size() const { return places_.size(); }
  std::int32_t& operator[](std::size_t index) {
    Place& place = places_[index];
    if (std::exchange(place.message, message_) != message_) place.at = -1;
    return place.at;
  }

 private:
  struct Place {
    std::uint32_t message = 0;
    std::int32_t at = -1;
  };
  std::vector<Place> places_;
  const std::uint32_t& message_;
};

/// Of one message after the other, whose entries come from one profile; the profile and `clean` must
/// outlive it. Functions return the position of the entry, which they make if it is new; 0: none.
class OtlpDictionaryWriter {
 public:
  /// `compact`: texts of attributes are entries of the table of strings.
  OtlpDictionaryWriter(const Profile& profile, bool compact, CleanText& clean);
  OtlpDictionaryWriter(const OtlpDictionaryWriter&) = delete;
  OtlpDictionaryWriter& operator=(const OtlpDictionaryWriter&) = delete;

  /// The next message has none of the entries.
  void begin();
  /// The number of the message, for the Places of its other tables.
  [[nodiscard]] const std::uint32_t& message() const { return message_; }
  /// Adds the tables to a ProfilesDictionary.
  void write(telemetry::Writer& dictionary) const;

  std::int32_t string(std::string_view bytes);
  std::int32_t attribute(std::string_view key, std::string_view text);
  std::int32_t attribute(std::string_view key, std::int64_t number);
  /// Of a value that is encoded already.
  std::int32_t attribute_of(std::string_view key, const std::string& any_value);
  // Of entries of the profile's tables.
  std::int32_t stack(Index index);
  std::int32_t link(Index index);

 private:
  /// Encoded messages, each once.
  class Table {
   public:
    Table() { add({}); }
    void clear();
    std::int32_t add(std::string encoded);
    void write(telemetry::Writer& dictionary, telemetry::Tag tag) const;

   private:
    StringInterner entries_;
  };

  std::int32_t function(Index index);
  std::int32_t named_function(std::string_view name, std::string_view system_name,
                              std::string_view file, std::uint32_t start_line);
  std::int32_t mapping(Index index);
  std::int32_t location(Index index);
  std::int32_t mark(std::string_view name);

  const Profile& profile_;
  bool compact_;
  CleanText& clean_;
  std::uint32_t message_ = 0;
  Table mapping_table_, location_table_, function_table_, link_table_, string_table_,
      attribute_table_, stack_table_;
  Places functions_, mappings_, locations_, stacks_, links_;
};

}  // namespace vitrine::profile
