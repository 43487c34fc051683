#include "observe/interface/convert.hpp"

#include "query/lexer.hpp"

namespace vitrine::observer {
inline namespace v1 {

std::string_view to_string(ErrorCode code) noexcept {
  switch (code) {
    case ErrorCode::failed:
      return "failed";
    case ErrorCode::usage:
      return "usage";
    case ErrorCode::not_permitted:
      return "not-permitted";
    case ErrorCode::not_found:
      return "not-found";
    case ErrorCode::malformed:
      return "malformed";
    case ErrorCode::unsupported:
      return "unsupported";
    case ErrorCode::limit:
      return "limit";
    case ErrorCode::interrupted:
      return "interrupted";
    case ErrorCode::changing:
      return "changing";
    case ErrorCode::another_program:
      return "another-program";
  }
  return "unknown";
}

}  // namespace v1

namespace convert {
namespace {

ErrorCode public_code(vitrine::ErrorCode code) {
  switch (code) {
    case vitrine::ErrorCode::failed:
      return ErrorCode::failed;
    case vitrine::ErrorCode::usage:
      return ErrorCode::usage;
    case vitrine::ErrorCode::not_permitted:
      return ErrorCode::not_permitted;
    case vitrine::ErrorCode::not_found:
      return ErrorCode::not_found;
    case vitrine::ErrorCode::malformed:
      return ErrorCode::malformed;
    case vitrine::ErrorCode::unsupported:
      return ErrorCode::unsupported;
    case vitrine::ErrorCode::limit:
      return ErrorCode::limit;
    case vitrine::ErrorCode::interrupted:
      return ErrorCode::interrupted;
    case vitrine::ErrorCode::changing:
      return ErrorCode::changing;
    case vitrine::ErrorCode::another_program:
      return ErrorCode::another_program;
  }
  return ErrorCode::failed;
}

}  // namespace

Error error(vitrine::Error from) {
  from = query::as_sentences(std::move(from));
  return {public_code(from.code), std::move(from.message), std::move(from.remedy)};
}

LabelSet label_set(const format::LabelSet& from) {
  LabelSet to;
  to.labels.reserve(from.labels.size());
  for (const format::Label& label : from.labels) to.labels.push_back({label.key, label.value});
  if (from.trace)
    to.trace = TraceContext{from.trace->trace_id, from.trace->span_id, from.trace->trace_flags};
  for (const format::Truncation& cut : from.truncated)
    to.truncated.push_back(cut.what + ": " + cut.detail);
  to.defects = format::texts(from.defects, from.defects_left_out);
  return to;
}

}  // namespace convert
}  // namespace vitrine::observer
