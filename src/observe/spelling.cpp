#include "observe/spelling.hpp"

#include <algorithm>
#include <numeric>
#include <utility>
#include <vector>

namespace vitrine::observe {
namespace {

constexpr std::size_t compared_bytes = 128;  // of a name: the work grows with the square

}  // namespace

std::size_t spelling_distance(std::string_view one, std::string_view other) {
  one = one.substr(0, compared_bytes);
  other = other.substr(0, compared_bytes);
  std::vector<std::size_t> row(other.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 1; i <= one.size(); ++i) {
    std::size_t diagonal = std::exchange(row[0], i);
    for (std::size_t k = 1; k <= other.size(); ++k) {
      const std::size_t exchanged = diagonal + (one[i - 1] == other[k - 1] ? 0 : 1);
      diagonal = row[k];
      row[k] = std::min({exchanged, row[k] + 1, row[k - 1] + 1});
    }
  }
  return row.back();
}

}  // namespace vitrine::observe
