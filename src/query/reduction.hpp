// Reductions: fires added up by group, with histograms.
#pragma once

#include <compare>
#include <concepts>
#include <cstdint>
#include <list>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/limits.hpp"
#include "base/result.hpp"
#include "query/lexer.hpp"
#include "query/show.hpp"

namespace vitrine::query {

// Histograms: how many values fell into each bucket of buckets.h.

class Histogram {
 public:
  struct Bucket {
    std::int32_t index = 0;  ///< vitrine_bucket_of()
    std::uint64_t count = 0;
    bool operator==(const Bucket&) const = default;
  };

  /// A fraction counts as the next integer below it; what 64 bits do not hold, as their last; NaN is in
  /// no bucket.
  void add(const Number& value);
  void add(std::int32_t bucket, std::uint64_t count);
  void add(const Histogram& other);

  bool empty() const { return buckets_.empty(); }
  std::uint64_t count() const;
  /// By value, none empty.
  const std::vector<Bucket>& buckets() const { return buckets_; }

  /// The value that a share of all (0 to 1) do not exceed, interpolated in its bucket: right to an
  /// eighth of itself. 0 when empty.
  double percentile(double share) const;

  bool operator==(const Histogram&) const = default;

 private:
  std::vector<Bucket> buckets_;
};

/// The least and the largest integer of a bucket.
struct BucketRange {
  Number low;
  Number high;
};
BucketRange range_of(std::int32_t bucket);

// Sums.

__extension__ typedef __int128 Int128;

/// Of integers it is exact: 2^63 of them do not overflow its 128 bits. With a fraction among them it
/// is a double, at most the largest finite one.
class Sum {
 public:
  Sum() = default;
  template <class T>
  requires std::convertible_to<T, Number> &&(!std::same_as<std::remove_cvref_t<T>, Sum>)
      Sum(T&& number) {  // NOLINT: a number is a sum; of a sum it is no candidate
    const Number summand = std::forward<T>(number);
    std::visit([this](auto one) { *this = of(one); }, summand);
  }
  /// The halves of a number of 128 bits in two's complement.
  static Sum of_halves(std::uint64_t low, std::uint64_t high) {
    Sum sum;
    sum.whole_ = static_cast<Int128>(static_cast<UInt128>(high) << 64 | low);
    return sum;
  }

  void add(const Sum& other);
  [[nodiscard]] double to_double() const {
    return is_fraction_ ? fraction_ : static_cast<double>(whole_);
  }
  /// The same as a number, if it fits one.
  [[nodiscard]] std::optional<Number> number() const;
  /// Its digits.
  [[nodiscard]] std::string text() const;

  bool operator==(const Sum&) const = default;
  friend std::partial_ordering compare(const Sum& left, const Sum& right);

 private:
  __extension__ typedef unsigned __int128 UInt128;

  static Sum of(std::int64_t number) { return of_whole(number); }
  static Sum of(std::uint64_t number) { return of_whole(number); }
  static Sum of(double number) {
    Sum sum;
    sum.is_fraction_ = true;
    sum.fraction_ = number;
    return sum;
  }
  static Sum of_whole(Int128 number) {
    Sum sum;
    sum.whole_ = number;
    return sum;
  }

  Int128 whole_ = 0;
  double fraction_ = 0;
  bool is_fraction_ = false;
};

// Reductions: many fires added up by group. The table is the same whether the kernel or user space
// did the adding; Reducer is the latter.

enum class ReductionKind : std::uint8_t { count, histogram, sum, latency };

/// What is asked for.
struct ReductionQuery {
  ReductionKind kind = ReductionKind::count;
  std::optional<Item> value;  ///< histogram, sum: of what
  std::string start;          ///< latency: the probes that begin and end it, as patterns
  std::string end;
  std::optional<Item> match;  ///< latency: what a start and its end have in common; else the thread
  std::vector<Item> by;
  bool of_calls = false;   ///< latency: from the entry of a function to the return of the same call
  bool exemplars = false;  ///< keeps the last fire of each group that was in a span
};

/// The two probes of `--latency START,END`, into `query`; or the entry and the return of `--latency
/// FUNCTION`. Errors: usage.
Result<void> parse_latency(std::string_view text, ReductionQuery& query);

/// One value of a group's key. Nothing: a label that is not set; ValueError: not readable.
using Key = std::optional<probe::Value>;

/// A fire that was in a span.
struct ReductionExemplar {
  std::uint64_t time_ns = 0;  ///< of the clock of fires
  Number value;               ///< of a count: 1
  std::string trace_id;       ///< lower-case hex
  std::string span_id;

