#include "query/reduction.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>

#include "base/text.hpp"
#include "probe/function_pattern.hpp"
#include "probe/probe.hpp"
#include "query/buckets.h"
#include "query/lexer.hpp"

namespace vitrine::query {
namespace {

std::int32_t bucket_of(const Number& value) {
  if (const auto* number = std::get_if<std::int64_t>(&value))
    return vitrine_bucket_of(static_cast<std::uint64_t>(*number), 1);
  if (const auto* number = std::get_if<std::uint64_t>(&value)) return vitrine_bucket_of(*number, 0);
  const double below = std::floor(std::get<double>(value));
  if (below < -0x1p63) return bucket_of(std::numeric_limits<std::int64_t>::min());
  if (below < 0) return bucket_of(static_cast<std::int64_t>(below));
  if (below >= 0x1p64) return bucket_of(std::numeric_limits<std::uint64_t>::max());
  return bucket_of(static_cast<std::uint64_t>(below));
}

bool is_nan(const Number& value) {
  const auto* number = std::get_if<double>(&value);
  return number != nullptr && std::isnan(*number);
}

}  // namespace

BucketRange range_of(std::int32_t bucket) {
  const bool negative = bucket < 0;
  constexpr std::int32_t last = 495;  // of buckets.h: that of 2^64 - 1
  const auto magnitude =
      static_cast<std::uint32_t>(std::min(negative ? -1 - bucket : bucket, last));
  const std::uint64_t low = vitrine_bucket_low(magnitude);
  const std::uint64_t high = low + (vitrine_bucket_width(magnitude) - 1);
  if (!negative) return {narrowest(low), narrowest(high)};
  // The magnitude of the least int64_t is the largest there is here.
  constexpr std::uint64_t most = std::uint64_t{1} << 63;
  return {static_cast<std::int64_t>(0 - std::min(high, most)),
          static_cast<std::int64_t>(0 - std::min(low, most))};
}

void Histogram::add(const Number& value) {
  if (!is_nan(value)) add(bucket_of(value), 1);
}

void Histogram::add(std::int32_t bucket, std::uint64_t count) {
  if (count == 0) return;
  const auto at = std::lower_bound(
      buckets_.begin(), buckets_.end(), bucket,
      [](const Bucket& known, std::int32_t wanted) { return known.index < wanted; });
  if (at != buckets_.end() && at->index == bucket) {
    at->count += count;
  } else {
    buckets_.insert(at, {bucket, count});
  }
}

void Histogram::add(const Histogram& other) {
  for (const Bucket& bucket : other.buckets_) add(bucket.index, bucket.count);
}

std::uint64_t Histogram::count() const {
  return std::accumulate(
      buckets_.begin(), buckets_.end(), std::uint64_t{0},
      [](std::uint64_t sum, const Bucket& bucket) { return sum + bucket.count; });
}

double Histogram::percentile(double share) const {
  if (buckets_.empty()) return 0;
  const double rank = std::clamp(share, 0.0, 1.0) * static_cast<double>(count());
  double before = 0;
  for (const Bucket& bucket : buckets_) {
    const auto here = static_cast<double>(bucket.count);
    if (before + here >= rank) {
      const BucketRange range = range_of(bucket.index);
      const double low = to_double(range.low);
      return low + (to_double(range.high) - low) * std::max(0.0, rank - before) / here;
    }
    before += here;
  }
  return to_double(range_of(buckets_.back().index).high);
}

namespace {

/// As conditions are written, which may have several lines.
std::string_view without_blanks(std::string_view text) {
  return trimmed(text, " \t\n");
}

/// Appends what distinguishes one value from all others: its type, its length, its bytes.
void append_key(std::string& key, const std::optional<probe::Value>& value) {
  const auto part = [&](char tag, std::string_view bytes) {
    const std::uint64_t size = bytes.size();
    key += tag;
    key.append(reinterpret_cast<const char*>(&size), sizeof size);
    key += bytes;
  };
  const auto bits = [&](char tag, const auto& number) {
    part(tag, {reinterpret_cast<const char*>(&number), sizeof number});
  };
  if (!value) return part('-', {});
  struct Visitor {
    const decltype(part)& text;
    const decltype(bits)& raw;
    void operator()(std::int64_t number) const { raw('i', number); }
    void operator()(std::uint64_t number) const {  // 200 is 200, whatever its type
      constexpr std::uint64_t largest = std::numeric_limits<std::int64_t>::max();
      raw(number <= largest ? 'i' : 'u', number);
    }
    void operator()(double number) const {  // of NaN there are many, which all print alike
      raw('d', std::isnan(number) ? std::numeric_limits<double>::quiet_NaN() : number);
    }
    void operator()(bool truth) const { raw('b', truth); }
    void operator()(const probe::PointerValue& pointer) const { raw('p', pointer.address); }
    void operator()(const probe::EnumeratorValue& enumerator) const {
      raw(enumerator.is_large ? 'E' : 'e', enumerator.value);
      text('n', enumerator.name);  // sites may have different enumerations
    }
    void operator()(const probe::StringValue& string) const {
      text(string.truncated ? 'S' : 's', string.text);
    }
    void operator()(const probe::BytesValue& bytes) const {
      text(bytes.truncated ? 'Y' : 'y',
           {reinterpret_cast<const char*>(bytes.bytes.data()), bytes.bytes.size()});
    }
    void operator()(const probe::ListValue& list) const {
      for (const std::string& item : list.items) text('l', item);
      text('L', {});
    }
    // Whatever the reason, it is one group.
    void operator()(const probe::ValueError&) const { text('!', {}); }
  };
  std::visit(Visitor{part, bits}, *value);
}

std::string group_of(std::string_view probe, const std::vector<Key>& keys) {
  std::string group;
  append_key(group, probe::StringValue{std::string(probe), false});
  for (const Key& key : keys) append_key(group, key);
  return group;
}

const Number& lesser(const Number& a, const Number& b) {
  return compare(b, a) < 0 ? b : a;
}
const Number& greater(const Number& a, const Number& b) {
  return compare(b, a) > 0 ? b : a;
}

/// Where the pattern of a function ends that another probe follows; C++ names have commas, too.
std::size_t function_end(std::string_view text) {
  std::size_t depth = 0;
  for (std::size_t at = 0; at < text.size(); ++at) {
    if (text[at] == '(' || text[at] == '<') ++depth;
    if ((text[at] == ')' || text[at] == '>') && depth > 0) --depth;
    if (text[at] == ',' && depth == 0) return at;
  }
  return text.npos;
}

}  // namespace

Result<void> parse_latency(std::string_view text, ReductionQuery& query) {
  const bool is_function = probe::is_function_pattern(without_blanks(text));
  const std::size_t comma = is_function ? function_end(text) : text.find(',');
  if (comma == text.npos && is_function) {
    const auto pattern = TRY(probe::parse_function_pattern(without_blanks(text)));
    if (pattern.at_return)
      return syntax_error(text, 0, "a latency begins at the entry of a function",
                          "without :return");
    query.kind = ReductionKind::latency;
    query.start = pattern.text;
    query.end = probe::return_of(pattern.text);
    query.of_calls = true;
    return {};
  }
  if (comma == text.npos || (!is_function && text.find(',', comma + 1) != text.npos) ||
      without_blanks(text.substr(0, comma)).empty() ||
      without_blanks(text.substr(comma + 1)).empty())
    return syntax_error(text, comma == text.npos ? text.size() : comma,
                        "a latency requires two probes",
                        "START,END: app:request_start,app:request_end");
  query.kind = ReductionKind::latency;
  query.start = without_blanks(text.substr(0, comma));
  query.end = without_blanks(text.substr(comma + 1));
  query.of_calls = is_function && query.end == probe::return_of(query.start);
  if (probe::canonical_name(query.start) == probe::canonical_name(query.end))
    return syntax_error(text, comma + 1, "a latency requires two different probes",
                        "START,END: app:request_start,app:request_end");
  return {};
}

void Sum::add(const Sum& other) {
  if (is_fraction_ || other.is_fraction_) {
    constexpr double largest = std::numeric_limits<double>::max();
    fraction_ = std::clamp(to_double() + other.to_double(), -largest, largest);
    is_fraction_ = true;
    whole_ = 0;
  } else {
    whole_ = static_cast<Int128>(static_cast<UInt128>(whole_) + static_cast<UInt128>(other.whole_));
  }
}

std::optional<Number> Sum::number() const {
  if (is_fraction_) return fraction_;
  const auto narrow = static_cast<std::int64_t>(whole_);
  if (narrow == whole_) return narrow;
  const auto natural = static_cast<std::uint64_t>(whole_);
  if (static_cast<Int128>(natural) == whole_) return natural;
  return std::nullopt;
}

std::string Sum::text() const {
  return is_fraction_ ? fmt::format("{}", fraction_) : fmt::format("{}", whole_);
}

std::partial_ordering compare(const Sum& left, const Sum& right) {
  if (left.is_fraction_ || right.is_fraction_) return left.to_double() <=> right.to_double();
  return left.whole_ <=> right.whole_;
}

double percentile(const ReductionRow& row, double share) {
  double value = row.histogram.percentile(share);
  if (row.greatest) value = std::min(value, to_double(*row.greatest));
  if (row.least) value = std::max(value, to_double(*row.least));
  return value;
}

void merge(ReductionRow& into, const ReductionRow& row) {
  into.count += row.count;
  into.sum.add(row.sum);
  if (row.least) into.least = into.least ? lesser(*into.least, *row.least) : *row.least;
  if (row.greatest)
    into.greatest = into.greatest ? greater(*into.greatest, *row.greatest) : *row.greatest;
  into.histogram.add(row.histogram);
  if (row.exemplar && (!into.exemplar || into.exemplar->time_ns < row.exemplar->time_ns))
    into.exemplar = row.exemplar;
}

void merge_rows(ReductionTable& table, std::vector<ReductionRow> rows) {
  std::unordered_map<std::string, std::size_t> index;
  for (std::size_t i = 0; i < table.rows.size(); ++i)
    index.emplace(group_of(table.rows[i].probe, table.rows[i].keys), i);
  for (ReductionRow& row : rows) {
    const auto [at, fresh] = index.emplace(group_of(row.probe, row.keys), table.rows.size());
    if (fresh) {
      table.rows.push_back(std::move(row));
      continue;
    }
    merge(table.rows[at->second], row);
  }
}

void merge(ReductionTable& into, const ReductionTable& table, std::size_t max_groups) {
  if (into.by.empty() && into.rows.empty() && into.others.count == 0) {
    into.kind = table.kind;
    into.value = table.value;
    into.format = table.format;
    into.by = table.by;
    into.by_formats = table.by_formats;
  }
  merge_rows(into, table.rows);
  while (into.rows.size() > max_groups) {
    merge(into.others, into.rows.back());
    into.rows.pop_back();
  }
  if (table.others.count > 0) merge(into.others, table.others);
  into.unread += table.unread;
  into.without_start += table.without_start;
  into.without_end += table.without_end;
  into.lost += table.lost;
  into.cut_texts += table.cut_texts;
  into.without_text += table.without_text;
}

void sort_rows(ReductionTable& table) {
  const bool by_sum = table.kind == ReductionKind::sum || table.kind == ReductionKind::latency;
  std::stable_sort(table.rows.begin(), table.rows.end(),
                   [&](const ReductionRow& left, const ReductionRow& right) {
                     if (by_sum)
                       if (const auto order = compare(left.sum, right.sum); order != 0)
                         return order > 0;
                     if (left.count != right.count) return left.count > right.count;
                     return left.probe < right.probe;
                   });
}

BoundReduction bind(const ReductionQuery& query, BoundReduction::Role role, const Arguments& site,
                    std::vector<Capture>& captures) {
  BoundReduction bound;
  bound.role = role;
  if (query.value && role == BoundReduction::Role::measure)
    bound.value = bind(query.value->subject, site, captures);
  if (query.match && role != BoundReduction::Role::measure)
    bound.match = bind(query.match->subject, site, captures);
  if (role == BoundReduction::Role::start) return bound;
  for (const Item& item : query.by) bound.by.push_back(bind(item.subject, site, captures));
  return bound;
}

Reducer::Reducer(const ReductionQuery& query, std::size_t max_groups, std::size_t max_starts)
    : max_groups_(max_groups), max_starts_(max_starts), exemplars_(query.exemplars) {
  table_.kind = query.kind;
  if (query.value) {
    table_.value = query.value->title;
    table_.format = query.value->format;
  }
  for (const Item& item : query.by) {
    table_.by.push_back(item.title);
    table_.by_formats.push_back(item.format);
  }
}

void Reducer::add(const Fire& fire, const BoundReduction& site) {
  using Role = BoundReduction::Role;
  if (site.role == Role::start || site.role == Role::end) return add_latency(fire, site);
  if (table_.kind == ReductionKind::count) {
    ReductionRow& row = row_of(fire, site);
    ++row.count;
    keep_exemplar(fire, std::int64_t{1}, row);
    return;
  }
  const auto value = site.value ? value_of(*site.value, fire) : std::nullopt;
  const auto number = value ? number_of(*value) : std::nullopt;
  // One NaN would make all of a sum NaN, and so would two infinite values. OpenTelemetry asks for the
  // same: https://opentelemetry.io/docs/specs/otel/metrics/sdk/#exponential-histogram-aggregation
  const auto* fraction = number ? std::get_if<double>(&*number) : nullptr;
  if (!number || (fraction != nullptr && !std::isfinite(*fraction))) {
    ++table_.unread;
    return;
  }
  measure(fire, site, *number);
}

void Reducer::add_latency(const Fire& fire, const BoundReduction& site) {
  std::string what = match_of(fire, site);
  if (what.empty()) {
    ++table_.unread;
    return;
  }
  const auto started = starts_.find(what);
  if (site.role == BoundReduction::Role::end) {
    if (started == starts_.end()) {
      ++table_.without_start;
      return;
    }
    const std::uint64_t from = started->second.time_ns;
    ages_.erase(started->second.age);
    starts_.erase(started);
    // On two CPUs, clocks may differ by less than they take to read.
    measure(fire, site, narrowest(fire.time_ns > from ? fire.time_ns - from : 0));
    return;
  }
  if (started != starts_.end()) {
    ++table_.without_end;
    started->second.time_ns = fire.time_ns;
    ages_.splice(ages_.end(), ages_, started->second.age);
    return;
  }
  // Of an operation that never ends its start stays: the oldest make room, as in the kernel.
  if (starts_.size() >= max_starts_) {
    ++table_.without_end;
    starts_.erase(ages_.front());
    ages_.pop_front();
  }
  ages_.push_back(what);
  starts_.emplace(std::move(what), Start{fire.time_ns, std::prev(ages_.end())});
}

std::string Reducer::match_of(const Fire& fire, const BoundReduction& site) {
  std::string key;
  // What another process calls the same is not the same, though it has the number of the one that began it.
  append_key(key, std::int64_t{fire.pid});
  append_key(key, fire.process_start_ns);
  if (!site.match) {
    append_key(key, std::int64_t{fire.tid});
    return key;
  }
  const auto value = value_of(*site.match, fire);
  if (!value || std::holds_alternative<probe::ValueError>(*value) || probe::is_cut(*value))
    return {};
  // The same id may be an int at its start and a long at its end.
  const auto number = number_of(*value);
  if (!number) {
    append_key(key, value);
  } else if (const auto* whole = std::get_if<std::uint64_t>(&*number)) {
    const Number same = narrowest(*whole);
    append_key(key, std::visit([](auto same_number) { return probe::Value(same_number); }, same));
  } else {
    append_key(key,
               std::visit([](auto same_number) { return probe::Value(same_number); }, *number));
  }
  return key;
}

ReductionRow& Reducer::row_of(const Fire& fire, const BoundReduction& site) {
  std::vector<Key> keys;
  keys.reserve(site.by.size());
  for (const Bound& subject : site.by) keys.push_back(value_of(subject, fire));
  std::string index = group_of(fire.probe, keys);
  const auto known = row_index_.find(index);
  if (known != row_index_.end()) return table_.rows[known->second];
  if (table_.rows.size() >= max_groups_) return table_.others;
  row_index_.emplace(std::move(index), table_.rows.size());
  ReductionRow row;
  row.probe = fire.probe;
  row.keys = std::move(keys);
  for (const Bound& subject : site.by) row.widths.push_back(subject.width);
  return table_.rows.emplace_back(std::move(row));
}

void Reducer::measure(const Fire& fire, const BoundReduction& site, const Number& value) {
  ReductionRow& row = row_of(fire, site);
  ++row.count;
  row.sum.add(value);
  row.least = row.least ? lesser(*row.least, value) : value;
  row.greatest = row.greatest ? greater(*row.greatest, value) : value;
  if (table_.kind != ReductionKind::sum) row.histogram.add(value);
  keep_exemplar(fire, value, row);
}

void Reducer::keep_exemplar(const Fire& fire, const Number& value, ReductionRow& row) const {
  if (!exemplars_ || fire.trace_id.empty()) return;
  if (!row.exemplar) row.exemplar.emplace();
  row.exemplar->time_ns = fire.time_ns;
  row.exemplar->value = value;
  row.exemplar->trace_id = fire.trace_id;
  row.exemplar->span_id = fire.span_id;
}

ReductionTable Reducer::table() const {
  ReductionTable table = table_;
  sort_rows(table);
  return table;
}

}  // namespace vitrine::query
