// Fires as text and as NDJSON.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <unordered_map>
#include <utility>

#include "cli/output/text.hpp"
#include "cli/trace/wall_clock.hpp"
#include "observe/trace/trace.hpp"

namespace vitrine::cli {

/// Why a fire could not be paired by --match.
inline constexpr const char* unread_match =
    "the argument of --match could not be read, or exceeds 128 bytes or --max-string";

/// Label sets as text, each made once; all are forgotten where there is no room for one more.
class LabelTexts {
 public:
  /// Of sets that threads have in force at about one time; a target may make each as large as labels can be.
  static constexpr std::size_t max_sets = 4096, max_bytes = 16U << 20;

  /// What `make(set)` returns for the event's labels; good until the next call.
  template <class Make>
  const std::string& of(const observe::TraceEvent& event, Make make) {
    if (event.labels_id == 0) return once_ = make(*event.labels);
    if (const auto known = kept_.find(event.labels_id); known != kept_.end()) return known->second;
    std::string text = make(*event.labels);
    if (kept_.size() >= max_sets || bytes_ + text.size() > max_bytes) {
      kept_.clear();
      bytes_ = 0;
    }
    bytes_ += text.size();
    return kept_.emplace(event.labels_id, std::move(text)).first->second;
  }

  /// What the texts take.
  [[nodiscard]] std::size_t bytes() const { return bytes_; }

 private:
  std::unordered_map<std::uint64_t, std::string> kept_;
  std::size_t bytes_ = 0;
  std::string once_;
};

// Fires as lines for people.

/// A fired argument as a programmer would write it: 17, "kettle", 0x7f00, red; for one that could
/// not be read, why in pointed brackets.
std::string value_text(const probe::Value& value, query::Format format, std::uint8_t width = 8);

/// Lays out one line an event; columns are as wide as what came so far.
class TraceText {
 public:
  explicit TraceText(const Style& style) : style_(style) {}

  /// "13:05:12.345678  shop 4242/4243  shop:order(id=17, item="kettle")  tenant=acme trace=…", and
  /// below it the stack, if there is one. Adds it and a newline. Of a slow pair: "12.3ms
  /// shop:begin(id=17) → shop:end(status=0)  tenant=acme".
  void append(const observe::TraceEvent& event, std::string& out);

 private:
  void append_time(std::uint64_t monotonic_ns, std::string& out);
  void append_labels(const observe::TraceEvent& event, std::size_t begin, std::string& out);
  std::string set_text(const format::LabelSet& set) const;

  Style style_;
  WallClock clock_;
  std::size_t thread_width_ = 0;
  std::size_t probe_width_ = 0;
  std::int64_t second_ = -1;  ///< since 1970
  std::string second_text_;   ///< "13:05:12."
  LabelTexts labels_;
};

// Fires as JSON objects, one a line: cheap enough for all fires of a busy probe.

class TraceJson {
 public:
  /// Adds {"ts_ns","pid","tid","cpu","comm","probe","module","site","args":[…],"labels":[…], and when
  /// there are such: "arg_names","trace_id","span_id","trace_flags","labels_error","stack",
  /// "truncated","defects"}, and a newline. Of a slow pair, whose end it is, also "duration_ns" and
  /// "start":{"ts_ns","probe","module","site","args", "arg_names"}.
  void append(const observe::TraceEvent& event, std::string& out);

 private:
  WallClock clock_;
  LabelTexts labels_;
};

}  // namespace vitrine::cli
