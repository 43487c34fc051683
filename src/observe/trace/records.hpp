// Fires as log records of OpenTelemetry, and pairs as spans.
#pragma once

#include <cstdint>

#include "observe/trace/trace.hpp"
#include "telemetry/records.hpp"

namespace vitrine::observe {

/// What a fire and a pair have as attributes: arguments as "arg.NAME" or "arg.0", labels under their
/// own keys ("label.KEY" where that is one of the others), the thread, the probe, and, if there is
/// one, the stack as code.stacktrace. Of a pair, arguments of the start are "start.NAME".
///
/// A log record is of the span that the thread was in; a span is its child, or the root of a trace of
/// its own. `wall_clock_ns`: what the clock of events lacks to the time since 1970.
telemetry::LogRecord log_record_of(const TraceEvent& event, std::int64_t wall_clock_ns);

/// `event` has a start.
telemetry::Span span_of(const TraceEvent& event, std::int64_t wall_clock_ns,
                        telemetry::SpanIds& ids);

}  // namespace vitrine::observe
