// OpenTelemetry's environment variables.
#include "export/environment.hpp"

#include <gmock/gmock.h>

#include <map>

#include "export/endpoint.hpp"

namespace vitrine::exporter {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

Result<ExportOptions> with(std::map<std::string, std::string> variables,
                           ExportOptions options = {}) {
  return with_environment(std::move(options),
                          [variables](const std::string& name) -> std::optional<std::string> {
                            const auto found = variables.find(name);
                            if (found == variables.end()) return std::nullopt;
                            return found->second;
                          });
}

ExportOptions otlp() {
  ExportOptions options;
  options.url = "otlp";
  return options;
}

TEST(Environment, HeadersAreUnescaped) {
  EXPECT_THAT(
      with({{"OTEL_EXPORTER_OTLP_HEADERS", " a=b%20c , Authorization = Basic%20eA==,"}})->headers,
      ElementsAre("a: b c", "Authorization: Basic eA=="));
}

TEST(Environment, TheCommandLineGoesFirst) {
  ExportOptions options;
  options.headers = {"X-Scope: mine"};
  EXPECT_THAT(with({{"OTEL_EXPORTER_OTLP_HEADERS", "x-scope=theirs,other=1"}}, options)->headers,
              ElementsAre("X-Scope: mine", "other: 1"));
}

TEST(Environment, ProfilesHaveTheirOwn) {
  EXPECT_THAT(
      with({{"OTEL_EXPORTER_OTLP_HEADERS", "a=1"}, {"OTEL_EXPORTER_OTLP_PROFILES_HEADERS", "b=2"}})
          ->headers,
      ElementsAre("b: 2"));
}

TEST(Environment, EachSignalHasItsOwn) {
  ExportOptions options = otlp();
  options.signal = Signal::metrics;
  const auto taken = with({{"OTEL_EXPORTER_OTLP_ENDPOINT", "http://host"},
                           {"OTEL_EXPORTER_OTLP_PROFILES_HEADERS", "b=2"},
                           {"OTEL_EXPORTER_OTLP_METRICS_HEADERS", "c=3"}},
                          options);
  EXPECT_EQ(taken->url, "otlp+http://host/v1/metrics");
  EXPECT_THAT(taken->headers, ElementsAre("c: 3"));
}

TEST(Environment, AWrongListIsNamedAndNotShown) {
  for (const char* list : {"secret", "a=%4", "a=%zz", "=secret", "a=%"}) {
    const auto options = with({{"OTEL_EXPORTER_OTLP_HEADERS", list}});
    ASSERT_FALSE(options.has_value()) << list;
    EXPECT_EQ(options.error().code, ErrorCode::usage);
    EXPECT_THAT(options.error().message, HasSubstr("OTEL_EXPORTER_OTLP_HEADERS"));
    EXPECT_THAT(options.error().message, Not(HasSubstr("secret")));
  }
}

TEST(Environment, EndpointsOfAllSignalsAreRoots) {
  EXPECT_EQ(with({}, otlp())->url, "otlp+http://localhost:4318/v1development/profiles");
  EXPECT_EQ(with({{"OTEL_EXPORTER_OTLP_ENDPOINT", "https://host/base/"}}, otlp())->url,
            "otlp+https://host/base/v1development/profiles");
  EXPECT_EQ(with({{"OTEL_EXPORTER_OTLP_ENDPOINT", "http://host"},
                  {"OTEL_EXPORTER_OTLP_PROFILES_ENDPOINT", "http://other/p"}},
                 otlp())
                ->url,
            "otlp+http://other/p");
}

/// As OpenTelemetry has it: no port and no path is put into what the environment says.
TEST(Environment, EndpointsAreTakenAsTheyStand) {
  const auto sent_to = [](const std::map<std::string, std::string>& variables) {
    const auto options = with(variables, otlp()).value();
    return parse_endpoint(options.url, options.url_is_whole).value().url;
  };
  const std::string own = "OTEL_EXPORTER_OTLP_PROFILES_ENDPOINT";
  EXPECT_EQ(sent_to({{own, "http://host:4318"}}), "http://host:4318/");
  EXPECT_EQ(sent_to({{own, "http://host/v1/x"}}), "http://host/v1/x");
  const std::string all = "OTEL_EXPORTER_OTLP_ENDPOINT";
  EXPECT_EQ(sent_to({{all, "http://host:4318"}}), "http://host:4318/v1development/profiles");
  EXPECT_EQ(sent_to({{all, "http://host/a/"}}), "http://host/a/v1development/profiles");
  EXPECT_EQ(sent_to({}), "http://localhost:4318/v1development/profiles");
}

TEST(Environment, TheProtocolChoosesGrpc) {
  const auto url = [](std::map<std::string, std::string> variables) {
    return with(std::move(variables), otlp())->url;
  };
  EXPECT_EQ(url({{"OTEL_EXPORTER_OTLP_PROTOCOL", "grpc"}}), "otlp+grpc://localhost:4317");
  EXPECT_EQ(url({{"OTEL_EXPORTER_OTLP_PROTOCOL", "grpc"},
                 {"OTEL_EXPORTER_OTLP_ENDPOINT", "https://host:4317/"}}),
            "otlp+grpcs://host:4317");
  EXPECT_EQ(url({{"OTEL_EXPORTER_OTLP_PROTOCOL", "grpc"},
                 {"OTEL_EXPORTER_OTLP_PROFILES_PROTOCOL", "http/protobuf"}}),
            "otlp+http://localhost:4318/v1development/profiles");
}

TEST(Environment, AUrlThatIsGivenStays) {
  ExportOptions options;
  options.url = "otlp+http://given";
  EXPECT_EQ(with({{"OTEL_EXPORTER_OTLP_ENDPOINT", "http://host"}}, options)->url,
            "otlp+http://given");
}

TEST(Environment, FilesOfTls) {
  const auto options = with({{"OTEL_EXPORTER_OTLP_CERTIFICATE", "/a"},
                             {"OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE", "/b"},
                             {"OTEL_EXPORTER_OTLP_CLIENT_KEY", "/c"}});
  EXPECT_EQ(options->authorities, "/a");
  EXPECT_EQ(options->certificate, "/b");
  EXPECT_EQ(options->key, "/c");
}

}  // namespace
}  // namespace vitrine::exporter
