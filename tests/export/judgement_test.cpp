// What an answer of a collector means.
#include "export/judgement.hpp"

#include <gmock/gmock.h>

#include "base/limits.hpp"
#include "export/partial_success.hpp"

namespace vitrine::exporter {
namespace {

using test::partial_success;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr const char* protobuf = "application/x-protobuf";

Response answer(long status, std::string body = {}, std::string type = protobuf) {
  Response out;
  out.status = status;
  out.body = std::move(body);
  out.type = std::move(type);
  return out;
}

TEST(Judge, OnlyWhatMayChangeIsTriedAgain) {
  for (long status = 200; status < 600; ++status) {
    const bool again = status == 429 || status == 502 || status == 503 || status == 504;
    const Verdict wanted = status < 300 ? Verdict::taken
                           : again      ? Verdict::later
                                        : Verdict::refused;
    EXPECT_EQ(judge(answer(status)).verdict, wanted) << status;
  }
  Response none;
  none.problem = "connection refused";
  EXPECT_EQ(judge(none).verdict, Verdict::later);
  EXPECT_EQ(judge(none).note, "connection refused");
}

TEST(Judge, NothingToSayOfASuccess) {
  EXPECT_THAT(judge(answer(200)).note, IsEmpty());
  EXPECT_THAT(judge(answer(202, std::string("\x0a\x00", 2))).note, IsEmpty());
}

TEST(Judge, APartialSuccessIsTaken) {
  const Judgement judgement = judge(answer(200, partial_success(3, "no such tenant")));
  EXPECT_EQ(judgement.verdict, Verdict::taken);
  EXPECT_EQ(judgement.rejected, 3U);
  EXPECT_THAT(judgement.note, HasSubstr("no such tenant"));
  EXPECT_EQ(judge(answer(200, partial_success(0, "use the other path"))).rejected, 0U);
  EXPECT_THAT(judge(answer(200, partial_success(0, "use the other path"))).note,
              HasSubstr("other path"));
}

TEST(Judge, NobodyRejectsLessThanNothing) {
  EXPECT_EQ(judge(answer(200, partial_success(-5, ""))).rejected, 0U);
}

TEST(Judge, MessagesAreBounded) {
  const std::string body = partial_success(1, std::string(10'000, 'x'));
  EXPECT_LT(judge(answer(200, body)).note.size(), limits::export_message + 100);
  EXPECT_LT(judge(answer(400, std::string(10'000, 'x'), "text/plain")).note.size(),
            limits::export_message + 100);
}

TEST(Judge, EveryPieceOfAMessageIsTakenOrNotUnderstood) {
  const std::string body = partial_success(1, "text");
  for (std::size_t bytes = 1; bytes < body.size(); ++bytes) {
    const Judgement judgement = judge(answer(200, body.substr(0, bytes)));
    EXPECT_EQ(judgement.verdict, Verdict::taken);
    EXPECT_THAT(judgement.note, HasSubstr("not as a collector does"));
  }
}

TEST(Judge, FieldsOfOtherTypesArePassedOver) {
  std::string body;
  protozero::pbf_writer writer(body);
  writer.add_int64(1, 7);         // partial_success as a number
  writer.add_string(9, "later");  // a field of a version to come
  EXPECT_EQ(judge(answer(200, body)).rejected, 0U);
  EXPECT_THAT(judge(answer(200, body)).note, IsEmpty());
}

TEST(Judge, APageIsNoCollector) {
  const Judgement judgement = judge(answer(200, "<html>", "text/html"));
  EXPECT_EQ(judgement.verdict, Verdict::later);
  EXPECT_TRUE(judgement.doubtful);
  EXPECT_THAT(judgement.note, HasSubstr("text/html"));
  EXPECT_EQ(judge(answer(200, "{}", "application/json")).verdict, Verdict::taken);
}

TEST(Judge, AnAnswerThatBreaksOffIsNotAskedForAgain) {
  Response cut = answer(200, "\x0a");
  cut.problem = "transfer closed";
  EXPECT_EQ(judge(cut).verdict, Verdict::taken);
  EXPECT_THAT(judge(cut).note, HasSubstr("transfer closed"));
}

TEST(Judge, AServerThatSaysItIsUnavailableIsTriedAgain) {
  const auto judged = [](long status, const char* said) {
    return judge(answer(status, said, "text/plain"));
  };
  EXPECT_EQ(judged(500, "service is Unavailable").verdict, Verdict::later);
  EXPECT_TRUE(judged(500, "service is Unavailable").doubtful);
  EXPECT_EQ(judged(500, "no such table").verdict, Verdict::refused);
  EXPECT_EQ(judged(400, "service is unavailable").verdict, Verdict::refused);
  EXPECT_FALSE(judge(answer(503)).doubtful);
}

TEST(Judge, WhatALimitRefusesMayBeSmaller) {
  EXPECT_TRUE(judge(answer(413)).too_much);
  EXPECT_TRUE(judge(answer(429)).too_much);
  EXPECT_TRUE(judge(answer(400, "the profile exceeds 16000 samples", "text/plain")).too_much);
  EXPECT_FALSE(judge(answer(400, "no dictionary", "text/plain")).too_much);
  Response later = answer(429);
  later.retry_after = std::chrono::seconds(1);
  EXPECT_FALSE(judge(later).too_much);
  EXPECT_FALSE(judge(later).doubtful);
}

TEST(Judge, MessagesAreOneLine) {
  EXPECT_THAT(judge(answer(400, "one\ntwo\r\n", "text/plain")).note, HasSubstr("400: one two"));
  EXPECT_THAT(judge(answer(400, "one\n", "text/plain")).note, testing::EndsWith("one"));
}

TEST(Judge, SaysWhyAndWhatToDo) {
  std::string status;  // google.rpc.Status
  protozero::pbf_writer writer(status);
  writer.add_int32(1, 3);
  writer.add_string(2, "no dictionary");
  EXPECT_THAT(judge(answer(400, status)).note, HasSubstr("400: no dictionary"));
  EXPECT_THAT(judge(answer(401)).note, HasSubstr("OTEL_EXPORTER_OTLP_HEADERS"));
  EXPECT_THAT(judge(answer(404)).note, HasSubstr("profilesSupport"));
  EXPECT_THAT(judge(answer(503, "overloaded", "text/plain")).note, HasSubstr("overloaded"));
  Response moved = answer(301);
  moved.redirect = "http://elsewhere/";
  EXPECT_THAT(judge(moved).note, HasSubstr("http://elsewhere/"));
}

Response clickhouse(long status, std::string body) {
  Response out = answer(status, std::move(body), "text/plain; charset=UTF-8");
  out.protocol = Protocol::clickhouse;
  return out;
}

TEST(Judge, ClickHouseHasItsOwnErrors) {
  EXPECT_EQ(judge(clickhouse(200, "")).verdict, Verdict::taken);
  const Judgement parts = judge(clickhouse(
      500, "Code: 252. DB::Exception: Too many parts (300). (TOO_MANY_PARTS) (version 26.9)\n"));
  EXPECT_EQ(parts.verdict, Verdict::later);
  EXPECT_FALSE(parts.doubtful);
  const Judgement missing = judge(clickhouse(
      404, "Code: 60. DB::Exception: Table default.samples does not exist. (UNKNOWN_TABLE)"));
  EXPECT_EQ(missing.verdict, Verdict::later);
  EXPECT_TRUE(missing.doubtful);
  EXPECT_THAT(missing.note, HasSubstr("create the table"));
  const Judgement late = judge(clickhouse(
      200, "Code: 241. DB::Exception: Memory limit (total) exceeded. (MEMORY_LIMIT_EXCEEDED)"));
  EXPECT_EQ(late.verdict, Verdict::later) << "an error after the status";
  const Judgement denied = judge(clickhouse(
      403, "Code: 516. DB::Exception: default: Authentication failed. (AUTHENTICATION_FAILED)"));
  EXPECT_EQ(denied.verdict, Verdict::refused);
  EXPECT_THAT(denied.note, HasSubstr("X-ClickHouse-User"));
  const Judgement column = judge(clickhouse(
      400, "Code: 27. DB::Exception: Cannot parse input. (CANNOT_PARSE_INPUT_ASSERTION_FAILED)"));
  EXPECT_EQ(column.verdict, Verdict::refused);
  EXPECT_THAT(column.note, HasSubstr("Cannot parse input"));
  EXPECT_TRUE(judge(clickhouse(503, "starting")).doubtful);
  EXPECT_TRUE(judge(clickhouse(413, "")).too_much);
  EXPECT_TRUE(judge(answer(413)).too_much);
  Response page = clickhouse(200, "<html>");
  page.type = "text/html";
  EXPECT_EQ(judge(page).verdict, Verdict::later);
  Response cut = clickhouse(200, "");
  cut.problem = "the connection closed";
  EXPECT_EQ(judge(cut).verdict, Verdict::later) << "its token makes it count once";
}

}  // namespace
}  // namespace vitrine::exporter
