// TLS: whom we trust, and who we are.
#include <gmock/gmock.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <thread>

#include "export/certificate.hpp"
#include "export/exporter.hpp"
#include "export/notes.hpp"
#include "export/receiver.hpp"

namespace vitrine::exporter {
namespace {

using namespace std::chrono_literals;
using test::Certificate;
using test::Folder;
using test::Receiver;
using testing::Contains;
using testing::HasSubstr;

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

// A folder in place of the system's authorities: a mount that this thread has, and those that it starts.
TEST_P(Tls, NamedAuthoritiesAreInsteadOfTheSystems) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root: mounts";
  const Folder system;
  const auto hash = test::run({"openssl", "x509", "-noout", "-hash", "-in", certificate_.file});
  ASSERT_EQ(hash.status, 0) << hash.err;
  std::filesystem::copy(certificate_.file,
                        system / (hash.out.substr(0, hash.out.find('\n')) + ".0"));
  const Folder others_folder;
  const Certificate other(others_folder, "DNS:other.example", "/CN=other.example");
  std::filesystem::copy(other.file, system / "ca-certificates.crt");  // the system's file beside it
  std::thread([&] {
    ASSERT_EQ(::unshare(CLONE_NEWNS), 0);
    ASSERT_EQ(::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr), 0);
    ASSERT_EQ(::mount((system / "").c_str(), "/etc/ssl/certs", nullptr, MS_BIND, nullptr), 0);
    ExportOptions its = options("localhost");
    {
      const auto to = Exporter::open(its).value();
      to->send("by the system's");
      to->finish(20s);
      ASSERT_EQ(to->counters().sent, 1U) << "this libcurl has no such folder";
    }
    its.authorities = other.file;
    const auto to = Exporter::open(its).value();
    to->send("by others");
    while (to->counters().retried + to->counters().sent == 0) std::this_thread::sleep_for(2ms);
    EXPECT_EQ(to->counters().sent, 0U);
  }).join();
}

TEST_P(Tls, ACollectorWithoutItIsNamed) {
  Receiver plain(GetParam(), {"200"});
  ExportOptions its = options("localhost");
  its.url = "otlp+https://127.0.0.1:" + plain.port();
  const auto to = Exporter::open(its).value();
  to->send("a");
  const std::string next = "use otlp+http://";
  EXPECT_THAT(test::notes_until(*to, next),
              testing::AllOf(HasSubstr("it does not speak TLS"), HasSubstr(next),
                             HasSubstr("; retrying profiles")));
}

TEST_P(Tls, OneOfAnotherNameIsNoMatterOfAuthorities) {
  const Folder folder;
  const Certificate other(folder, "DNS:other.example");
  Receiver collector(GetParam(), {"--tls", other.file, other.key, "200"});
  ExportOptions its = options("localhost");
  its.url = "otlp+https://localhost:" + collector.port();
  its.authorities = other.file;
  const auto to = Exporter::open(its).value();
  to->send("a");
  const std::string notes = test::notes_until(*to, "is not valid");
  EXPECT_THAT(notes, HasSubstr("its certificate is not valid (SSL: no alternative certificate "
                               "subject name matches target"));
  EXPECT_THAT(notes, testing::Not(HasSubstr("OTEL_EXPORTER_OTLP_CERTIFICATE")));
}

TEST_P(Tls, FilesThatCannotBeUsedAreRefusedBeforeAnythingIsSent) {
  const Folder others_folder;
  const Certificate other(others_folder);
  const std::string empty = (folder_ / "empty.pem").string();
  std::ofstream(empty).close();
  const auto refused = [&](const std::string& authorities, const std::string& certificate,
                           const std::string& key) {
    ExportOptions its = options("localhost");
    its.authorities = authorities;
    its.certificate = certificate;
    its.key = key;
    const auto opened = Exporter::open(its);
    return opened ? std::string() : opened.error().message;
  };
  EXPECT_THAT(refused("/no/such.pem", "", ""), HasSubstr("invalid authorities /no/such.pem"));
  EXPECT_THAT(refused(empty, "", ""), HasSubstr("invalid authorities"));
  EXPECT_THAT(refused("", "/no/such.pem", "/no/key.pem"), HasSubstr("invalid client certificate"));
  EXPECT_THAT(refused("", certificate_.file, other.key), HasSubstr("invalid client certificate"));
  EXPECT_THAT(refused("", empty, certificate_.key), HasSubstr("invalid client certificate"));
  // Of a pipe, whatever writes to it may come never.
  const std::string pipe = (folder_ / "pipe").string();
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_THAT(refused(pipe, "", ""), HasSubstr(pipe + " is a pipe"));
  EXPECT_THAT(refused("", pipe, certificate_.key), HasSubstr(pipe + " is a pipe"));
  EXPECT_THAT(refused("", certificate_.file, pipe), HasSubstr(pipe + " is a pipe"));
  EXPECT_EQ(refused(certificate_.file, certificate_.file, certificate_.key), "");
}

TEST_P(Tls, ACollectorThatRequiresACertificateSaysWhichVariablesNameOne) {
  Receiver strict(GetParam(), {"--tls", certificate_.file, certificate_.key, "--clients",
                               certificate_.file, "200"});
  ExportOptions its = options("localhost");
  its.url = "otlp+https://localhost:" + strict.port();
  its.authorities = certificate_.file;
  its.first_retry = its.last_retry = 10ms;
  {
    const auto to = Exporter::open(its).value();
    to->send("a");
    const std::string variable = "OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE";
    EXPECT_THAT(test::notes_until(*to, variable), HasSubstr(variable));
  }
  its.certificate = certificate_.file;
  its.key = certificate_.key;
  const auto to = Exporter::open(its).value();
  to->send("b");
  EXPECT_EQ(strict.next().body, "b");
}

}  // namespace
}  // namespace vitrine::exporter
