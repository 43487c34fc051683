// Selecting samples of a profile, and hiding values of it.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/redaction.hpp"
#include "base/result.hpp"
#include "profile/profile.hpp"

namespace vitrine::profile {

// A profile with some values hidden.

/// With the values of labels and of resource attributes that `redaction` covers replaced. Ids of
/// traces are covered by the keys trace_id and span_id; when one is, no sample has a link, and the
/// ids are labels: the replacement of one is no id. Where that would take more label sets than a
/// profile may have, samples lose them, which is counted.
Profile redacted(Profile profile, const Redaction& redaction);

/// The value of `key` in a sample: a label's; or, where no label has that key, of `trace_id`,
/// `span_id`, `pid`, `tid`, `thread`, `process`, `cpu`. Nothing: the sample has none.
std::optional<std::string> value_of(const Profile& profile, const Sample& sample,
                                    std::string_view key);

/// `tenant=acme,route~^/pay,step!=idle,route!~health`: all of them must hold. A ',' or '\' of a
/// value is written '\,' and '\\', and so are, in a key, these and '=', '!' and '~'. `=` without a
/// value: the sample has no such key (an empty value is `~^$`).
class Filter {
 public:
  /// Errors: usage (what is wrong, and where in the text).
  static Result<Filter> parse(std::string_view text);

  [[nodiscard]] bool holds(const Profile& profile, const Sample& sample) const;
  /// Whether one of its terms is about this key.
  [[nodiscard]] bool has_key(std::string_view key) const;

  Filter();
  Filter(Filter&&) noexcept;
  Filter& operator=(Filter&&) noexcept;
  ~Filter();

 private:
  struct Term;
  std::vector<Term> terms_;
};

/// The profile with only those samples; its tables stay.
Profile filtered(Profile profile, const Filter& filter);

/// One row of `--top`.
struct TopRow {
  std::vector<std::string> values;  ///< of the keys; "(none)" where a sample has no such key
  std::uint64_t samples = 0;
  std::uint64_t on_cpu_ns = 0;
  std::uint64_t off_cpu_ns = 0;
};

/// Time by the values of `keys`, the most first.
std::vector<TopRow> top(const Profile& profile, const std::vector<std::string>& keys);

}  // namespace vitrine::profile
