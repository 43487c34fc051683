// SpanLogs: the reader's side of the logs by which the profiling program hands over samples of spans
// (docs/essays/rows.md).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "bpf/wire/spans.h"

namespace vitrine::bpf {

class SpanLogs {
 public:
  /// `mapped`: the places of all logs, one log behind the other, each with `places` of them.
  SpanLogs(std::span<vitrine_span_place> mapped, std::size_t places)
      : mapped_(mapped), places_(places), next_(mapped.size() / places) {}

  /// Calls `sink(const vitrine_span_sample&)` for each sample of each log, in the order in which it was put there. False:
  /// it and what follows in its log stay. Returns how many did not.
  template <class Sink>
  std::size_t take(Sink sink) {
    std::size_t taken = 0;
    vitrine_span_sample span;
    for (std::size_t log = 0; log < next_.size(); ++log)
      while (vitrine_span_get(&place_of(log), &span) != 0 && sink(span)) {
        vitrine_span_free(&place_of(log));
        ++next_[log];
        ++taken;
      }
    return taken;
  }

 private:
  vitrine_span_place& place_of(std::size_t log) {
    return mapped_[log * places_ + next_[log] % places_];
  }

  std::span<vitrine_span_place> mapped_;
  std::size_t places_;
  std::vector<std::size_t> next_;  // of each log, which place is taken next
};

}  // namespace vitrine::bpf
