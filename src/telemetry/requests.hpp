// Requests: encoded metrics, spans or log records as messages that an engine takes.
//
// The requests of the three signals have one shape: ExportXServiceRequest { ResourceX = 1 {
// Resource = 1, ScopeX = 2 { InstrumentationScope = 1, items = 2, schema_url = 3 }, schema_url = 3
// } }.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

namespace vitrine::telemetry {

class Requests {
 public:
  /// Of one signal. `max_bytes`: of one request; an item that alone is larger is left out.
  explicit Requests(std::size_t max_bytes) : max_bytes_(max_bytes) {}

  /// Takes an item of a resource, both encoded.
  void add(const std::string& resource, std::string item);

  /// How much waits for take().
  [[nodiscard]] std::size_t bytes() const { return bytes_; }
  /// Items that were left out.
  [[nodiscard]] std::uint64_t too_large() const { return too_large_; }

  /// What has come since the last call, in that order.
  std::vector<std::string> take();

 private:
  void close();

  std::size_t max_bytes_;
  std::size_t bytes_ = 0, open_bytes_ = 0;
  std::uint64_t too_large_ = 0;
  /// Of the request that is being made: by resource, as they came.
  std::vector<std::pair<std::string, std::vector<std::string>>> open_;
  std::unordered_map<std::string, std::size_t> places_;  ///< of resources in it
  std::vector<std::string> closed_;
};

/// A request as two with the same items; fewer: it has one item, or is not one of vitrine's.
std::vector<std::string> split_request(std::string_view request);

}  // namespace vitrine::telemetry
