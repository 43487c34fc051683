#include "usdt/containing_function.hpp"

#include <elf.h>

#include <algorithm>
#include <optional>
#include <tuple>
#include <unordered_set>

namespace vitrine::usdt {
namespace {

struct Candidate {
  Place start;
  std::uint64_t end;
  int rank;  ///< the higher, the better
  std::uint32_t index;
};

int rank_of(const Symbol& symbol) {
  // "f@VERS_1" is one of the names that .symver gives to f.
  if (symbol.name.find('@') != symbol.name.npos) return 0;
  if (symbol.binding == STB_LOCAL) return 1;
  return symbol.binding == STB_WEAK ? 2 : 3;
}

bool is_function(const Symbol& symbol) {
  return symbol.type == STT_FUNC || symbol.type == STT_GNU_IFUNC;
}

/// Labels that are there for people: not a compiler's own, nor the mapping symbols of aarch64.
bool is_label(const Symbol& symbol) {
  return (is_function(symbol) || symbol.type == STT_NOTYPE) && !symbol.name.empty() &&
         !symbol.name.starts_with(".L") && !symbol.name.starts_with('$');
}

/// The worst of one address first, so that a stack has the best on top.
void sort(std::vector<Candidate>& candidates) {
  std::ranges::sort(candidates, [](const Candidate& a, const Candidate& b) {
    return std::tuple(a.start, a.rank, ~a.index) < std::tuple(b.start, b.rank, ~b.index);
  });
}

std::string section_title(const ObjectFile& object, std::uint32_t section) {
  const auto name = object.section_name(section);
  return name.empty() ? object.describe(section) : std::string(name);
}

/// Goes through the places in order, with the candidates that begin before each.
class Sweep {
 public:
  explicit Sweep(std::vector<Candidate> candidates) : candidates_(std::move(candidates)) {
    sort(candidates_);
  }

  /// The innermost that holds the place. One that has ended is not looked at again.
  const Candidate* holding(const Place& place) {
    for (; next_ < candidates_.size() && candidates_[next_].start <= place; ++next_)
      open_.push_back(&candidates_[next_]);
    while (!open_.empty() &&
           (open_.back()->start.section != place.section || open_.back()->end <= place.offset))
      open_.pop_back();
    return open_.empty() ? nullptr : open_.back();
  }

 private:
  std::vector<Candidate> candidates_;
  std::vector<const Candidate*> open_;
  std::size_t next_ = 0;
};

}  // namespace

std::vector<Function> containing_functions(const ObjectFile& object,
                                           std::span<const Place> places) {
  std::unordered_set<std::uint32_t> wanted;
  for (const Place& place : places) wanted.insert(place.section);
  std::vector<Candidate> functions, labels;
  for (std::uint32_t i = 0; i < object.symbols().size(); ++i) {
    const Symbol& symbol = object.symbols()[i];
    if (symbol.section == 0 || !wanted.contains(symbol.section) || !is_label(symbol)) continue;
    const Place start{symbol.section, symbol.value};
    if (is_function(symbol) && symbol.size > 0)
      functions.push_back(
          {start, start.offset + std::min(symbol.size, ~start.offset), rank_of(symbol), i});
    labels.push_back({start, ~std::uint64_t{0}, rank_of(symbol), i});
  }
  Sweep in_functions(std::move(functions)), after_labels(std::move(labels));
  std::vector<Function> found;
  found.reserve(places.size());
  for (const Place& place : places) {
    const Candidate* best = in_functions.holding(place);
    const Candidate* label = after_labels.holding(place);
    if (best == nullptr) best = label;
    if (best == nullptr) {
      found.push_back({section_title(object, place.section), {place.section, 0}});
      continue;
    }
    const auto name = object.symbols()[best->index].name;
    found.push_back({std::string(name.substr(0, name.find('@'))), best->start});
  }
  return found;
}

}  // namespace vitrine::usdt
