// The meaning of an engine's response to a request.
#pragma once

#include <chrono>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>

#include "export/endpoint.hpp"
#include "export/signal.hpp"

namespace vitrine::exporter {

/// What came of one try.
struct Response {
  Signal signal = Signal::profiles;  ///< of the request
  long status = 0;                   ///< of HTTP; 0: none came
  std::string problem;   ///< what went wrong on the way; with a status: after it had come
  std::string type;      ///< Content-Type
  std::string body;      ///< its first limits::export_response bytes
  std::string redirect;  ///< URL that a 3xx leads to
  std::optional<std::chrono::seconds> retry_after;
  bool received = false;  ///< the whole request was sent, though no status may have come

  Protocol protocol = Protocol::http;
  // Of gRPC alone.
  std::optional<int> grpc_status{};
  std::string grpc_message{};
};

enum class Verdict : std::uint8_t {
  taken,    ///< whole or in part; must never be sent again
  later,    ///< to be tried again
  refused,  ///< never will be taken
};

struct Judgement {
  Verdict verdict = Verdict::later;
  std::uint64_t rejected = 0;  ///< items that were left out of a request that was taken
  std::string note{};          ///< what the user should know; empty: nothing. Any bytes
  bool received = false;       ///< the engine has seen the request: it may be what it does not like
  bool too_much = false;       ///< smaller requests may be accepted
  bool doubtful = false;       ///< later, but it may never be accepted: tries have an end
};

/// By the rules of the protocol that it came by.
Judgement judge(const Response& response);

/// By the rules of OTLP over HTTP: the status decides whether a request was taken; 429, 502, 503 and
/// 504, and no status at all, are worth another try. Beyond them: a page is no collector that took
/// anything; an error of the server that declares it unavailable is one to wait for; and what a
/// limit of the engine refuses (413, 429 without a time to wait, a message that states a limit) may be
/// accepted in smaller pieces.
Judgement judge_http(const Response& response);

/// The beginning of a message (limits::export_message), as one line.
std::string one_line(std::string_view message);

/// Whether a message has one of `words`, which are in lower case, in letters of any case.
bool contains_any(std::string_view message, std::initializer_list<std::string_view> words);
/// Whether it states that the engine is not there yet, or that something is above one of its limits.
bool means_unavailable(std::string_view message);
bool means_too_much(std::string_view message);

}  // namespace vitrine::exporter
