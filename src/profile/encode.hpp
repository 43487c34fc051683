// Encodings of profiles: the interface, and what all of them agree on.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/result.hpp"
#include "profile/profile.hpp"

namespace vitrine::profile {

// What the encodings agree on: how a frame is called, how a cut stack is marked, what is reported about
// losses, and how keys and text of targets become ones that every format may hold.

/// The entry of a table; null: `index` is none, or past its end.
template <class T>
const T* entry(const std::vector<T>& table, Index index) {
  return index < table.size() ? &table[index] : nullptr;
}

/// What was measured, whether or not there was anything to see.
struct Measures {
  bool on_cpu = false;
  bool off_cpu = false;
};
Measures measures_of(const Profile& profile);

/// How many samples were taken: one in a table may be the sum of several.
std::uint64_t number_of_samples(const Profile& profile);

/// The name of the outermost frame that marks a stack that is not whole: "[truncated]" as ddprof has
/// it, or "[incomplete]"; empty: it is whole.
std::string_view end_mark(StackEnd end);

/// How many samples have a stack with each end.
std::array<std::uint64_t, stack_ends> count_ends(const Profile& profile);

/// The samples that one is the sum of, if their times are known: they have equal shares of its value.
std::vector<Sample> each_of(const Profile& profile, const Sample& sample);

/// The end that a frame of this name marks; nothing: it is another frame.
std::optional<StackEnd> end_of_mark(std::string_view name);

/// The names of the functions at a location, innermost first; never empty: of one without a symbol,
/// its file as "[libshop.so]", or "[unknown]". Any bytes.
std::vector<std::string_view> frame_names(const Profile& profile, const Location& location,
                                          std::string& scratch);

/// The outermost frames that `keys` ask for: "tenant=acme", "tenant=(none)".
std::vector<std::string> group_frames(const Profile& profile, const Sample& sample,
                                      const std::vector<std::string>& keys);

/// What was lost, and what else went wrong: sentences without a full stop. Any bytes.
std::vector<std::string> remarks(const Profile& profile);

/// Takes a sentence that remarks() gave for another profile: what was lost is added to the losses,
/// anything else becomes a problem, once.
void add_remark(Profile& profile, std::string_view remark);

/// Makes text of others what protobuf and JSON may hold.
class CleanText {
 public:
  std::string operator()(std::string_view bytes);
  /// Strings that were not UTF-8.
  [[nodiscard]] std::uint64_t replaced() const { return replaced_; }

 private:
  std::uint64_t replaced_ = 0;
};

/// The names under which a format has the keys of labels: prefixed, each of its own, and none that
/// the format uses itself. A key that may not stay becomes "label.KEY".
class ExportedKeys {
 public:
  /// `reserved`: names the format uses; `reserved_prefix`: so do all that begin so (empty: none).
  ExportedKeys(const Profile& profile, std::string_view label_prefix,
               std::set<std::string, std::less<>> reserved, std::string_view reserved_prefix,
               CleanText& clean);

  [[nodiscard]] const std::string& of(const std::string& key) const { return names_.at(key); }
  /// A sentence for each that is called otherwise than asked.
  [[nodiscard]] const std::vector<std::string>& renamed() const { return renamed_; }

 private:
  std::unordered_map<std::string, std::string> names_;
  std::vector<std::string> renamed_;
};

/// Drawn when the program starts: a target cannot choose labels and stacks whose indices collide.
extern const std::uint64_t indices_seed;

/// Hashes the indices that make samples the same.
struct IndicesHash {
  template <std::size_t n>
  std::size_t operator()(const std::array<std::uint32_t, n>& indices) const {
    std::uint64_t hash = indices_seed;
    for (const std::uint32_t index : indices) {
      hash = (hash ^ index) * 0x9e37'79b9'7f4a'7c15ULL;
      hash ^= hash >> 29;
    }
    return hash;
  }
};

/// Nanoseconds as the signed numbers of the formats.
std::int64_t as_signed(std::uint64_t ns);

/// A tick of the sampling clock; 0: there is none.
std::int64_t period_ns(const Profile& profile);

// Encodings: a profile in the formats that other tools read. Pure: values in, bytes out.

enum class Encoding : std::uint8_t {
  pprof,       ///< profile.proto, gzipped (docs/formats/profiles.md)
  otlp,        ///< ProfilesData = ExportProfilesServiceRequest of v1development
  folded,      ///< a line a stack: frames from the root, ';' between them, a blank, a count
  speedscope,  ///< its JSON file format
  json,        ///< NDJSON: one sample a line
  json_flat,   ///< NDJSON for tables: one sample a line, all with the same fields
  html,        ///< one self-contained page
};

inline constexpr std::array<std::pair<std::string_view, Encoding>, 7> encoding_names{{
    {"pprof", Encoding::pprof},
    {"otlp", Encoding::otlp},
    {"folded", Encoding::folded},
    {"speedscope", Encoding::speedscope},
    {"json", Encoding::json},
    {"json-flat", Encoding::json_flat},
    {"html", Encoding::html},
}};
std::string_view name_of(Encoding encoding);
/// By the end of a file's name: .pb.gz and .pprof, .otlp and .pb, .folded and .txt,
/// .speedscope.json, .flat.ndjson, .ndjson and .jsonl, .html. Nothing: no known ending.
std::optional<Encoding> encoding_of_file(std::string_view path);

/// Which attributes OTLP has, of samples and of resources, by patterns for their keys: globs, and
/// `!GLOB` to leave keys out. The last one that matches decides; a key that none matches is left out
/// if the first one takes keys. None at all: every attribute.
class AttributeChoice {
 public:
  AttributeChoice() = default;
  explicit AttributeChoice(std::vector<std::string> patterns) : patterns_(std::move(patterns)) {}

