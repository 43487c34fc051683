// What the readers of pprof and of OTLP share: the wire types of protobuf, what a sample type
// measures, and the tables of the profile that is read, with their bounds.
#pragma once

#include <cstdint>
#include <exception>
#include <map>
#include <protozero/pbf_reader.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.hpp"
#include "profile/profile.hpp"

namespace vitrine::profile {

// protozero checks lengths, varints and tags, and throws. A known field with another wire type is
// skipped like an unknown one, as protobuf readers do.

constexpr std::uint32_t varint(std::uint32_t field) {
  return protozero::tag_and_type(field, protozero::pbf_wire_type::varint);
}
constexpr std::uint32_t fixed64(std::uint32_t field) {
  return protozero::tag_and_type(field, protozero::pbf_wire_type::fixed64);
}
constexpr std::uint32_t nested(std::uint32_t field) {
  return protozero::tag_and_type(field, protozero::pbf_wire_type::length_delimited);
}

inline std::string_view text_of(protozero::data_view bytes) {
  return {bytes.data(), bytes.size()};
}

/// What to do about a file that is broken.
inline constexpr const char* not_a_profile =
    "check that it is a whole file of pprof (.pb.gz) or OTLP (.otlp)";

/// Ends the reading of a file. decode_by() adds where, and returns the error.
struct Refused : std::exception {
  explicit Refused(Error why) : error(std::move(why)) {}
  const char* what() const noexcept override { return error.message.c_str(); }
  Error error;
};

/// Where a reader is in its file, for errors.
struct Place {
  const char* part = nullptr;  ///< "location"; null: in none of the numbered parts
  std::size_t number = 0;

  /// "OTLP: location 12"
  [[nodiscard]] std::string within(std::string_view format) const;
};

/// What `decoder` reads from `message`; what it throws as an error, with its place.
template <class Decoder>
Result<Profile> decode_by(Decoder&& decoder, std::string_view message) {
  try {
    return decoder.read(message);
  } catch (const Refused& refused) {
    return fail_while(decoder.where(), refused.error);
  } catch (const protozero::exception&) {
    return fail(ErrorCode::malformed, decoder.where() + ": truncated, or of another format",
                not_a_profile);
  }
}

/// Throws Refused: the file is malformed.
[[noreturn]] void refuse(std::string why);
/// Throws Refused if `count` is more than `most`. `what`: "stacks".
void check_count(std::size_t count, std::size_t most, std::string_view what);

/// What a column of values is.
enum class ValueKind : std::uint8_t {
  ticks,    ///< samples of the CPU's clock, of one period each
  count,    ///< of something else that happened
  on_cpu,   ///< time
  waiting,  ///< time off the CPU, or blocked
  wall,     ///< time of both kinds
  other,    ///< bytes, objects
};

struct ValueMeaning {
  ValueKind column = ValueKind::other;
  std::uint64_t unit_ns = 0;  ///< of times
};

/// As producers name them: "cpu" and "nanoseconds", "samples" and "count", "delay" and "nanoseconds".
ValueMeaning value_meaning(std::string_view type, std::string_view unit);

/// `value` units of time; none where it is negative. Saturates.
std::uint64_t time_ns(std::int64_t value, std::uint64_t unit_ns);

/// The number of ticks a second of a period.
std::uint32_t frequency_of(std::int64_t period, std::uint64_t unit_ns);

/// The sample types of a file, as far as an error can name them.
class TypeNames {
 public:
  void add(std::string_view type, std::string_view unit);
  [[nodiscard]] Error no_time() const;

 private:
  std::string names_;
};

/// Samples by their attributes, as the file has them: what each list of attributes means is found
/// out once, as long as the lists take little memory.
template <class Attribute>
class KnownSamples {
 public:
  /// Null: not known. Valid until put().
  const Sample* find(const std::vector<Attribute>& attributes) const {
    const auto at = samples_.find(attributes);
    return at == samples_.end() ? nullptr : &at->second;
  }
  const Sample& put(const std::vector<Attribute>& attributes, Sample sample) {
    constexpr std::size_t most = 1U << 20;
    size_ += attributes.size();
    if (size_ > most) {
      samples_.clear();
      size_ = attributes.size();
    }
    return samples_.emplace(attributes, std::move(sample)).first->second;
  }

 private:
  std::map<std::vector<Attribute>, Sample> samples_;
  std::size_t size_ = 0;  // attributes of all
};

/// A file of a few megabytes may be read into so many bytes: tables may name one text a million times. More are
/// for larger files, in proportion: profiles take up to twenty times their file, compressed.
inline constexpr std::size_t min_room = 64U << 20, room_for_byte = 64, max_room = 2U << 30;
inline constexpr std::size_t max_depth = 1U << 20;  ///< frames of one stack

/// Bytes that what is read from a file of `bytes` may take.
std::size_t room_for(std::size_t bytes);

/// A profile in the making.
class ProfileReading {
 public:
  /// `room`: bytes that it may take, as far as they are counted.
  explicit ProfileReading(std::size_t room) : room_(room) {}

  Profile profile;

  /// Counts memory of what is read. Throws Refused (limit).
  void count(std::size_t bytes);

  /// A copy. Throws Refused (limit) where all texts together would be too long: a million entries
  /// may name one text.
  std::string text(std::string_view bytes);

  /// Each once. All throw Refused (limit).
  Index stack(Stack stack);
  /// `set`: in any order; of several values of a key, the first counts.
  Index label_set(LabelSet set);
  Index link(const Link& link);
  Index process(Process process);

  /// Throws Refused (limit; malformed, where the times of all add up to centuries).
  void sample(Sample sample);

 private:
  void count_text(std::size_t bytes);

  std::size_t room_, taken_ = 0;
  std::map<Stack, Index> stacks_;
  std::map<LabelSet, Index> label_sets_;
  std::map<Link, Index> links_;
  std::map<Process, Index> processes_;
  std::size_t text_bytes_ = 0, frames_ = 0;
  std::uint64_t total_ns_ = 0, total_count_ = 0;
};

/// A line of a source; 0 is none: where the number cannot be one.
std::uint32_t line_number(std::int64_t line);

/// The kind of a frame by what its file is called: "[kernel.kallsyms]" is the kernel.
FrameKind frame_kind(std::string_view file, bool named);

}  // namespace vitrine::profile
