// Exporter: sends profiles to an OpenTelemetry Collector, and keeps those that it does not take yet.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.hpp"

namespace vitrine::send {

struct ExportOptions {
  /// `otlp+http://host:4318[/path]` or `otlp+https://…`; without a path: /v1development/profiles.
  std::string url;
  std::vector<std::string> headers;              ///< "Name: value"
  std::chrono::milliseconds timeout{10'000};     ///< of one try
  std::chrono::milliseconds first_retry{1'000};  ///< doubles, with jitter, up to last_retry
  std::chrono::milliseconds last_retry{60'000};
  std::string spool;                       ///< directory; empty: kept in memory
  std::uint64_t spool_bytes = 256U << 20;  ///< the oldest go first beyond this, and are counted
  std::uint64_t request_bytes = 4U << 20;  ///< most of one request, before gzip
};

struct ExportCounters {
  std::uint64_t sent = 0;        ///< requests that were taken
  std::uint64_t retried = 0;     ///< tries that are to be repeated
  std::uint64_t refused = 0;     ///< requests that never will be taken, dropped
  std::uint64_t rejected = 0;    ///< profiles of requests taken in part (partial_success)
  std::uint64_t overflowed = 0;  ///< requests dropped as the spool was full
  std::uint64_t waiting = 0;     ///< requests now in the spool
};

/// Has a thread of its own; what it is given returns at once.
class Exporter {
 public:
  /// Errors: usage (URL), failed (the spool cannot be made).
  static Result<std::unique_ptr<Exporter>> open(ExportOptions options);
  virtual ~Exporter() = default;

  /// Takes one encoded request (profile::encode_otlp).
  virtual void send(std::string request) = 0;

  /// Waits until all is sent, or `deadline` has passed. What is left stays in a spool on disk.
  virtual void finish(std::chrono::milliseconds deadline) = 0;

  [[nodiscard]] virtual ExportCounters counters() const = 0;
  /// What went wrong since the last call, each once.
  virtual std::vector<std::string> take_notes() = 0;
};

}  // namespace vitrine::send
