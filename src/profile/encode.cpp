#include "profile/encode.hpp"

#include <array>
#include <utility>

namespace vitrine::profile {
namespace {

constexpr std::array<std::pair<std::string_view, Encoding>, 6> names{{
    {"pprof", Encoding::pprof},
    {"otlp", Encoding::otlp},
    {"folded", Encoding::folded},
    {"speedscope", Encoding::speedscope},
    {"json", Encoding::json},
    {"html", Encoding::html},
}};

constexpr std::array<std::pair<std::string_view, Encoding>, 10> endings{{
    {".pb.gz", Encoding::pprof},
    {".pprof", Encoding::pprof},
    {".otlp", Encoding::otlp},
    {".pb", Encoding::otlp},
    {".folded", Encoding::folded},
    {".txt", Encoding::folded},
    {".speedscope.json", Encoding::speedscope},
    {".ndjson", Encoding::json},
    {".jsonl", Encoding::json},
    {".html", Encoding::html},
}};

}  // namespace

std::optional<Encoding> encoding_named(std::string_view name) {
  for (const auto& [spelling, encoding] : names)
    if (spelling == name) return encoding;
  return std::nullopt;
}

std::optional<Encoding> encoding_of_file(std::string_view path) {
  for (const auto& [ending, encoding] : endings)
    if (path.ends_with(ending)) return encoding;
  return std::nullopt;
}

Result<std::string> encode(const Profile& profile, Encoding encoding,
                           const EncodeOptions& options) {
  switch (encoding) {
    case Encoding::pprof:
      return encode_pprof(profile, options);
    case Encoding::otlp:
      return encode_otlp(profile, options);
    case Encoding::folded:
      return encode_folded(profile, options);
    case Encoding::speedscope:
      return encode_speedscope(profile, options);
    case Encoding::json:
      return encode_json(profile, options);
    case Encoding::html:
      return encode_html(profile, options);
  }
  return fail(ErrorCode::usage, "no such encoding");
}

}  // namespace vitrine::profile
