// Fires as JSON objects, one a line: cheap enough for all fires of a busy probe.
#pragma once

#include <cstdint>
#include <string>

#include "cli/label_texts.hpp"
#include "observe/trace.hpp"

namespace vitrine::cli {

class TraceJson {
 public:
  TraceJson();

  /// Adds {"ts_ns","pid","tid","cpu","comm","probe","module","site","args":[…],"labels":[…], and when
  /// there are such: "arg_names","trace_id","span_id","trace_flags","labels_error","stack",
  /// "truncated","defects"}, and a newline.
  void append(const observe::TraceEvent& event, std::string& out);

 private:
  std::int64_t wall_clock_ns_;  ///< what the event's clock lacks to the time since 1970
  LabelTexts labels_;
};

}  // namespace vitrine::cli
