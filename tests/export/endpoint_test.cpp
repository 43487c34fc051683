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
