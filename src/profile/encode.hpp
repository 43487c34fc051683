// Encodings: a profile in the formats that other tools read. Pure: values in, bytes out.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "profile/profile.hpp"

namespace vitrine::profile {

enum class Encoding : std::uint8_t {
  pprof,       ///< profile.proto, gzipped (docs/formats/profiles.md)
  otlp,        ///< ProfilesData = ExportProfilesServiceRequest of v1development
  folded,      ///< a line a stack: frames from the root, ';' between them, a blank, a count
  speedscope,  ///< its JSON file format
  json,        ///< NDJSON: one sample a line
  html,        ///< one self-contained page
};

/// As `--format` spells them; nothing: no such encoding.
std::optional<Encoding> encoding_named(std::string_view name);
/// By the end of a file's name: .pb.gz and .pprof, .otlp and .pb, .folded and .txt,
/// .speedscope.json, .ndjson and .jsonl, .html. Nothing: it does not tell.
std::optional<Encoding> encoding_of_file(std::string_view path);

struct EncodeOptions {
  /// Labels whose values become the outermost frames, in order (folded, speedscope, html's first
  /// view; the others keep labels as labels).
  std::vector<std::string> group_by{};
  std::string label_prefix{};  ///< put before the keys of labels (otlp, pprof)
  bool otlp_compact = false;   ///< texts of attributes as indices: fewer readers understand them
  std::string title{};         ///< html, speedscope: what was observed
};

/// Errors: limit (larger than the format can be), failed (gzip).
Result<std::string> encode(const Profile& profile, Encoding encoding,
                           const EncodeOptions& options = {});

// One each; in the file of its name.
Result<std::string> encode_pprof(const Profile& profile, const EncodeOptions& options);
Result<std::string> encode_otlp(const Profile& profile, const EncodeOptions& options);
Result<std::string> encode_folded(const Profile& profile, const EncodeOptions& options);
Result<std::string> encode_speedscope(const Profile& profile, const EncodeOptions& options);
Result<std::string> encode_json(const Profile& profile, const EncodeOptions& options);
Result<std::string> encode_html(const Profile& profile, const EncodeOptions& options);

/// A profile as several requests, none larger than asked.
struct OtlpRequests {
  std::vector<std::string> bodies;
  std::uint64_t too_large = 0;  ///< samples left out: one of them alone is larger
};
/// What was lost and what went wrong is told in the first. No samples: no request.
OtlpRequests encode_otlp_requests(const Profile& profile, const EncodeOptions& options,
                                  std::size_t max_bytes);

}  // namespace vitrine::profile
