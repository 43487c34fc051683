// The exporter against collectors of two stacks that behave, and that do not.
#include "export/exporter.hpp"

#include <gmock/gmock.h>
#include <malloc.h>

#include <random>
#include <thread>

#include "base/limits.hpp"
#include "export/full_disk.hpp"
#include "export/receiver.hpp"
#include "export/trouble.hpp"

namespace vitrine::exporter {
namespace {

using namespace std::chrono_literals;
using test::Receiver;
using test::Request;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

constexpr std::chrono::seconds patience{20};

ExportOptions options(const std::string& url) {
  ExportOptions out;
  out.url = url;
  out.first_retry = 50ms;
  out.last_retry = 200ms;
  return out;
}

std::unique_ptr<Exporter> exporter(const ExportOptions& its) {
  auto opened = Exporter::open(its);
  EXPECT_TRUE(opened.has_value()) << opened.error().message;
  return std::move(*opened);
}

/// Until the exporter has counted what `ready` wants.
template <class Ready>
ExportCounters wait_for(const Exporter& exporter, Ready ready) {
  const auto deadline = std::chrono::steady_clock::now() + patience;
  while (!ready(exporter.counters()) && std::chrono::steady_clock::now() < deadline)
    std::this_thread::sleep_for(2ms);
  return exporter.counters();
}

/// Waits for all notes that there will be about one trouble.
std::vector<std::string> notes_after(Exporter& exporter) {
  exporter.finish(patience);
  return exporter.take_notes();
}

class ExporterTo : public testing::TestWithParam<std::string> {
 protected:
  static Receiver receiver(std::vector<std::string> answers) {
    return Receiver(GetParam(), std::move(answers));
  }
};
INSTANTIATE_TEST_SUITE_P(, ExporterTo, testing::Values("python3", "node"),
                         [](const auto& its) { return its.param; });

TEST(Exporter, TriesAtTheEndWhatTheDiskDidNotTake) {
  test::Folder folder;
  ExportOptions its = options("otlp+http://127.0.0.1:9");  // where nobody listens
  its.spool = folder.string();
  const auto to = exporter(its);
  {
    const test::FullDisk full;
    to->send("a request");
    EXPECT_EQ(wait_for(*to, [](const auto& now) { return now.unwritten == 1; }).unwritten, 1U);
  }
  to->stop();
  EXPECT_EQ(to->counters().unwritten, 0U);
}

TEST_P(ExporterTo, SendsAsOtlpOverHttpHasIt) {
  Receiver collector = receiver({"200"});
  ExportOptions its = options(collector.url());
  its.headers = {"X-Scope-OrgID: acme", "Authorization: Bearer a:b"};
  const auto to = exporter(its);
  const std::string body = std::string("\0\x01 any bytes", 12) + std::string(100'000, 'x');
  to->send(body);
  const Request request = collector.next();
  EXPECT_EQ(request.path, "/v1development/profiles");
  EXPECT_EQ(request.body, body);
  EXPECT_EQ(request.headers["content-type"], "application/x-protobuf");
  EXPECT_EQ(request.headers["content-encoding"], "gzip");
  EXPECT_EQ(request.headers["x-scope-orgid"], "acme");
  EXPECT_EQ(request.headers["authorization"], "Bearer a:b");
  EXPECT_THAT(request.headers["user-agent"].get<std::string>(), testing::StartsWith("vitrine/"));
  EXPECT_FALSE(request.headers.contains("expect"));
  EXPECT_THAT(notes_after(*to), IsEmpty());
  EXPECT_EQ(to->counters().sent, 1U);
  EXPECT_EQ(to->counters().waiting, 0U);
}

TEST_P(ExporterTo, InTheOrderGiven) {
  Receiver collector = receiver({"200"});
  const auto to = exporter(options(collector.url("/other/path")));
  for (const char* text : {"a", "b", "c"}) to->send(text);
  for (const char* text : {"a", "b", "c"}) {
    const Request request = collector.next();
    EXPECT_EQ(request.body, text);
    EXPECT_EQ(request.path, "/other/path");
  }
}

TEST_P(ExporterTo, TriesAgainUntilItIsTaken) {
  Receiver collector = receiver({"close", "503", "429", "502", "504", "200"});
  const auto to = exporter(options(collector.url()));
  to->send("a");
  for (const Request& request : collector.next(6)) EXPECT_EQ(request.body, "a");
  const std::vector<std::string> notes = notes_after(*to);
  EXPECT_EQ(to->counters().sent, 1U);
  EXPECT_EQ(to->counters().retried, 5U);
  EXPECT_EQ(to->counters().refused, 0U);
  EXPECT_THAT(notes, Contains(HasSubstr("503")));
  EXPECT_EQ(notes.back(), "127.0.0.1:" + collector.port() + " accepts profiles again");
}

TEST_P(ExporterTo, AFailureThatComesAndGoesIsReportedOnceAMinute) {
  Receiver collector = receiver({"503", "200", "503", "200", "503", "200", "503", "200"});
  const auto to = exporter(options(collector.url()));
  for (const char* text : {"a", "b", "c", "d"}) to->send(text);
  collector.next(8);
  EXPECT_THAT(notes_after(*to), ElementsAre(HasSubstr("503"), HasSubstr("accepts profiles again"),
                                            HasSubstr("3 more failures")));
  EXPECT_EQ(to->counters().sent, 4U);
  EXPECT_EQ(to->counters().retried, 4U);
}

TEST(Trouble, IsReportedAgainAfterAMinuteAndCountedMeanwhile) {
  Trouble trouble;
  const Trouble::Time start{};
  EXPECT_TRUE(trouble.add("503", start));
  EXPECT_TRUE(trouble.add("timed out after 3 ms", start + 1s));  // another one
  EXPECT_FALSE(trouble.add("timed out after 4 ms", start + 2s));
  for (int second = 2; second < 32; ++second) {
    EXPECT_FALSE(trouble.add("", start + std::chrono::seconds(second)));
    EXPECT_FALSE(trouble.add("503", start + std::chrono::seconds(second)));
  }
  EXPECT_EQ(trouble.take_left_out(start + 32s, false), 0U);
  // The last one lasts: it is reported, and not counted. A new report does not put the number off.
  EXPECT_TRUE(trouble.add("503", start + 61s));
  EXPECT_FALSE(trouble.add("503", start + 62s));
  EXPECT_EQ(trouble.take_left_out(start + 62s, false), 29U);
  EXPECT_EQ(trouble.take_left_out(start + 200s, true), 0U);
}

TEST(Trouble, FailuresThatAllDifferAreBoundedToo) {
  Trouble trouble;
  std::size_t reported = 0;
  for (int i = 0; i < 100; ++i) reported += trouble.add("no " + std::to_string(i), {}) ? 1 : 0;
  EXPECT_EQ(reported, Trouble::most);
  EXPECT_EQ(trouble.take_left_out({}, true), 100 - Trouble::most);
}

TEST_P(ExporterTo, TroubleIsToldOnceNotAtEveryTry) {
  Receiver collector = receiver({"503", "503", "503", "503", "200"});
  const auto to = exporter(options(collector.url()));
  to->send("a");
  collector.next(5);
  EXPECT_EQ(notes_after(*to).size(), 2U);
}

TEST_P(ExporterTo, WaitsAsLongAsItIsAskedTo) {
  Receiver collector = receiver({"429:1", "503:date", "200"});
  const auto to = exporter(options(collector.url()));
  to->send("a");
  const auto requests = collector.next(3);
  EXPECT_GE(requests[1].at - requests[0].at, 1.0);
  EXPECT_GE(requests[2].at - requests[1].at, 0.9);  // a date has whole seconds: 1 to 2 s
}

TEST_P(ExporterTo, APartialSuccessIsNeverSentAgain) {
  Receiver collector = receiver({"partial:2:unknown \x1b[31mtenant", "200"});
  const auto to = exporter(options(collector.url()));
  to->send("a");
  to->send("b");
  EXPECT_EQ(collector.next().body, "a");
  EXPECT_EQ(collector.next().body, "b");
  EXPECT_THAT(notes_after(*to), Contains(HasSubstr("rejected 2 profiles: unknown")));
  EXPECT_EQ(to->counters().rejected, 2U);
  EXPECT_EQ(to->counters().sent, 2U);
  EXPECT_EQ(to->counters().retried, 0U);
}

TEST_P(ExporterTo, AResponseMayBeCompressedUnasked) {
  Receiver collector = receiver({"packed:2:unknown tenant"});
  const auto to = exporter(options(collector.url()));
  to->send("a");
  EXPECT_EQ(collector.next().headers["accept-encoding"], "identity");
  EXPECT_THAT(notes_after(*to), ElementsAre(HasSubstr("rejected 2 profiles: unknown tenant")));
  EXPECT_EQ(to->counters().rejected, 2U);
}

TEST_P(ExporterTo, WhatIsRefusedIsCountedAndMakesWay) {
  Receiver collector = receiver({"text:400:no dictionary", "401", "404", "500", "200"});
  const auto to = exporter(options(collector.url()));
  for (const char* text : {"a", "b", "c", "d", "e"}) to->send(text);
  std::string bodies;
  for (const Request& request : collector.next(5)) bodies += request.body;
  EXPECT_EQ(bodies, "abcde");
  EXPECT_THAT(notes_after(*to), Contains(HasSubstr("400: no dictionary; the request was dropped")));
  EXPECT_EQ(to->counters().refused, 4U);
  EXPECT_EQ(to->counters().sent, 1U);
  EXPECT_EQ(to->counters().retried, 0U);
}

TEST_P(ExporterTo, AStallIsATimeout) {
  Receiver collector = receiver({"stall", "200"});
  ExportOptions its = options(collector.url());
  its.timeout = 500ms;
  const auto to = exporter(its);
  to->send("a");
  const auto requests = collector.next(2);
  EXPECT_GE(requests[1].at - requests[0].at, 0.4);
  EXPECT_THAT(notes_after(*to), Contains(HasSubstr("timed out")));
}

TEST_P(ExporterTo, TakesInMoreWhileACollectorStalls) {
  Receiver collector = receiver({"stall"});
  test::Folder folder;
  ExportOptions its = options(collector.url());
  its.spool = folder.string();
  its.timeout = std::chrono::hours(1);
  auto to = exporter(its);
  to->send("a");
  collector.next();
  for (const char* text : {"b", "c", "d"}) to->send(text);
  to->finish(1ms);
  EXPECT_EQ(to->counters().waiting, 4U);
  to.reset();  // ends at once, too
  std::size_t files = 0;
  for (const auto& file : std::filesystem::directory_iterator(folder))
    files += file.path().filename() != "lock";
  EXPECT_EQ(files, 4U);
}

TEST_P(ExporterTo, ManyWordsOfAnAnswerDoNotHurt) {
  Receiver collector = receiver({"huge", "header", "cut", "200"});
  const auto to = exporter(options(collector.url()));
  for (const char* text : {"a", "b", "c", "d"}) to->send(text);
  std::string bodies;
  for (const Request& request : collector.next(4)) bodies += request.body;
  EXPECT_EQ(bodies, "abcd");  // 200 is 200, whatever follows
  EXPECT_THAT(notes_after(*to), Contains(HasSubstr("its response is too long")));
  EXPECT_EQ(to->counters().sent, 4U);
}

/// Halves of what is not a request of profiles: what is in a request is the caller's matter.
std::vector<std::string> halves(std::string_view request) {
  const std::size_t half = request.size() / 2;
  return {std::string(request.substr(0, half)), std::string(request.substr(half))};
}

/// A request of `bytes`, which gzip cannot make one of the same size as its halves.
std::string request_of(std::size_t bytes) {
  std::string out;
  for (std::uint32_t at = 0; out.size() < bytes; ++at) out += std::to_string(at * 2654435761U);
  out.resize(bytes);
  return out;
}

TEST_P(ExporterTo, AnEngineThatLimitsGetsAllInSmallerRequests) {
  for (const char* status : {"429", "413"}) {
    Receiver collector = receiver({std::string("above:100000:") + status});
    ExportOptions its = options(collector.url());
    its.split = halves;
    const auto to = exporter(its);
    const std::string large = request_of(300'000);
    to->send(large);
    to->send("small");
    to->finish(patience);
    const ExportCounters counters = to->counters();
    EXPECT_EQ(counters.sent, 5U) << status;  // four quarters, and the small one
    EXPECT_EQ(counters.split, 3U) << status;
    EXPECT_EQ(counters.refused, 0U) << status;
    EXPECT_EQ(counters.waiting, 0U) << status;
    std::size_t bytes = 0;
    std::string all;
    for (const Request& request :
         collector.next(counters.sent + counters.split + counters.retried)) {
      if (request.body.size() > 100'000) continue;
      bytes += request.body.size();
      all += request.body;
    }
    EXPECT_EQ(bytes, large.size() + 5) << status;
    EXPECT_THAT(all, HasSubstr("small")) << status;
    EXPECT_THAT(to->take_notes(), Contains(HasSubstr("are split"))) << status;
  }
}

TEST_P(ExporterTo, ARequestThatIsNeverTakenBlocksNoneAndIsDroppedAtLast) {
  Receiver collector = receiver({"above:10:429"});
  ExportOptions its = options(collector.url());
  its.first_retry = its.last_retry = 1ms;
  its.split = [](std::string_view) { return std::vector<std::string>(); };
  const auto to = exporter(its);
  to->send("never accepted");
  to->send("b");
  to->send("c");
  std::string taken;
  for (const Request& request : collector.next(4))
    if (request.body.size() == 1) taken += request.body;
  EXPECT_EQ(taken, "bc");  // after two tries of the first
  to->finish(patience);
  EXPECT_EQ(to->counters().refused, 1U);
  EXPECT_EQ(to->counters().retried, limits::export_tries - 1U);
  EXPECT_EQ(to->counters().sent, 2U);
}

TEST_P(ExporterTo, SmallRequestsAreNotSplit) {
  Receiver collector = receiver({"413", "200"});
  ExportOptions its = options(collector.url());
  its.split = halves;
  const auto to = exporter(its);
  to->send(request_of(limits::export_smallest));
  to->send("b");
  collector.next(2);
  to->finish(patience);
  EXPECT_EQ(to->counters().split, 0U);
  EXPECT_EQ(to->counters().refused, 1U);
  EXPECT_EQ(to->counters().sent, 1U);
}

TEST_P(ExporterTo, AnEngineThatStartsIsWaitedFor) {
  Receiver collector = receiver({"text:500:rpc error: service is Unavailable\n",
                                 "text:500:rpc error: unavailable", "garbage", "200"});
  test::Folder folder;
  ExportOptions its = options(collector.url());
  its.spool = folder.string();
  const auto to = exporter(its);
  to->send("a");
  for (const Request& request : collector.next(4)) EXPECT_EQ(request.body, "a");
  to->finish(patience);
  to->stop();
  EXPECT_EQ(to->counters().sent, 1U);
  EXPECT_EQ(to->counters().retried, 3U);
  EXPECT_EQ(to->counters().refused, 0U);
  const auto notes = to->take_notes();
  EXPECT_THAT(notes, Contains(HasSubstr("500: rpc error: service is Unavailable; retrying")));
  EXPECT_THAT(notes, Contains(HasSubstr("text/html")));
}

TEST_P(ExporterTo, CountsAreFinalOnceItHasStopped) {
  Receiver collector = receiver({"200"});
  const auto to = exporter(options(collector.url()));
  for (int i = 0; i < 200; ++i) to->send(request_of(2'000));
  to->stop();
  const ExportCounters first = to->counters();
  EXPECT_EQ(first.sent + first.waiting, 200U);
  std::this_thread::sleep_for(20ms);
  EXPECT_EQ(to->counters().sent, first.sent);
}

TEST_P(ExporterTo, FollowsARedirectionOnlyWithinTheHost) {
  Receiver elsewhere = receiver({"200"});
  Receiver collector =
      receiver({"307>/moved", "200", "307>http://127.0.0.1:" + elsewhere.port() + "/", "301>/moved",
                "308>/a", "308>/b", "308>/c", "308>/d"});
  ExportOptions its = options(collector.url());
  its.headers = {"Authorization: secret"};
  const auto to = exporter(its);
  for (const char* text : {"a", "b", "c", "d"}) to->send(text);
  to->finish(patience);
  std::vector<std::string> got;
  for (const Request& request : collector.next(8)) got.push_back(request.body + request.path);
  const std::string first = "/v1development/profiles";
  EXPECT_THAT(got, ElementsAre("a" + first, "a/moved", "b" + first, "c" + first, "d" + first, "d/a",
                               "d/b", "d/c"));
  EXPECT_EQ(to->counters().sent, 1U);
  EXPECT_EQ(to->counters().refused, 3U);
  EXPECT_THAT(to->take_notes(),
              Contains(HasSubstr("a redirect to http://127.0.0.1:" + elsewhere.port())));
}

TEST_P(ExporterTo, FinishDoesNotWaitForAPauseOfItsOwn) {
  Receiver collector = receiver({"503", "200"});
  ExportOptions its = options(collector.url());
  its.first_retry = its.last_retry = std::chrono::hours(1);
  const auto to = exporter(its);
  to->send("a");
  wait_for(*to, [](const ExportCounters& counters) { return counters.retried == 1; });
  to->finish(patience);
  EXPECT_EQ(to->counters().sent, 1U);
}

TEST_P(ExporterTo, FinishEndsAtItsDeadline) {
  Receiver collector = receiver({"503:3600"});
  const auto to = exporter(options(collector.url()));
  to->send("a");
  wait_for(*to, [](const ExportCounters& counters) { return counters.retried == 1; });
  to->finish(10ms);
  EXPECT_EQ(to->counters().waiting, 1U);
  EXPECT_EQ(to->counters().sent, 0U);
}

TEST_P(ExporterTo, MemoryIsBoundedWhileNobodyTakesAnything) {
  Receiver collector = receiver({"503"});
  ExportOptions its = options(collector.url());
  its.first_retry = its.last_retry = std::chrono::hours(1);
  its.spool_bytes = 100;
  const auto to = exporter(its);
  constexpr std::uint64_t count = 1000;
  for (std::uint64_t i = 0; i < count; ++i) to->send(std::to_string(i));
  to->finish(1ms);
  const ExportCounters counters = to->counters();
  EXPECT_EQ(counters.overflowed + counters.waiting, count);
  EXPECT_LE(counters.waiting, 4U);  // of 21 and more bytes each
  EXPECT_GE(counters.waiting, 1U);
}

TEST(Exporter, WhatWasSentTakesNoMemory) {
  ASSERT_EQ(::mallopt(M_MMAP_THRESHOLD, 1 << 20), 1);  // what is larger is counted for all threads
  Receiver collector("python3", {"200"});
  const auto to = exporter(options(collector.url()));
  const std::size_t before = ::mallinfo2().hblkhd;
  constexpr std::size_t bytes = 4U << 20;
  std::string request(bytes, '\0');
  std::mt19937 chance;  // gzip takes nothing off
  for (char& one : request) one = static_cast<char>(chance());
  to->send(std::move(request));
  to->finish(patience);
  EXPECT_EQ(to->counters().sent, 1U);
  EXPECT_LT(::mallinfo2().hblkhd, before + bytes);
}

TEST(Exporter, ACollectorThatStartsLaterGetsAll) {
  std::string port;
  {
    Receiver gone("python3", {"200"});
    port = gone.port();
  }
  const auto to = exporter(options("otlp+http://127.0.0.1:" + port));
  for (const char* text : {"a", "b", "c"}) to->send(text);
  wait_for(*to, [](const ExportCounters& counters) { return counters.retried > 1; });
  Receiver collector("python3", {"--port", port, "200"});
  std::string bodies;
  for (const Request& request : collector.next(3)) bodies += request.body;
  EXPECT_EQ(bodies, "abc");
  const auto notes = notes_after(*to);
  EXPECT_THAT(notes, Contains(testing::AllOf(HasSubstr("connect"), HasSubstr("retrying"))));
  EXPECT_THAT(notes, Contains(HasSubstr("accepts profiles again")));
  EXPECT_EQ(to->counters().sent, 3U);
}

TEST(Exporter, WhatIsTooMuchForAnyCollectorIsCounted) {
  const auto to = exporter(options("otlp+http://127.0.0.1:1"));
  to->send(std::string((64U << 20) + 1, 'x'));
  EXPECT_EQ(to->counters().refused, 1U);
  EXPECT_THAT(to->take_notes(), ElementsAre(HasSubstr("exceeds the limit of collectors")));
}

TEST(Exporter, AWrongHeaderIsNotShown) {
  for (const char* header : {"no-colon=secret", ": secret", "a b: secret", "A: secret\r\nB: c"}) {
    ExportOptions its = options("otlp+http://127.0.0.1:1");
    its.headers = {header};
    const auto opened = Exporter::open(its);
    ASSERT_FALSE(opened.has_value()) << header;
    EXPECT_EQ(opened.error().code, ErrorCode::usage);
    EXPECT_THAT(opened.error().message, Not(HasSubstr("secret")));
  }
}

TEST(Exporter, AHostThatIsNotThereIsTriedAgain) {
  const auto to = exporter(options("otlp+http://host.invalid"));
  to->send("a");
  const auto counters = wait_for(*to, [](const ExportCounters& its) { return its.retried > 0; });
  EXPECT_GT(counters.retried, 0U);
  EXPECT_EQ(counters.waiting, 1U);
  EXPECT_THAT(to->take_notes(), Contains(HasSubstr("host.invalid:4318: ")));
}

// libcurl says after how many milliseconds nobody answered: another number each time.
TEST(Exporter, ACollectorThatIsDownIsToldOnce) {
  const auto to = exporter(options("otlp+http://127.0.0.1:1"));
  to->send("a");
  wait_for(*to, [](const ExportCounters& its) { return its.retried > 8; });
  EXPECT_THAT(to->take_notes(), ElementsAre(HasSubstr("127.0.0.1:1: ")));
}

}  // namespace
}  // namespace vitrine::exporter
