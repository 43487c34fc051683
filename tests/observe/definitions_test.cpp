// Finding the slots of foreign writers: the address of every variable in every thread is the one
// the writer itself tells, however it was compiled, linked and loaded (labels.md 3.8, 7.3).
#include "observe/definitions.hpp"

#include <gtest/gtest.h>

#include <set>

#include "observe/observer.hpp"
#include "support/writer.hpp"

namespace vitrine::observe {
namespace {

using test::Writer;
using test::WriterSpec;

class TlsMatrix : public testing::TestWithParam<WriterSpec> {};

TEST_P(TlsMatrix, AddressesEqualTheTruth) {
  const Writer writer = Writer::start(GetParam());
  ASSERT_FALSE(writer.slots().empty());
  Observer observer(writer);
  observer.expect_agreement();
  std::set<std::string> defined;
  for (const Definition& definition : observer.finder().all())
    defined.emplace(format::name(definition.format));
  EXPECT_EQ(defined, formats_of(writer.slots()));
}

std::string row_name(const testing::TestParamInfo<WriterSpec>& row) {
  return row.param.name;
}

INSTANTIATE_TEST_SUITE_P(Locations, TlsMatrix, testing::ValuesIn(test::location_matrix()),
                         row_name);
INSTANTIATE_TEST_SUITE_P(Formats, TlsMatrix, testing::ValuesIn(test::format_matrix()), row_name);

}  // namespace
}  // namespace vitrine::observe
