// Reductions as tables for people.
#pragma once

#include <string>

#include "cli/text.hpp"
#include "query/reduction.hpp"

namespace vitrine::cli {

struct ReductionLook {
  bool utf8 = true;
  std::size_t columns = 80;
  std::size_t most_rows = ~std::size_t{0};  ///< the largest; how many there are more is said below
};

/// A table, or for histograms a head line and bars a group, then what is in no row and why. Ends
/// with a newline. `table` is sorted.
std::string reduction_text(const query::ReductionTable& table, const Style& style,
                           const ReductionLook& look);

/// One value of a group's key: `-` when it is not there, `?` when it could not be read.
std::string key_text(const query::Key& key, query::Format format = query::Format::plain);

}  // namespace vitrine::cli
