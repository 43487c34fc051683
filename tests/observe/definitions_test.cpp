// Finding the slots of foreign writers: the address of every variable in every thread is the one
// the writer itself tells, however it was compiled, linked and loaded (docs/formats/tls.md,
// "How it is verified").
#include "observe/labels/definitions.hpp"

#include <gtest/gtest.h>

#include <algorithm>
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

struct Claim {
  const char* row;
  target::TlsEvidence evidence;
  bool is_dynamic;

  friend void PrintTo(const Claim& claim, std::ostream* out) { *out << claim.row; }
};

class Rows : public testing::TestWithParam<Claim> {};

// That a row is where it says it is: else the matrix would be one place tested many times.
TEST_P(Rows, AreWhatTheyClaim) {
  const auto rows = test::location_matrix();
  const auto row = std::find_if(rows.begin(), rows.end(), [&](const WriterSpec& spec) {
    return spec.name == GetParam().row;
  });
  ASSERT_NE(row, rows.end());
  const Writer writer = Writer::start(*row);
  Observer observer(writer);
  observer.expect_agreement();
  for (const Definition& definition : observer.finder().all()) {
    EXPECT_EQ(definition.evidence, GetParam().evidence);
    EXPECT_EQ(std::holds_alternative<target::DynamicTls>(definition.location),
              GetParam().is_dynamic)
        << target::describe(definition.location);
  }
}

using target::TlsEvidence;
INSTANTIATE_TEST_SUITE_P(
    Places, Rows,
    testing::Values(Claim{"glibc_exe_static_a64", TlsEvidence::executable, false},
                    Claim{"musl_exe_nopie_a64", TlsEvidence::executable, false},
                    Claim{"glibc_needed_tlsdesc_a8", TlsEvidence::descriptor, false},
                    Claim{"glibc_needed_gd_a8", TlsEvidence::general_dynamic, false},
                    Claim{"glibc_needed_ie_a8", TlsEvidence::initial_exec, false},
                    Claim{"glibc_dlopen_tlsdesc_a8", TlsEvidence::descriptor, false},
                    Claim{"glibc_dlopen_gd_a8", TlsEvidence::general_dynamic, true},
                    Claim{"glibc_exhausted_tlsdesc_a8", TlsEvidence::descriptor, true},
                    Claim{"glibc_exhausted_ie_a8", TlsEvidence::initial_exec, false},
                    Claim{"glibc_many_gd_a8", TlsEvidence::general_dynamic, true},
                    Claim{"musl_needed_tlsdesc_a8", TlsEvidence::descriptor, false},
                    Claim{"musl_dlopen_tlsdesc_a8", TlsEvidence::descriptor, true},
                    Claim{"musl_dlopen_gd_a8", TlsEvidence::general_dynamic, true}),
    [](const auto& row) { return std::string(row.param.row); });

INSTANTIATE_TEST_SUITE_P(Locations, TlsMatrix, testing::ValuesIn(test::location_matrix()),
                         row_name);
INSTANTIATE_TEST_SUITE_P(Formats, TlsMatrix, testing::ValuesIn(test::format_matrix()), row_name);

}  // namespace
}  // namespace vitrine::observe
