#include "export/response.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <protozero/pbf_reader.hpp>
#include <string_view>

#include "base/limits.hpp"

namespace vitrine::send {
namespace {

/// What both messages that a collector answers with come down to.
struct Said {
  std::int64_t rejected = 0;
  std::string message;
};

std::string bounded(std::string_view text) {
  return std::string(text.substr(0, limits::export_message));
}

std::string_view view(protozero::data_view bytes) {
  return {bytes.data(), bytes.size()};
}

/// ExportProfilesPartialSuccess { rejected_profiles = 1, error_message = 2 }.
Said partial_success(protozero::pbf_reader message) {
  Said said;
  while (message.next()) {
    if (message.tag_and_type() == protozero::tag_and_type(1, protozero::pbf_wire_type::varint))
      said.rejected = message.get_int64();
    else if (message.tag_and_type() ==
             protozero::tag_and_type(2, protozero::pbf_wire_type::length_delimited))
      said.message = bounded(view(message.get_view()));
    else
      message.skip();
  }
  return said;
}

/// ExportProfilesServiceResponse { partial_success = 1 }; nullopt: it is something else.
std::optional<Said> response(std::string_view body) try {
  Said said;
  protozero::pbf_reader reader(body.data(), body.size());
  while (reader.next()) {
    if (reader.tag_and_type() ==
        protozero::tag_and_type(1, protozero::pbf_wire_type::length_delimited))
      said = partial_success(reader.get_message());
    else
      reader.skip();
  }
  return said;
} catch (const protozero::exception&) {
  return std::nullopt;
}

/// google.rpc.Status { code = 1, message = 2 }, as OTLP says; or what a proxy says in plain text.
std::string message_of(const Answer& answer) {
  if (answer.type.starts_with("text/plain") || answer.type.starts_with("application/json"))
    return bounded(answer.body);
  if (!answer.type.starts_with("application/x-protobuf")) return {};
  const std::optional<Said> said = [&]() -> std::optional<Said> {
    try {
      return partial_success(protozero::pbf_reader(answer.body));  // of the same shape
    } catch (const protozero::exception&) {
      return std::nullopt;
    }
  }();
  return said ? said->message : std::string();
}

const char* remedy(long status) {
  switch (status) {
    case 401:
    case 403:
      return "; give it credentials with --export-header or OTEL_EXPORTER_OTLP_HEADERS";
    case 404:
    case 405:
      return "; a collector takes profiles only with --feature-gates=service.profilesSupport, "
             "unless the path of the URL is wrong";
    case 413:
      return "; raise its limit of the request size";
    default:
      return "";
  }
}

std::string with_message(std::string text, const std::string& message) {
  return message.empty() ? text : text + ": " + message;
}

Judgement taken(const Answer& answer) {
  Judgement judgement{Verdict::taken, 0, {}};
  if (!answer.problem.empty()) {
    judgement.note =
        "its response was incomplete, and it is unknown whether it accepted all profiles: " +
        answer.problem;
    return judgement;
  }
  const auto said = response(answer.body);
  if (!said) {
    judgement.note = fmt::format("it returned {}, but not as a collector does ({}); check the URL",
                                 answer.status, answer.type.empty() ? "no type" : answer.type);
    return judgement;
  }
  judgement.rejected = said->rejected > 0 ? static_cast<std::uint64_t>(said->rejected) : 0;
  if (judgement.rejected != 0)
    judgement.note =
        with_message(fmt::format("it rejected {} profiles", judgement.rejected), said->message);
  else if (!said->message.empty())
    judgement.note = "warning: " + said->message;
  return judgement;
}

}  // namespace

Judgement judge(const Answer& answer) {
  if (answer.status == 0) return {Verdict::later, 0, answer.problem};
  if (answer.status >= 200 && answer.status < 300) return taken(answer);
  const std::string said = fmt::format("it returned {}", answer.status);
  switch (answer.status) {
    case 429:
    case 502:
    case 503:
    case 504:
      return {Verdict::later, 0, with_message(said, message_of(answer))};
    default:
      break;
  }
  if (answer.status >= 300 && answer.status < 400)
    return {Verdict::refused, 0,
            said + (answer.redirect.empty() ? "" : ", a redirect to " + answer.redirect)};
  return {Verdict::refused, 0, with_message(said, message_of(answer)) + remedy(answer.status)};
}

std::chrono::milliseconds Backoff::some_of(std::chrono::milliseconds most) {
  return std::chrono::milliseconds(std::uniform_int_distribution<std::int64_t>(
      0, std::max<std::int64_t>(most.count(), 0))(chance_));
}

std::chrono::milliseconds Backoff::next(std::optional<std::chrono::seconds> asked) {
  wait_ = std::clamp(wait_ * 2, first_, std::max(first_, last_));
  if (asked)
    return std::clamp<std::chrono::milliseconds>(*asked, std::chrono::milliseconds(0),
                                                 longest_retry_after) +
           some_of(first_);
  return wait_ / 2 + some_of(wait_ / 2);
}

}  // namespace vitrine::send
