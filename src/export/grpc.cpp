#include "export/grpc.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <protozero/pbf_reader.hpp>

#include "base/limits.hpp"
#include "base/text.hpp"

namespace vitrine::exporter::grpc {
namespace {

constexpr std::size_t frame_head = 5;

/// Statuses by their numbers.
enum Status : int {
  ok = 0,
  cancelled = 1,
  unknown = 2,
  deadline_exceeded = 4,
  permission_denied = 7,
  resource_exhausted = 8,
  aborted = 10,
  out_of_range = 11,
  unimplemented = 12,
  internal = 13,
  unavailable = 14,
  data_loss = 15,
  unauthenticated = 16,
};

constexpr std::array<const char*, 17> status_names{
    "OK",        "CANCELLED",      "UNKNOWN",           "INVALID_ARGUMENT",   "DEADLINE_EXCEEDED",
    "NOT_FOUND", "ALREADY_EXISTS", "PERMISSION_DENIED", "RESOURCE_EXHAUSTED", "FAILED_PRECONDITION",
    "ABORTED",   "OUT_OF_RANGE",   "UNIMPLEMENTED",     "INTERNAL",           "UNAVAILABLE",
    "DATA_LOSS", "UNAUTHENTICATED"};

std::string name_of(int status) {
  const auto index = static_cast<std::size_t>(status);
  return status >= 0 && index < status_names.size() ? status_names[index] : std::to_string(status);
}

/// The message of a status: %XX encodes what a header cannot hold.
std::string unescaped(std::string_view text) {
  std::string out;
  for (std::size_t at = 0; at < text.size(); ++at) {
    unsigned char byte = 0;
    const std::string_view digits = text.substr(at + 1, 2);
    const bool escaped =
        text[at] == '%' && digits.size() == 2 &&
        std::from_chars(digits.data(), digits.data() + 2, byte, 16).ptr == digits.data() + 2;
    out += escaped ? static_cast<char>(byte) : text[at];
    if (escaped) at += 2;
  }
  return out;
}

/// google.rpc.Status { details = 3 }, Any { type_url = 1, value = 2 }, RetryInfo { retry_delay = 1 },
/// Duration { seconds = 1, nanos = 2 }: how long to wait, in whole seconds.
std::optional<std::chrono::seconds> retry_delay(std::string_view status) try {
  using Reader = protozero::pbf_reader;
  Reader message(status.data(), status.size());
  while (message.next(3, protozero::pbf_wire_type::length_delimited)) {
    Reader any = message.get_message();
    bool is_retry_info = false;
    while (any.next()) {
      if (any.tag() == 1 && any.wire_type() == protozero::pbf_wire_type::length_delimited) {
        const auto url = any.get_view();
        is_retry_info = std::string_view(url.data(), url.size()).ends_with("google.rpc.RetryInfo");
      } else if (any.tag() == 2 && is_retry_info) {
        Reader info = any.get_message();
        while (info.next(1, protozero::pbf_wire_type::length_delimited)) {
          Reader duration = info.get_message();
          std::int64_t seconds = 0, nanos = 0;
          while (duration.next()) {
            if (duration.tag() == 1)
              seconds = duration.get_int64();
            else if (duration.tag() == 2)
              nanos = duration.get_int64();
            else
              duration.skip();
          }
          return std::chrono::seconds(std::clamp<std::int64_t>(seconds, 0, 1 << 30) +
                                      (nanos > 0 ? 1 : 0));
        }
      } else {
        any.skip();
      }
    }
  }
  return std::nullopt;
} catch (const protozero::exception&) {
  return std::nullopt;
}

std::string with_message(const Response& response) {
  std::string text = "it returned " + name_of(*response.grpc_status);
  if (const std::string message = one_line(response.grpc_message); !message.empty())
    text += ": " + message;
  return text;
}

const char* remedy(int status, Signal signal) {
  switch (status) {
    case permission_denied:
    case unauthenticated:
      return "; give it credentials with --export-header or OTEL_EXPORTER_OTLP_HEADERS";
    case unimplemented:
      return signal == Signal::profiles
                 ? "; a collector takes profiles only with --feature-gates=service.profilesSupport"
                 : "";
    default:
      return "";
  }
}

/// The message of the response, if it is whole. Compressed ones are not looked into.
std::optional<std::string_view> message_in(std::string_view body) {
  if (body.size() < frame_head) return std::nullopt;
  std::size_t bytes = 0;
  for (std::size_t at = 1; at < frame_head; ++at)
    bytes = bytes << 8 | static_cast<unsigned char>(body[at]);
  if (body.size() - frame_head < bytes) return std::nullopt;
  return body[0] == 0 ? body.substr(frame_head, bytes) : std::string_view();
}

Judgement judge_ok(const Response& response) {
  Response http;
  http.signal = response.signal;
  http.status = 200;
  http.type = "application/x-protobuf";
  http.body = message_in(response.body).value_or("");
  return exporter::judge_http(http);
}

/// Without a status of gRPC, that of HTTP decides what kind of failure it was. A server responds with a
/// message to what it has taken alone: the status may be missing where the connection ends
/// there (GOAWAY and libcurl 7.88).
Judgement judge_without_status(const Response& response) {
  if (response.status == 0 || response.status / 100 != 2) {
    Judgement judgement = exporter::judge_http(response);
    judgement.too_much = judgement.too_much || response.status == 413;
    return judgement;
  }
  if (!response.type.starts_with("application/grpc"))
    return {.note = fmt::format("it does not respond as gRPC does ({}); OTLP/gRPC is 4317",
                                response.type.empty() ? "no type" : one_line(response.type)),
            .doubtful = true};
  if (message_in(response.body)) return judge_ok(response);
  return {.note = response.problem.empty() ? "its response had no status" : response.problem};
}

}  // namespace

std::string framed(std::string_view gzipped) {
  std::string out(1, '\x01');
  for (const int shift : {24, 16, 8, 0}) out += static_cast<char>(gzipped.size() >> shift & 0xff);
  return out.append(gzipped);
}

void take_header(Response& response, std::string_view line) {
  const std::size_t colon = line.find(':');
  if (colon == line.npos) return;
  std::string_view value = line.substr(colon + 1);
  while (!value.empty() && (value.front() == ' ' || value.front() == '\t')) value.remove_prefix(1);
  while (!value.empty() && (value.back() == '\n' || value.back() == '\r' || value.back() == ' '))
    value.remove_suffix(1);
  const std::string_view name = line.substr(0, colon);  // in lower case, as HTTP/2 has it
  if (name == "grpc-status") {
    int status = 0;
    if (std::from_chars(value.data(), value.data() + value.size(), status).ec == std::errc())
      response.grpc_status = status;
  } else if (name == "grpc-message") {
    response.grpc_message = unescaped(value.substr(0, 4 * limits::export_message));
  } else if (name == "grpc-status-details-bin") {
    response.retry_after = retry_delay(base64_bytes(value));
  }
}

Judgement judge(const Response& response) {
  if (!response.grpc_status) {
    Judgement judgement = judge_without_status(response);
    judgement.received = response.received || response.status != 0;
    return judgement;
  }
  const int status = *response.grpc_status;
  if (status == ok) return judge_ok(response);
  Judgement judgement{.note = with_message(response), .received = true};
  const std::string& text = response.grpc_message;
  switch (status) {
    case cancelled:
    case deadline_exceeded:
    case aborted:
    case out_of_range:
    case unavailable:
    case data_loss:
      return judgement;
    case resource_exhausted:
      // With a time to wait it is the rate that is limited; a message that is too large stays so.
      judgement.too_much = judgement.doubtful = !response.retry_after;
      if (contains_any(text, {"larger than"})) judgement.verdict = Verdict::refused;
      return judgement;
    case unknown:
    case internal:
      if (means_unavailable(text)) {
        judgement.doubtful = true;
        return judgement;
      }
      break;
    default:
      break;
  }
  judgement.verdict = Verdict::refused;
  judgement.too_much = means_too_much(text);
  judgement.note += remedy(status, response.signal);
  return judgement;
}

}  // namespace vitrine::exporter::grpc
