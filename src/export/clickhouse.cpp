#include "export/clickhouse.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>
#include <span>

#include "base/redaction.hpp"
#include "base/text.hpp"

namespace vitrine::exporter::clickhouse {
namespace {

/// Numbers of exceptions (ClickHouse's ErrorCodes.cpp; they never change).
enum ExceptionCode : int {
  unknown_table = 60,
  unknown_database = 81,
  timeout_exceeded = 159,
  too_many_simultaneous_queries = 202,
  no_free_connection = 203,
  socket_timeout = 209,
  network_error = 210,
  no_zookeeper = 225,
  aborted = 236,
  memory_limit_exceeded = 241,
  table_is_read_only = 242,
  not_enough_space = 243,
  too_many_parts = 252,
  too_few_live_replicas = 285,
  unsatisfied_quorum = 286,
  unknown_status_of_insert = 319,
  query_was_cancelled = 394,
  cannot_schedule_task = 439,
  access_denied = 497,
  authentication_failed = 516,
  keeper_exception = 999,
};

constexpr std::array passing{timeout_exceeded,
                             too_many_simultaneous_queries,
                             no_free_connection,
                             socket_timeout,
                             network_error,
                             no_zookeeper,
                             aborted,
                             memory_limit_exceeded,
                             table_is_read_only,
                             not_enough_space,
                             too_many_parts,
                             too_few_live_replicas,
                             unsatisfied_quorum,
                             unknown_status_of_insert,
                             query_was_cancelled,
                             cannot_schedule_task,
                             keeper_exception};

bool is_name(std::string_view text) {
  constexpr std::string_view letters =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789";
  return !text.empty() && (text.front() < '0' || text.front() > '9') &&
         text.find_first_not_of(letters) == text.npos;
}

/// "Code: 60. DB::Exception: Table default.samples does not exist. (UNKNOWN_TABLE) …".
std::optional<int> exception_code(std::string_view body) {
  constexpr std::string_view head = "Code: ";
  const std::size_t at = body.find(head);
  int code = 0;
  if (at == body.npos) return std::nullopt;
  const char* const end = body.data() + body.size();
  const auto [rest, error] = std::from_chars(body.data() + at + head.size(), end, code);
  if (error != std::errc() || rest == end || *rest != '.') return std::nullopt;
  return code;
}

Judgement judge_exception(int code, std::string note) {
  if (std::ranges::find(passing, code) != passing.end()) return {.note = std::move(note)};
  switch (code) {
    case unknown_table:
    case unknown_database:
      return {.note = note + "; create the table of docs/fleet.md, or name another in the URL",
              .doubtful = true};
    case access_denied:
    case authentication_failed:
      return {.verdict = Verdict::refused,
              .note = note +
                      "; give the URL a user, or --export-header 'X-ClickHouse-User: NAME' "
                      "and 'X-ClickHouse-Key: PASSWORD'"};
    default:
      return {.verdict = Verdict::refused, .note = std::move(note)};
  }
}

Judgement judge_status(const Response& response) {
  // The token makes sure that a request counts once.
  if (response.status == 0 || !response.problem.empty()) return {.note = response.problem};
  if (response.type.starts_with("text/html"))
    return {.note = "it returned a page (text/html), so it is not ClickHouse; check the URL",
            .doubtful = true};
  // What fails after the status was sent is in the body: of a statement that inserts, that is empty otherwise.
  const auto exception = exception_code(response.body);
  if (response.status >= 200 && response.status < 300 && !exception)
    return {.verdict = Verdict::taken};
  const std::string text = one_line(response.body);
  std::string note = fmt::format("it returned {}", response.status);
  if (!text.empty()) note += ": " + text;
  if (exception) return judge_exception(*exception, std::move(note));
  if (response.status == 429 || response.status >= 500)
    return {.note = std::move(note), .doubtful = true};
  return {.verdict = Verdict::refused, .note = std::move(note), .too_much = response.status == 413};
}

}  // namespace

Result<std::string> insert_statement(std::string_view path) {
  std::string_view table = path.substr(path.starts_with('/') ? 1 : 0);
  if (table.empty()) table = default_table;
  const std::size_t dot = table.find('.');
  if (!is_name(table.substr(dot == table.npos ? 0 : dot + 1)) ||
      (dot != table.npos && !is_name(table.substr(0, dot))))
    return fail(ErrorCode::usage, "the path of a ClickHouse URL is a table",
                "give clickhouse+http://HOST:8123/TABLE or /DATABASE.TABLE");
  return fmt::format("INSERT INTO {} FORMAT JSONEachRow", table);
}

std::string with_token(const std::string& url, std::string_view body) {
  const auto hash = sha256(std::as_bytes(std::span(body)));
  return url + "&insert_deduplication_token=" + hex_text(hash);
}

Judgement judge(const Response& response) {
  Judgement judgement = judge_status(response);
  judgement.received = response.received || response.status != 0;
  return judgement;
}

}  // namespace vitrine::exporter::clickhouse
