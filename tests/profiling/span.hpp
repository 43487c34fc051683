// What tenant_load says with its trace and span ids, for those who check that they are where they
// belong.
#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <string_view>

namespace vitrine::test {

struct Tenant {
  std::string_view name;
  int share;  ///< of CPU time, percent
};
inline constexpr std::array<Tenant, 3> tenants = {{{"acme", 70}, {"globex", 20}, {"initech", 10}}};

struct Span {
  std::uint8_t tenant = 0;  ///< index in `tenants`
  std::uint8_t worker = 0;
  std::uint32_t number = 0;  ///< a worker never uses one twice
  bool operator==(const Span&) const = default;
};

struct SpanIds {
  std::array<std::uint8_t, 16> trace_id{};
  std::array<std::uint8_t, 8> span_id{};
};

/// A span's two ids say the same, so that a mixture of two spans shows.
inline SpanIds ids_of(const Span& span) {
  SpanIds ids;
  ids.trace_id[0] = 0x7a;
  ids.span_id[0] = 0x5b;
  for (std::uint8_t* id : {ids.trace_id.data() + 1, ids.span_id.data() + 1}) {
    id[0] = span.tenant;
    id[1] = span.worker;
    std::memcpy(id + 2, &span.number, sizeof span.number);
  }
  return ids;
}

/// The span that a span id names.
inline Span span_of(const std::array<std::uint8_t, 8>& span_id) {
  Span span{span_id[1], span_id[2], 0};
  std::memcpy(&span.number, span_id.data() + 3, sizeof span.number);
  return span;
}

}  // namespace vitrine::test
