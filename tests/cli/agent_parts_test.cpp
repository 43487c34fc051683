// What the agent relies on, part by part: a clock that is set, capabilities that are in effect only at times, pages beside
// silent connections.
#include <gmock/gmock.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <new>
#include <nlohmann/json.hpp>
#include <protozero/pbf_reader.hpp>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "agent/http_server.hpp"
#include "base/clock.hpp"
#include "base/file_descriptor.hpp"
#include "cli/pages.hpp"
#include "cli/shell/confinement.hpp"
#include "cli/trace/output.hpp"
#include "cli/trace/sending.hpp"
#include "export/receiver.hpp"
#include "sandbox/capabilities.hpp"

namespace {

std::atomic<std::int64_t> set_ahead_s{0};

}  // namespace

// The clock of this program: that of the machine, which it must not set.
extern "C" int clock_gettime(clockid_t clock, timespec* time) noexcept {
  const auto status = static_cast<int>(::syscall(SYS_clock_gettime, clock, time));
  if (clock == CLOCK_REALTIME) time->tv_sec += set_ahead_s;
  return status;
}

namespace vitrine::cli {
namespace {

// Each round would take many seconds if silent connections had to end by themselves.
TEST(AgentPages, AreThereBesideConnectionsThatSendNothing) {
  const auto server =
      agent::HttpServer::open({"127.0.0.1", 0},
                              [](std::string_view) {
                                return agent::HttpResponse{200, "text/plain", "here"};
                              },
                              {});
  ASSERT_TRUE(server) << server.error().message;
  std::vector<FileDescriptor> silent;
  for (int round = 0; round < 20; ++round) {
    for (int i = 0; i < 48; ++i) silent.push_back(test::connection_to((*server)->port()));
    EXPECT_THAT(test::response_to((*server)->port(), "GET /healthz HTTP/1.0\r\n\r\n"),
                testing::EndsWith("\r\n\r\nhere"));
  }
}

/// Of the first log record in a request (LogsData), in Unix time.
std::uint64_t time_of_record(const std::string& request) {
  protozero::pbf_reader message(request);
  // resource_logs, scope_logs, log_records
  for (const protozero::pbf_tag_type field : {1, 2, 2}) {
    if (!message.next(field)) return 0;
    message = message.get_message();
  }
  return message.next(1) ? message.get_fixed64() : 0;
}

TEST(TraceSender, RecordsHaveTheTimeOfAClockThatWasSet) {
  constexpr std::int64_t hour_s = 3600, tolerance_ns = 60'000'000'000;
  test::Receiver collector("python3", {"200"});
  exporter::ExportOptions options;
  options.signal = exporter::Signal::logs;
  options.url = collector.url();
  auto sender = TraceSender::open(std::move(options), 0);
  ASSERT_TRUE(sender) << sender.error().message;
  const format::LabelSet labels;
  observe::TraceEvent event;
  event.probe = "shop:order";
  event.labels = &labels;
  /// What the time of a record that is sent now lacks.
  const auto lag_ns = [&] {
    event.time_ns = now_ns(CLOCK_MONOTONIC);
    (*sender)->add(event);
    (*sender)->take_out(true);
    return std::abs(
        static_cast<std::int64_t>(now_ns(CLOCK_REALTIME) - time_of_record(collector.next().body)));
  };
  EXPECT_LT(lag_ns(), tolerance_ns);
  set_ahead_s = hour_s;
  EXPECT_GT(lag_ns(), tolerance_ns);  // the clock is looked at now and then
  EXPECT_LT(lag_ns(), tolerance_ns);
  EXPECT_TRUE((*sender)->finish());
  set_ahead_s = 0;
}

TEST(TraceOutput, FiresHaveTheTimeOfAClockThatWasSet) {
  constexpr std::int64_t hour_s = 3600, second_ns = 1'000'000'000;
  const format::LabelSet labels;
  observe::TraceEvent event;
  event.probe = "shop:order";
  event.labels = &labels;
  TraceJson json;
  TraceText text(Style(false));
  /// Whole hours, in text the digits of them.
  const auto hours = [&] {
    std::string line, words;
    json.append(event, line);
    text.append(event, words);
    const std::string ns = nlohmann::json::parse(line)["ts_ns"];
    return std::pair(std::stoll(ns) / second_ns / hour_s, words.substr(0, 2));
  };
  event.time_ns = now_ns(CLOCK_MONOTONIC);
  const auto before = hours();
  set_ahead_s = hour_s;
  event.time_ns += 2 * second_ns;
  const auto after = hours();
  set_ahead_s = 0;
  // Two seconds may be those of another hour, too.
  EXPECT_GE(after.first, before.first + 1);
  EXPECT_NE(after.second, before.second);
}

TEST(WithInEffect, CapabilitiesAreOutOfEffectAgainWhereTheWorkThrows) {
  const sandbox::Capabilities held{CAP_SYS_ADMIN};
  if (!sandbox::effective_capabilities().has_all(held)) GTEST_SKIP() << "needs CAP_SYS_ADMIN";
  bool was_in_effect = false, is_in_effect = true;
  std::thread([&] {  // whose capabilities are its own
    EXPECT_TRUE(sandbox::put_into_effect(held, false));
    const auto work = [&]() -> Result<void> {
      was_in_effect = sandbox::effective_capabilities().has_all(held);
      throw std::bad_alloc();
    };
    EXPECT_THROW(static_cast<void>(with_in_effect(held, work)), std::bad_alloc);
    is_in_effect = sandbox::effective_capabilities().has_all(held);
  })
      .join();
  EXPECT_TRUE(was_in_effect);
  EXPECT_FALSE(is_in_effect);
}

}  // namespace
}  // namespace vitrine::cli
