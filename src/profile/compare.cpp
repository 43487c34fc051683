// How much of a difference is noise: a part p of the time is A / V, with V the time of all samples
// and A the time of those that have the function. If each sample had fallen where it did by chance,
// the variance of p is the sum over all samples of (their time)² (has - p)² / V², where `has` is 1
// for the samples of A and else 0. For ticks of equal time that is p (1 - p) / n. Of a rate A / T, it
// is the sum over A of (their time)² / T². The noise of a difference is 1.96 standard deviations.
#include "profile/compare.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <string_view>

#include "base/label_keys.hpp"
#include "profile/encode.hpp"
#include "profile/select.hpp"

namespace vitrine::profile {
namespace {

/// Times of samples, and their squares.
struct Statistics {
  double ns = 0, squares = 0;

  void add(const Sample& sample) {
    const auto time = static_cast<double>(sample.value_ns);
    ns += time;
    squares += time * time / static_cast<double>(std::max<std::uint64_t>(sample.count, 1));
  }
};

struct Spent {
  Statistics own, total;
};

/// One side, by name.
struct Sums {
  std::map<std::string, Spent, std::less<>> rows;
  Statistics all;
  double seconds = 0;

  Spent& of(std::string_view name) {
    const auto known = rows.find(name);
    return known != rows.end() ? known->second : rows.emplace(name, Spent()).first->second;
  }
};

Amount amount(const Statistics& some, const Sums& sums, CompareBy by) {
  if (by == CompareBy::rate) {
    const double ns = std::max(sums.seconds, 1e-9) * 1e9;
    return {some.ns / ns, std::sqrt(some.squares) / ns};
  }
  if (sums.all.ns == 0) return {};
  const double p = some.ns / sums.all.ns;
  const double variance =
      some.squares * (1 - p) * (1 - p) + (sums.all.squares - some.squares) * p * p;
  return {p, std::sqrt(std::max(variance, 0.0)) / sums.all.ns};
}

std::vector<ComparedRow> rows_of(const Sums& before, const Sums& after, CompareBy by) {
  std::set<std::string_view> names;
  for (const Sums* side : {&before, &after})
    for (const auto& [name, spent] : side->rows) names.insert(name);
  std::vector<ComparedRow> rows;
  for (const std::string_view name : names) {
    const auto side = [&](const Sums& sums) {
      const auto known = sums.rows.find(name);
      return known == sums.rows.end() ? Spent() : known->second;
    };
    const Spent was = side(before), is = side(after);
    rows.push_back({std::string(name),
                    {amount(was.own, before, by), amount(is.own, after, by)},
                    {amount(was.total, before, by), amount(is.total, after, by)}});
  }
  const auto most = [](const ComparedRow& row) {
    return std::max(std::abs(row.own.change()), std::abs(row.total.change()));
  };
  std::stable_sort(rows.begin(), rows.end(),
                   [&](const auto& a, const auto& b) { return most(a) > most(b); });
  return rows;
}

/// The names of the functions of each location, innermost first.
class Names {
 public:
  explicit Names(const Profile& profile) : profile_(profile), known_(profile.locations.size()) {}

  const std::vector<std::string>& of(Index location) {
    std::vector<std::string>& names = known_[location];
    if (names.empty()) {
      std::string scratch;
      for (const auto name : frame_names(profile_, profile_.locations[location], scratch))
        names.emplace_back(name);
    }
    return names;
  }

 private:
  const Profile& profile_;
  std::vector<std::vector<std::string>> known_;
};

Sums by_function(const Profile& profile, Measure measure) {
  Sums sums;
  sums.seconds = static_cast<double>(profile.duration_ns) / 1e9;
  Names names(profile);
  std::set<std::string_view> met;
  for (const Sample& sample : profile.samples) {
    if (sample.measure != measure) continue;
    sums.all.add(sample);
    const Stack* stack = entry(profile.stacks, sample.stack);
    if (stack == nullptr) continue;
    met.clear();
    bool own = false;
    for (const Index at : stack->locations) {
      if (at >= profile.locations.size()) continue;
      // What waits does so in the scheduler: its caller is more informative.
      const bool may_own =
          measure == Measure::on_cpu || profile.locations[at].kind != FrameKind::kernel;
      for (const std::string& name : names.of(at)) {
        Spent& spent = sums.of(name);
        if (met.insert(name).second) spent.total.add(sample);
        if (!own && may_own) spent.own.add(sample), own = true;
      }
    }
  }
  return sums;
}

Sums by_value(const Profile& profile, Measure measure, const std::string& key) {
  Sums sums;
  sums.seconds = static_cast<double>(profile.duration_ns) / 1e9;
  for (const Sample& sample : profile.samples) {
    if (sample.measure != measure) continue;
    sums.all.add(sample);
    Spent& spent = sums.of(group_name(value_of(profile, sample, key)));
    spent.total.add(sample);
    spent.own.add(sample);
  }
  return sums;
}

}  // namespace

double Difference::noise() const {
  constexpr double deviations = 1.96;  // 95 % of a normal distribution
  return deviations * std::hypot(before.deviation, after.deviation);
}

std::vector<ComparedRow> compare_functions(const Profile& before, const Profile& after,
                                           Measure measure, CompareBy by) {
  return rows_of(by_function(before, measure), by_function(after, measure), by);
}

std::vector<ComparedRow> compare_values(const Profile& before, const Profile& after,
                                        Measure measure, const std::string& key, CompareBy by) {
  return rows_of(by_value(before, measure, key), by_value(after, measure, key), by);
}

}  // namespace vitrine::profile