  bool operator==(const ReductionExemplar&) const = default;
};

struct ReductionRow {
  std::string probe;                 ///< provider:name; of a latency: the one that ends it
  std::vector<Key> keys;             ///< one a column of `by`
  std::vector<std::uint8_t> widths;  ///< of the keys: Bound::width
  std::uint64_t count = 0;
  // The rest is of sum, histogram and latency; a latency is in nanoseconds.
  Sum sum;
  std::optional<Number> least;     ///< nothing: not known
  std::optional<Number> greatest;  ///< nothing: not known
  Histogram histogram;             ///< not of sum
  std::optional<ReductionExemplar> exemplar;

  bool operator==(const ReductionRow&) const = default;
};

/// The value that a share of a row's values (0 to 1) do not exceed: of its histogram, but never
/// beyond its least and greatest.
double percentile(const ReductionRow& row, double share);

struct ReductionTable {
  ReductionKind kind = ReductionKind::count;
  std::string value;               ///< title of what is added up; empty for count and latency
  Format format = Format::plain;   ///< of that
  std::vector<std::string> by;     ///< titles of the columns
  std::vector<Format> by_formats;  ///< of the columns; plain, where there is none
  std::vector<ReductionRow> rows;
  /// What groups past the limit have together; its keys are empty. count 0: there were none.
  ReductionRow others;
  /// Fires whose value could not be read, or is NaN or infinite: in no row.
  std::uint64_t unread = 0;
  std::uint64_t without_start = 0;  ///< ends that had no start
  std::uint64_t without_end = 0;    ///< starts forgotten: another followed, or 65,536 later ones
  std::uint64_t lost = 0;           ///< fires that could not be added up
  std::uint64_t cut_texts = 0;      ///< of groups in the kernel: only their beginnings count
  std::uint64_t without_text = 0;   ///< fires in groups whose text had no room
};

/// Adds a row to another, whatever their groups.
void merge(ReductionRow& into, const ReductionRow& row);

/// Adds rows to a table that may have others of the same groups.
void merge_rows(ReductionTable& table, std::vector<ReductionRow> rows);

/// Adds a whole table, of the same query: a trace that goes on with another file. Rows beyond
/// `max_groups` are in `others`.
void merge(ReductionTable& into, const ReductionTable& table,
           std::size_t max_groups = limits::groups);

/// Sorts rows: the largest first (by count; sums by sum, latencies by their total).
void sort_rows(ReductionTable& table);

/// What a fire of a site means to a reduction.
struct BoundReduction {
  enum class Role : std::uint8_t { measure, start, end };
  Role role = Role::measure;
  std::optional<Bound> value;
  std::optional<Bound> match;
  std::vector<Bound> by;
};

/// Only what `role` needs is captured: a start needs no groups, for those of the end count.
BoundReduction bind(const ReductionQuery& query, BoundReduction::Role role, const Arguments& site,
                    std::vector<Capture>& captures);

/// Adds up fires in user space.
class Reducer {
 public:
  explicit Reducer(const ReductionQuery& query, std::size_t max_groups = limits::groups,
                   std::size_t max_starts = limits::pending_starts);

  /// `fire` has passed the condition, or is a start, to which none applies.
  void add(const Fire& fire, const BoundReduction& site);

  /// The same of the end of a latency, of which the start is known: `spent` nanoseconds ago.
  void add_latency(const Fire& fire, const BoundReduction& site, std::uint64_t spent) {
    measure(fire, site, narrowest(spent));
  }

  /// What was added up so far, sorted.
  ReductionTable table() const;

 private:
  ReductionRow& row_of(const Fire& fire, const BoundReduction& site);
  void add_latency(const Fire& fire, const BoundReduction& site);
  void measure(const Fire& fire, const BoundReduction& site, const Number& value);
  /// What a start and its end have in common; empty when it cannot be read.
  static std::string match_of(const Fire& fire, const BoundReduction& site);
  void keep_exemplar(const Fire& fire, const Number& value, ReductionRow& row) const;

  ReductionTable table_;
  std::size_t max_groups_;
  std::size_t max_starts_;
  bool exemplars_;
  std::unordered_map<std::string, std::size_t> row_index_;
  struct Start {
    std::uint64_t time_ns = 0;
    std::list<std::string>::iterator age;
  };
  std::unordered_map<std::string, Start> starts_;  ///< by what matches
  std::list<std::string> ages_;                    ///< of starts_: the oldest first
};

}  // namespace vitrine::query
