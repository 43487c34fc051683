// The exporter over gRPC, against a server of gRPC's own library.
#include <gmock/gmock.h>

#include <thread>

#include "export/certificate.hpp"
#include "export/exporter.hpp"
#include "export/judgement.hpp"
#include "export/notes.hpp"
#include "export/receiver.hpp"

namespace vitrine::exporter {
namespace {

using namespace std::chrono_literals;
using test::Certificate;
using test::Folder;
using test::Receiver;
using test::Request;
using testing::Contains;
using testing::HasSubstr;
using testing::IsEmpty;

ExportOptions options_to(const std::string& url) {
  ExportOptions out;
  out.url = url;
  out.first_retry = 20ms;
  out.last_retry = 50ms;
  return out;
}

std::unique_ptr<Exporter> open(const ExportOptions& its) {
  auto opened = Exporter::open(its);
  EXPECT_TRUE(opened.has_value()) << opened.error().message;
  return std::move(*opened);
}

ExportCounters finished(Exporter& exporter) {
  exporter.finish(20s);
  exporter.stop();
  return exporter.counters();
}

TEST(Grpc, EachSignalHasItsServiceAndItsWords) {
  Receiver collector("grpc", {"partial:2:old"});
  ExportOptions its = options_to(collector.url());
  its.signal = Signal::logs;
  const auto to = open(its);
  to->send("a");
  EXPECT_EQ(collector.next().path, "/opentelemetry.proto.collector.logs.v1.LogsService/Export");
  EXPECT_EQ(finished(*to).rejected, 2U);
  EXPECT_THAT(to->take_notes(), Contains(HasSubstr("it rejected 2 log records: old")));
}

TEST(Grpc, SendsAsOtlpOverGrpcHasIt) {
  Receiver collector("grpc", {"ok"});
  ExportOptions its = options_to(collector.url());
  its.headers = {"X-Scope-OrgID: acme", "Authorization: Bearer a:b"};
  const auto to = open(its);
  const std::string body = std::string("\0\x01 any bytes", 12) + std::string(100'000, 'x');
  for (const std::string& one : {body, std::string("b"), std::string("c")}) to->send(one);
  const Request request = collector.next();
  EXPECT_EQ(request.path,
            "/opentelemetry.proto.collector.profiles.v1development.ProfilesService/Export");
  EXPECT_EQ(request.body, body);  // which the server has decompressed
  EXPECT_EQ(request.headers["x-scope-orgid"], "acme");
  EXPECT_EQ(request.headers["authorization"], "Bearer a:b");
  EXPECT_THAT(request.headers["user-agent"].get<std::string>(), testing::StartsWith("vitrine/"));
  EXPECT_EQ(collector.next().body, "b");
  EXPECT_EQ(collector.next().body, "c");
  EXPECT_EQ(finished(*to).sent, 3U);
  EXPECT_THAT(to->take_notes(), IsEmpty());
}

TEST(Grpc, TriesAgainAfterWhatMayPass) {
  Receiver collector(
      "grpc",
      {"14:starting", "4:", "1:", "10:", "11:", "15:", "13:the service is unavailable", "ok"});
  const auto to = open(options_to(collector.url()));
  to->send("a");
  for (const Request& request : collector.next(8)) EXPECT_EQ(request.body, "a");
  const ExportCounters counters = finished(*to);
  EXPECT_EQ(counters.sent, 1U);
  EXPECT_EQ(counters.retried, 7U);
  EXPECT_EQ(counters.refused, 0U);
  EXPECT_THAT(to->take_notes(), Contains(HasSubstr("UNAVAILABLE: starting; retrying")));
}

TEST(Grpc, WhatIsRefusedMakesWay) {
  Receiver collector("grpc", {"3:no dictionary", "16:", "12:", "7:", "13:broken", "2:", "ok"});
  const auto to = open(options_to(collector.url()));
  for (const char* text : {"a", "b", "c", "d", "e", "f", "g"}) to->send(text);
  std::string bodies;
  for (const Request& request : collector.next(7)) bodies += request.body;
  EXPECT_EQ(bodies, "abcdefg");
  const ExportCounters counters = finished(*to);
  EXPECT_EQ(counters.refused, 6U);
  EXPECT_EQ(counters.sent, 1U);
  const auto notes = to->take_notes();
  EXPECT_THAT(notes,
              Contains(HasSubstr("INVALID_ARGUMENT: no dictionary; the request was dropped")));
  EXPECT_THAT(notes, Contains(HasSubstr("OTEL_EXPORTER_OTLP_HEADERS")));
  EXPECT_THAT(notes, Contains(HasSubstr("profilesSupport")));
}

TEST(Grpc, APartialSuccessIsNeverSentAgain) {
  Receiver collector("grpc", {"partial:2:unknown tenant", "ok"});
  const auto to = open(options_to(collector.url()));
  to->send("a");
  to->send("b");
  EXPECT_EQ(collector.next().body, "a");
  EXPECT_EQ(collector.next().body, "b");
  const ExportCounters counters = finished(*to);
  EXPECT_EQ(counters.rejected, 2U);
  EXPECT_EQ(counters.sent, 2U);
  EXPECT_EQ(counters.retried, 0U);
  EXPECT_THAT(to->take_notes(), Contains(HasSubstr("rejected 2 profiles: unknown tenant")));
}

TEST(Grpc, WaitsAsLongAsRetryInfoAsksFor) {
  Receiver collector("grpc", {"retry:1:slow down", "ok"});
  const auto to = open(options_to(collector.url()));
  to->send("a");
  const auto requests = collector.next(2);
  EXPECT_GE(requests[1].at - requests[0].at, 1.0);
  EXPECT_EQ(finished(*to).sent, 1U);
}

TEST(Grpc, AnEngineThatLimitsGetsAllInSmallerRequests) {
  Receiver collector("grpc", {"above:100000:8"});
  ExportOptions its = options_to(collector.url());
  its.split = [](std::string_view request) {
    const std::size_t half = request.size() / 2;
    return std::vector<std::string>{std::string(request.substr(0, half)),
                                    std::string(request.substr(half))};
  };
  const auto to = open(its);
  to->send(std::string(300'000, 'x'));
  to->send("small");
  const ExportCounters counters = finished(*to);
  EXPECT_EQ(counters.sent, 5U);
  EXPECT_EQ(counters.split, 3U);
  EXPECT_EQ(counters.waiting, 0U);
  std::size_t bytes = 0;
  for (const Request& request : collector.next(counters.sent + counters.split + counters.retried))
    if (request.body.size() <= 100'000) bytes += request.body.size();
  EXPECT_EQ(bytes, 300'005U);
}

TEST(Grpc, AStallIsATimeout) {
  Receiver collector("grpc", {"stall", "ok"});
  ExportOptions its = options_to(collector.url());
  its.timeout = 500ms;
  const auto to = open(its);
  to->send("a");
  const auto requests = collector.next(2);
  EXPECT_GE(requests[1].at - requests[0].at, 0.4);
  EXPECT_EQ(finished(*to).sent, 1U);
}

TEST(Grpc, OverTlsWithCertificatesOfBothSides) {
  const Folder folder;
  const Certificate certificate(folder);
  Receiver collector(
      "grpc", {"--tls", certificate.file, certificate.key, "--clients", certificate.file, "ok"});
  ExportOptions its = options_to("otlp+grpcs://localhost:" + collector.port());
  its.authorities = certificate.file;
  its.certificate = certificate.file;
  its.key = certificate.key;
  const auto to = open(its);
  to->send("a");
  EXPECT_EQ(collector.next().body, "a");
  EXPECT_EQ(finished(*to).sent, 1U);
}

TEST(Grpc, AnUnknownCertificateGetsNothing) {
  const Folder folder;
  const Certificate certificate(folder);
  Receiver collector("grpc", {"--tls", certificate.file, certificate.key, "ok"});
  const auto to = open(options_to("otlp+grpcs://localhost:" + collector.port()));
  to->send("a");
  while (to->counters().retried == 0) std::this_thread::sleep_for(2ms);
  EXPECT_THAT(to->take_notes(), Contains(HasSubstr("is not trusted")));
}

TEST(Grpc, EachProtocolSaysThatThePortIsOfTheOther) {
  {
    Receiver grpc("grpc", {"ok"});
    const auto to = open(options_to("otlp+http://127.0.0.1:" + grpc.port()));
    to->send("a");
    const std::string port = "OTLP/HTTP is 4318";
    EXPECT_THAT(test::notes_until(*to, port), HasSubstr(port));
  }
  for (const char* interpreter : {"python3", "node"}) {
    Receiver http(interpreter, {"200"});
    const auto to = open(options_to("otlp+grpc://127.0.0.1:" + http.port()));
    to->send("a");
    const std::string port = "OTLP/gRPC is 4317";
    EXPECT_THAT(test::notes_until(*to, port), HasSubstr(port)) << interpreter;
  }
}

/// libcurl 7.88 loses the status that comes after a GOAWAY.
TEST(Grpc, AMessageIsOfWhatWasTaken) {
  Response response;
  response.protocol = Protocol::grpc;
  response.status = 200;
  response.type = "application/grpc";
  for (const std::string& body :
       {std::string(), std::string(4, '\0'), std::string("\0\0\0\0\x01", 5)}) {
    response.body = body;
    EXPECT_EQ(judge(response).verdict, Verdict::later) << body.size();
  }
  response.body = std::string("\0\0\0\0\x04\x0a\x02\x08\x03", 9);
  EXPECT_EQ(judge(response).verdict, Verdict::taken);
  EXPECT_EQ(judge(response).rejected, 3U);
  response.body = std::string("\x01\0\0\0\x02??", 7);  // compressed
  EXPECT_EQ(judge(response).verdict, Verdict::taken);
  response.grpc_status = 14;
  EXPECT_EQ(judge(response).verdict, Verdict::later);
  response.grpc_status.reset();
  response.type = "text/html";
  EXPECT_EQ(judge(response).verdict, Verdict::later);
}

}  // namespace
}  // namespace vitrine::exporter
