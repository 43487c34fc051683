// Fires as lines for people.
#pragma once

#include <cstddef>
#include <string>

#include "cli/label_texts.hpp"
#include "cli/text.hpp"
#include "observe/trace.hpp"

namespace vitrine::cli {

/// A fired argument as a programmer would write it: 17, "kettle", 0x7f00, red; for one that could
/// not be read, why in pointed brackets.
std::string value_text(const probe::Value& value, query::Format format);

/// Lays out one line an event; columns are as wide as what came so far.
class TraceText {
 public:
  explicit TraceText(const Style& style);

  /// "13:05:12.345678  shop 4242/4243  shop:order(id=17, item="kettle")  tenant=acme trace=…", and
  /// below it the stack, if there is one. Adds it and a newline.
  void append(const observe::TraceEvent& event, std::string& out);

 private:
  void append_time(std::uint64_t monotonic_ns, std::string& out);
  void append_labels(const observe::TraceEvent& event, std::size_t begin, std::string& out);
  std::string set_text(const format::LabelSet& set) const;

  Style style_;
  std::int64_t wall_clock_ns_;  ///< to be added to the clock of events
  std::size_t thread_width_ = 0;
  std::size_t probe_width_ = 0;
  std::int64_t second_ = -1;  ///< since 1970
  std::string second_text_;   ///< "13:05:12."
  LabelTexts labels_;
};

/// What to add to the clock of events (CLOCK_MONOTONIC) for the time of day, in nanoseconds.
std::int64_t wall_clock_offset_ns();

}  // namespace vitrine::cli
