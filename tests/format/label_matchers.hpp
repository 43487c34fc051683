// What tests say about label sets.
#pragma once

#include <gmock/gmock.h>

#include "format/label_set.hpp"

namespace vitrine::test {

/// A defect against `rule` whose text has `part` in it.
inline auto defect(format::SetRule rule, const char* part) {
  return testing::AllOf(testing::Field(&format::Defect::rule, rule),
                        testing::Field(&format::Defect::text, testing::HasSubstr(part)));
}

}  // namespace vitrine::test
