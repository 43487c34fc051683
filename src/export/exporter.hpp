// Exporter: sends the requests of one signal to an engine, and keeps those that it does not take
// yet.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "export/signal.hpp"

namespace vitrine::exporter {

struct ExportOptions {
  Signal signal = Signal::profiles;  ///< of all that is sent
  /// A URL of parse_endpoint, or `otlp`: the value of the environment variable.
  std::string url;
  bool url_is_whole = false;                     ///< see parse_endpoint
  std::vector<std::string> headers;              ///< "Name: value"
  std::chrono::milliseconds timeout{10'000};     ///< of one try
  std::chrono::milliseconds first_retry{1'000};  ///< doubles, with jitter, up to last_retry
  std::chrono::milliseconds last_retry{60'000};
  std::string spool;              ///< directory; empty: kept in memory
  std::uint64_t spool_bytes = 0;  ///< gzipped; 0: 256 MiB in a directory, 64 MiB in memory
  // TLS: PEM files; empty: the system's authorities, and no client certificate.
  std::string authorities;
  std::string certificate;
  std::string key;
  /// Called first in the thread that sends; empty: nothing is.
  std::function<void()> begin_thread;
  /// A request as smaller ones with the same content, in the thread that sends; fewer than two: it
  /// cannot be split. Empty: none can.
  std::function<std::vector<std::string>(std::string_view request)> split;
};

struct ExportCounters {
  std::uint64_t sent = 0;        ///< requests that were taken
  std::uint64_t retried = 0;     ///< tries that failed and are repeated
  std::uint64_t split = 0;       ///< requests that were too large, sent as smaller ones
  std::uint64_t refused = 0;     ///< requests that never will be taken, dropped
  std::uint64_t rejected = 0;    ///< items of requests taken in part (partial_success)
  std::uint64_t overflowed = 0;  ///< requests dropped as the spool was full
  std::uint64_t skipped = 0;  ///< files in the spool that are no requests of vitrine's, left there
  std::uint64_t waiting = 0;  ///< requests now in the spool
  std::uint64_t unwritten = 0;  ///< of those, in memory alone, as the directory cannot be written
  std::uint64_t waiting_bytes = 0;  ///< of those in the spool, gzipped
  std::uint64_t oldest_ns = 0;      ///< Unix time when the oldest one came; 0: none waits
};

/// Of several exporters, at once or one after another.
inline ExportCounters& operator+=(ExportCounters& sum, const ExportCounters& more) {
  sum.sent += more.sent;
  sum.retried += more.retried;
  sum.split += more.split;
  sum.refused += more.refused;
  sum.rejected += more.rejected;
  sum.overflowed += more.overflowed;
  sum.skipped += more.skipped;
  sum.waiting += more.waiting;
  sum.unwritten += more.unwritten;
  sum.waiting_bytes += more.waiting_bytes;
  if (more.oldest_ns != 0 && (sum.oldest_ns == 0 || more.oldest_ns < sum.oldest_ns))
    sum.oldest_ns = more.oldest_ns;
  return sum;
}

/// Has a thread of its own; what it is given returns at once. Whatever becomes of a request is in
/// the counters: none is lost silently. A request may arrive twice (its response was lost), as OTLP
/// allows. Requests go out in the order in which they came; one that the engine received twice and
/// did not accept goes behind the others, so that it blocks none.
class Exporter {
 public:
  /// Errors: usage (URL, header; a spool that other users can write to, or is in use); failed (the spool
  /// cannot be made); unsupported (libcurl is not installed, or was not when this was built).
  static Result<std::unique_ptr<Exporter>> open(ExportOptions options);
  /// Whether open() takes them, as far as that shows without a spool, and without a connection. Errors: usage,
  /// unsupported.
  static Result<void> check(const ExportOptions& options);
  /// A spool on disk has all that was not sent; one in memory is lost.
  virtual ~Exporter() = default;

  /// Takes one encoded request.
  virtual void send(std::string request) = 0;

  /// Waits until all is sent, or `deadline` has passed. Does not wait for a pause between tries
  /// to end, unless the collector asked for it.
  virtual void finish(std::chrono::milliseconds deadline) = 0;

  /// Ends the thread: counters() is final from then on.
  virtual void stop() = 0;

  [[nodiscard]] virtual ExportCounters counters() const = 0;
  /// What went wrong since the last call, and that it works again: each once. Any bytes.
  virtual std::vector<std::string> take_notes() = 0;
};

}  // namespace vitrine::exporter