  [[nodiscard]] bool has(std::string_view key) const;
  /// Whether a pattern is `key` itself: of attributes that are there only on request.
  [[nodiscard]] bool names(std::string_view key) const;
  /// The same keys, of which none counts as named.
  [[nodiscard]] AttributeChoice without_requests() const;

 private:
  std::vector<std::string> patterns_;
  bool requests_ = true;
};

struct EncodeOptions {
  /// Labels whose values become the outermost frames, in order (folded, speedscope, html's first
  /// view; the others keep labels as labels).
  std::vector<std::string> group_by{};
  std::string label_prefix{};  ///< put before the keys of labels (otlp, pprof)
  bool otlp_compact = false;   ///< texts of attributes as indices: fewer readers understand them
  /// Off-CPU profiles have a period type (otlp): Parca cannot list its types without, and Pyroscope takes the
  /// profile for another with one.
  bool off_cpu_period = false;
  AttributeChoice attributes{};  ///< of otlp; `trace_id` and `span_id` only if they are named
  std::string title{};           ///< html, speedscope: what was observed
  /// A key and two values of it, which the page compares at first (html); empty: none.
  std::vector<std::string> compare{};
};

/// Errors: limit (larger than the format can be), failed (gzip).
Result<std::string> encode(const Profile& profile, Encoding encoding,
                           const EncodeOptions& options = {});

/// Takes the next bytes of a profile.
using Sink = std::function<Result<void>(std::string_view)>;

/// The same piece by piece where the encoding allows it (json, json_flat): a profile that is always on would
/// else have most of its memory at the end of an interval. Errors: as above, and those of `sink`.
Result<void> encode(const Profile& profile, Encoding encoding, const EncodeOptions& options,
                    const Sink& sink);

// One each; in the file of its name, folded stacks in that of this header.
Result<std::string> encode_pprof(const Profile& profile, const EncodeOptions& options);
Result<std::string> encode_otlp(const Profile& profile, const EncodeOptions& options);
Result<std::string> encode_folded(const Profile& profile, const EncodeOptions& options);
Result<std::string> encode_speedscope(const Profile& profile, const EncodeOptions& options);
Result<void> encode_json(const Profile& profile, const EncodeOptions& options, const Sink& sink);
Result<void> encode_json_flat(const Profile& profile, const EncodeOptions& options,
                              const Sink& sink);
Result<std::string> encode_html(const Profile& profile, const EncodeOptions& options);

/// What one request may have. Pyroscope takes 2 MiB and 16,000 samples by default, gRPC 4 MiB.
struct RequestLimits {
  std::size_t bytes = std::size_t{1} << 20;
  std::size_t rows = 10'000;  ///< samples of OTLP, lines of JSON
  bool one_process = false;   ///< of OTLP: a request has samples of one process
};

/// A profile as several requests, none larger than asked.
struct Requests {
  std::vector<std::string> bodies;
  std::uint64_t too_large = 0;  ///< samples left out: one of them alone is larger
};
/// Each is of one measure, as engines may take one and refuse the other, and of as many processes as
/// there is room for. What was lost and what went wrong is in the first. No samples: no request.
Requests encode_otlp_requests(const Profile& profile, const EncodeOptions& options,
                              const RequestLimits& limits);

/// A request of encode_otlp_requests with `options`, as smaller ones with the same samples. Errors:
/// those of decode_otlp.
Result<Requests> split_otlp_request(std::string_view request, EncodeOptions options);

/// Lines of Encoding::json_flat, in their order. No samples: no request.
Requests encode_json_flat_requests(const Profile& profile, const RequestLimits& limits);

/// The lines of such a request in two halves; fewer than two bodies: it has only one line.
Requests split_json_flat_request(std::string_view request);

}  // namespace vitrine::profile
