// URLs of collectors.
#include "export/endpoint.hpp"

#include <gtest/gtest.h>

namespace vitrine::exporter {
namespace {

TEST(Endpoint, PortAndPathHaveDefaults) {
  const auto url = [](const char* text) { return parse_endpoint(text).value().url; };
  EXPECT_EQ(url("otlp+http://host"), "http://host:4318/v1development/profiles");
  EXPECT_EQ(url("otlp+http://host:1/"), "http://host:1/v1development/profiles");
  EXPECT_EQ(url("otlp+http://host:1/a/b?c=d"), "http://host:1/a/b?c=d");
  EXPECT_EQ(url("otlp+https://host"), "https://host/v1development/profiles");
  EXPECT_EQ(url("otlp+http://[::1]:4318"), "http://[::1]:4318/v1development/profiles");
}

TEST(Endpoint, EnginesHaveTheirPortsAndNames) {
  const auto url = [](const char* text) { return parse_endpoint(text).value().url; };
  EXPECT_EQ(url("pyroscope+http://host"), "http://host:4040/v1development/profiles");
  EXPECT_EQ(url("pyroscope+https://host"), "https://host/v1development/profiles");
  const std::string method =
      "/opentelemetry.proto.collector.profiles.v1development.ProfilesService/Export";
  EXPECT_EQ(url("otlp+grpc://host"), "http://host:4317" + method);
  EXPECT_EQ(url("otlp+grpcs://host"), "https://host" + method);
  EXPECT_EQ(url("parca+grpc://host/"), "http://host:7070" + method);
  EXPECT_EQ(parse_endpoint("parca+grpc://host")->protocol, Protocol::grpc);
  EXPECT_EQ(parse_endpoint("otlp+http://host")->protocol, Protocol::http);
  EXPECT_EQ(engine_of("parca+grpc://host"), Engine::parca);
  EXPECT_EQ(engine_of("pyroscope+http://host"), Engine::pyroscope);
  EXPECT_EQ(engine_of("otlp+http://host"), Engine::otlp);
  EXPECT_EQ(engine_of("otlp"), Engine::otlp);
}

TEST(Endpoint, ATableOfClickHouse) {
  const auto url = [](const char* text) { return parse_endpoint(text).value().url; };
  const std::string insert =
      "/?async_insert=0&insert_deduplicate=1&wait_end_of_query=1&input_format_skip_unknown_fields="
      "1&"
      "query=INSERT+INTO+";
  EXPECT_EQ(url("clickhouse+http://host"),
            "http://host:8123" + insert + "samples+FORMAT+JSONEachRow");
  EXPECT_EQ(url("clickhouse+https://me:word@host/fleet.rows"),
            "https://me:word@host" + insert + "fleet.rows+FORMAT+JSONEachRow");
  EXPECT_EQ(engine_of("clickhouse+http://host"), Engine::clickhouse);
  EXPECT_EQ(parse_endpoint("clickhouse+http://host")->protocol, Protocol::clickhouse);
  for (const char* table : {"a.b.c", "a;b", "1st", "a-b", ".a", "a.", "a/b", "a%20b"}) {
    const auto endpoint = parse_endpoint("clickhouse+http://host/" + std::string(table));
    ASSERT_FALSE(endpoint.has_value()) << table << " is " << endpoint->url;
    EXPECT_EQ(endpoint.error().code, ErrorCode::usage) << table;
  }
}

TEST(Endpoint, EachSignalHasAPathAndAMethod) {
  const auto url = [](const char* text, Signal signal) {
    return parse_endpoint(text, false, signal).value().url;
  };
  EXPECT_EQ(url("otlp+http://host", Signal::metrics), "http://host:4318/v1/metrics");
  EXPECT_EQ(url("otlp+http://host", Signal::traces), "http://host:4318/v1/traces");
  EXPECT_EQ(url("otlp+https://host", Signal::logs), "https://host/v1/logs");
  EXPECT_EQ(url("otlp+http://host/own", Signal::logs), "http://host:4318/own");
  EXPECT_EQ(url("otlp+grpc://host", Signal::metrics),
            "http://host:4317/opentelemetry.proto.collector.metrics.v1.MetricsService/Export");
  EXPECT_EQ(url("otlp+grpc://host", Signal::traces),
            "http://host:4317/opentelemetry.proto.collector.trace.v1.TraceService/Export");
  EXPECT_EQ(url("otlp+grpc://host", Signal::logs),
            "http://host:4317/opentelemetry.proto.collector.logs.v1.LogsService/Export");
  for (const char* text : {"pyroscope+http://host", "parca+grpc://host", "clickhouse+http://host"})
    EXPECT_FALSE(parse_endpoint(text, false, Signal::metrics).has_value()) << text;
}

TEST(Endpoint, ItsNameTellsNoSecret) {
  EXPECT_EQ(parse_endpoint("otlp+http://me:secret@host").value().name, "host:4318");
  EXPECT_EQ(parse_endpoint("otlp+https://me:secret@host").value().name, "host:443");
}

TEST(Endpoint, OthersAreRefused) {
  for (const char* text :
       {"", "http://host:4318", "otlp", "otlp+", "otlp+http://", "otlp+file:///etc/passwd",
        "otlp+ftp://host", "otlp+grpc://host/path", "otlp+grpc://host?a=b", "parca+http://host",
        "grpc://host", "otlp+http://host:0x1", "otlp+http://host:99999", "otlp+http://a b",
        "otlp+http://host/\r\nX: y", "otlp+http://h#f"}) {
    const auto endpoint = parse_endpoint(text);
    ASSERT_FALSE(endpoint.has_value()) << text << " is " << endpoint->url;
    EXPECT_EQ(endpoint.error().code, ErrorCode::usage) << text;
  }
}

TEST(Endpoint, OriginIsSchemeHostAndPort) {
  EXPECT_TRUE(same_origin("http://host:80/a", "http://host/b"));
  EXPECT_FALSE(same_origin("http://host/a", "https://host/a"));
  EXPECT_FALSE(same_origin("http://host/a", "http://host:81/a"));
  EXPECT_FALSE(same_origin("http://host/a", "http://host.evil/a"));
  EXPECT_FALSE(same_origin("http://host/a", "http://host@evil/a"));
  EXPECT_FALSE(same_origin("http://host/a", "not a URL"));
}

}  // namespace
}  // namespace vitrine::exporter
