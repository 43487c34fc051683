#include "export/judgement.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <protozero/pbf_reader.hpp>

#include "base/limits.hpp"
#include "export/clickhouse.hpp"
#include "export/grpc.hpp"

namespace vitrine::exporter {

std::string one_line(std::string_view text) {
  std::string out(text.substr(0, limits::export_message));
  std::replace_if(
      out.begin(), out.end(), [](char c) { return c == '\n' || c == '\r' || c == '\t'; }, ' ');
  out.erase(out.find_last_not_of(' ') + 1);  // npos + 1 is 0
  return out;
}

bool contains_any(std::string_view message, std::initializer_list<std::string_view> words) {
  return std::any_of(words.begin(), words.end(), [&](std::string_view word) {
    return std::search(message.begin(), message.end(), word.begin(), word.end(),
                       [](unsigned char a, unsigned char b) { return std::tolower(a) == b; }) !=
           message.end();
  });
}

bool means_unavailable(std::string_view message) {
  return contains_any(message, {"unavailable", "not ready", "starting", "try again", "overload",
                                "timed out", "timeout"});
}

bool means_too_much(std::string_view message) {
  return contains_any(message,
                      {"too large", "too big", "too many", "exceed", "larger than", "limit"});
}

namespace {

/// What both messages that a collector responds with come down to.
struct Accepted {
  std::int64_t rejected = 0;
  std::string message;
};

std::string_view view(protozero::data_view bytes) {
  return {bytes.data(), bytes.size()};
}

/// ExportProfilesPartialSuccess { rejected_profiles = 1, error_message = 2 }; of the other signals,
/// too.
Accepted partial_success(protozero::pbf_reader message) {
  Accepted accepted;
  while (message.next()) {
    if (message.tag_and_type() == protozero::tag_and_type(1, protozero::pbf_wire_type::varint))
      accepted.rejected = message.get_int64();
    else if (message.tag_and_type() ==
             protozero::tag_and_type(2, protozero::pbf_wire_type::length_delimited))
      accepted.message = one_line(view(message.get_view()));
    else
      message.skip();
  }
  return accepted;
}

/// ExportProfilesServiceResponse { partial_success = 1 }; nullopt: it is something else.
std::optional<Accepted> parse_response(std::string_view body) try {
  Accepted accepted;
  protozero::pbf_reader reader(body.data(), body.size());
  while (reader.next()) {
    if (reader.tag_and_type() ==
        protozero::tag_and_type(1, protozero::pbf_wire_type::length_delimited))
      accepted = partial_success(reader.get_message());
    else
      reader.skip();
  }
  return accepted;
} catch (const protozero::exception&) {
  return std::nullopt;
}

/// google.rpc.Status { code = 1, message = 2 }, as OTLP specifies; or a proxy's plain text.
std::string message_of(const Response& response) {
  if (response.type.starts_with("text/plain") || response.type.starts_with("application/json"))
    return one_line(response.body);
  if (!response.type.starts_with("application/x-protobuf")) return {};
  const std::optional<Accepted> accepted = [&]() -> std::optional<Accepted> {
    try {
      return partial_success(protozero::pbf_reader(response.body));  // of the same shape
    } catch (const protozero::exception&) {
      return std::nullopt;
    }
  }();
  return accepted ? accepted->message : std::string();
}

const char* remedy(long status, Signal signal) {
  switch (status) {
    case 401:
    case 403:
      return "; give it credentials with --export-header or OTEL_EXPORTER_OTLP_HEADERS";
    case 404:
    case 405:
      return signal == Signal::profiles ? "; a collector takes profiles only with "
                                          "--feature-gates=service.profilesSupport, "
                                          "unless the path of the URL is wrong"
                                        : "; check the path of the URL";
    case 413:
      return "; raise its limit of the request size, or lower --export-bytes";
    default:
      return "";
  }
}

std::string with_message(const std::string& text, const std::string& message) {
  return message.empty() ? text : text + ": " + message;
}

Judgement taken(const Response& response) {
  Judgement judgement{.verdict = Verdict::taken};
  if (!response.problem.empty()) {
    judgement.note =
        fmt::format("its response was incomplete, and it is unknown whether it accepted all {}: {}",
                    names_of(response.signal).items, response.problem);
    return judgement;
  }
  const auto accepted = parse_response(response.body);
  if (!accepted) {
    judgement.note =
        fmt::format("it returned {}, but not as a collector does ({}); check the URL",
                    response.status, response.type.empty() ? "no type" : response.type);
    return judgement;
  }
  judgement.rejected = accepted->rejected > 0 ? static_cast<std::uint64_t>(accepted->rejected) : 0;
  if (judgement.rejected != 0)
    judgement.note = with_message(
        fmt::format("it rejected {} {}", judgement.rejected, names_of(response.signal).items),
        accepted->message);
  else if (!accepted->message.empty())
    judgement.note = "warning: " + accepted->message;
  return judgement;
}

Judgement refused(const Response& response) {
  const std::string text = fmt::format("it returned {}", response.status);
  if (response.status >= 300 && response.status < 400)
    return {
        .verdict = Verdict::refused,
        .note = text + (response.redirect.empty() ? "" : ", a redirect to " + response.redirect)};
  const std::string message = message_of(response);
  if (response.status >= 500 && means_unavailable(message))
    return {.note = with_message(text, message), .doubtful = true};
  return {.verdict = Verdict::refused,
          .note = with_message(text, message) + remedy(response.status, response.signal),
          .too_much = response.status == 413 || means_too_much(message)};
}

Judgement judge_status(const Response& response) {
  if (response.status >= 200 && response.status < 300) {
    if (!response.type.starts_with("text/html")) return taken(response);
    return {.note = "it returned a page (text/html), so it is not a collector; check the URL",
            .doubtful = true};
  }
  switch (response.status) {
    case 429: {
      const bool limited = !response.retry_after;
      return {.note = with_message("it returned 429", message_of(response)),
              .too_much = limited,
              .doubtful = limited};
    }
    case 502:
    case 503:
    case 504:
      return {.note = with_message(fmt::format("it returned {}", response.status),
                                   message_of(response))};
    default:
      return refused(response);
  }
}

}  // namespace

Judgement judge_http(const Response& response) {
  Judgement judgement;
  if (response.status == 0)
    judgement.note = response.problem;
  else
    judgement = judge_status(response);
  judgement.received = response.received || response.status != 0;
  return judgement;
}

Judgement judge(const Response& response) {
  switch (response.protocol) {
    case Protocol::grpc:
      return grpc::judge(response);
    case Protocol::clickhouse:
      return clickhouse::judge(response);
    case Protocol::http:
      break;
  }
  return judge_http(response);
}

}  // namespace vitrine::exporter
