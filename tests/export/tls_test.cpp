// TLS: whom we trust, and who we are.
#include <gmock/gmock.h>

#include <thread>

#include "export/exporter.hpp"
#include "export/receiver.hpp"

namespace vitrine::exporter {
namespace {

using namespace std::chrono_literals;
using test::Folder;
using test::Receiver;
using testing::Contains;
using testing::HasSubstr;

/// A certificate that signs itself, for localhost.
struct Certificate {
  explicit Certificate(const Folder& folder)
      : file((folder / "cert.pem").string()), key((folder / "key.pem").string()) {
    const test::Outcome made = test::run(
        {"openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256",
         "-nodes", "-days", "2", "-subj", "/CN=localhost", "-addext",
         "subjectAltName=DNS:localhost,IP:127.0.0.1", "-keyout", key, "-out", file});
    EXPECT_EQ(made.status, 0) << made.err;
  }
  std::string file, key;
};

class Tls : public testing::TestWithParam<std::string> {
 protected:
  Folder folder_;
  Certificate certificate_{folder_};
  Receiver collector_{GetParam(), {"--tls", certificate_.file, certificate_.key, "200"}};

  ExportOptions options(const std::string& host) const {
    ExportOptions out;
    out.url = "otlp+https://" + host + ":" + collector_.port();
    out.first_retry = out.last_retry = std::chrono::hours(1);
    return out;
  }
};
INSTANTIATE_TEST_SUITE_P(, Tls, testing::Values("python3", "node"),
                         [](const auto& its) { return its.param; });

TEST_P(Tls, ACollectorThatNobodyKnowsGetsNothing) {
  const auto to = Exporter::open(options("localhost")).value();
  to->send("a");
  while (to->counters().retried == 0) std::this_thread::sleep_for(2ms);
  EXPECT_THAT(to->take_notes(),
              Contains(testing::AllOf(HasSubstr("is not trusted"),
                                      HasSubstr("OTEL_EXPORTER_OTLP_CERTIFICATE"))));
  EXPECT_EQ(to->counters().waiting, 1U);
}

TEST_P(Tls, OneWhoseAuthorityIsNamedDoes) {
  ExportOptions its = options("localhost");
  its.authorities = certificate_.file;
  const auto to = Exporter::open(its).value();
  to->send("a");
  EXPECT_EQ(collector_.next().body, "a");
  to->finish(20s);
  EXPECT_EQ(to->counters().sent, 1U);
}

}  // namespace
}  // namespace vitrine::exporter
