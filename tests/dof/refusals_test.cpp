// What the decoder refuses (docs/formats/dof.md, "What a reader must check"): a table of lies, each
// told with what and where, and none taken for the truth.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "base/limits.hpp"
#include "dof/reader.hpp"
#include "dof_bytes.hpp"

namespace vitrine::dof {
namespace {

using test::Bytes;
using test::hand_dof;
using test::HandDof;
using ::testing::Contains;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::Field;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;

/// A lie, and what remains of hand_dof() (which has one provider of two records) beside it.
struct Lie {
  const char* name;
  std::function<void(HandDof&)> tell;                ///< in the parts, or
  std::function<void(std::vector<std::byte>&)> put;  ///< in the bytes
  const char* complaint;
  int objects, providers, records;
};

void PrintTo(const Lie& lie, std::ostream* out) {
  *out << lie.name;
}

auto header(std::size_t at, std::uint64_t value, std::size_t size) {
  return [=](std::vector<std::byte>& bytes) {
    Bytes out;
    out.data() = std::move(bytes);
    bytes = out.put(at, value, size).data();
  };
}

auto section(std::size_t index, test::SectionField field, std::uint64_t value) {
  const bool wide = field == test::offset_at || field == test::size_at;
  return header(HandDof::field(index, field), value, wide ? 8 : 4);
}

auto content(std::size_t index, std::size_t at, std::uint64_t value, std::size_t size = 4) {
  return [=](HandDof& dof) { dof.sections[index].content.put(at, value, size); };
}

const Lie lies[] = {
    // Header: nothing can be trusted.
    {"model_0", {}, header(4, 0, 1), "data model is 0", 0, 0, 0},
    {"model_3", {}, header(4, 3, 1), "data model is 3", 0, 0, 0},
    {"big_endian", {}, header(5, 2, 1), "big-endian", 0, 0, 0},
    {"encoding_0", {}, header(5, 0, 1), "byte order is 0", 0, 0, 0},
    {"version_0", {}, header(6, 0, 1), "version is 0", 0, 0, 0},
    {"version_4", {}, header(6, 4, 1), "version is 4", 0, 0, 0},
    {"dif_version", {}, header(7, 1, 1), "DIF version is 1", 0, 0, 0},
    {"integer_registers", {}, header(8, 9, 1), "9 integer", 0, 0, 0},
    {"tuple_registers", {}, header(9, 9, 1), "9 tuple", 0, 0, 0},
    {"pad", {}, header(12, 1, 1), "padding", 0, 0, 0},
    {"last_pad", {}, header(63, 1, 1), "padding", 0, 0, 0},
    {"flags", {}, header(16, 1, 4), "flags are 0x1", 0, 0, 0},
    {"small_header", {}, header(20, 56, 4), "header declares 56", 0, 0, 0},
    {"huge_header", {}, header(20, 0x80000000, 4), "2147483648 bytes: not", 0, 0, 0},
    {"tiny_loadable", {}, header(40, 63, 8), "ends within its header", 0, 0, 0},
    {"loadable_beyond_file", {}, header(40, 0x10000, 8), "more than its total", 0, 0, 0},
    {"file_beyond_bytes", {}, header(48, 0x10000, 8), "only 624 are present", 0, 0, 0},
    {"file_beyond_all", {}, header(48, UINT64_MAX, 8), "at most", 0, 0, 0},
    // Section table: a DOF without parts.
    {"section_headers_of_8", {}, header(24, 8, 4), "headers have 8 bytes", 1, 0, 0},
    {"section_headers_of_0", {}, header(24, 0, 4), "headers have 0 bytes", 1, 0, 0},
    {"section_headers_of_36", {}, header(24, 36, 4), "headers have 36 bytes", 1, 0, 0},
    {"section_headers_of_2_31", {}, header(24, 0x80000000, 4), "have 2147483648 bytes", 1, 0, 0},
    {"many_sections", {}, header(28, 0xffffffff, 4), "4294967295 section headers", 1, 0, 0},
    {"wrapping_sections", {}, header(28, 0x08000000, 4), "go beyond", 1, 0, 0},
    {"unaligned_table", {}, header(32, 68, 8), "begin at byte 68", 1, 0, 0},
    {"table_in_header", {}, header(32, 32, 8), "begin at byte 32", 1, 0, 0},
    {"table_beyond", {}, header(32, UINT64_MAX - 7, 8), "go beyond", 1, 0, 0},
    // Sections: what refers to them is lost.
    {"alignment_3", {}, section(test::offsets, test::align_at, 3), "not a power of two", 1, 0, 0},
    {"misaligned",
     {},
     section(test::probes, test::align_at, 1024),
     "not a multiple of its alignment",
     1,
     0,
     0},
    {"wrapping_section",
     {},
     section(test::arguments, test::size_at, UINT64_MAX),
     "exceed the",
     1,
     0,
     0},
    {"section_beyond",
     {},
     section(test::arguments, test::offset_at, 1U << 20),
     "exceed the",
     1,
     0,
     0},
    {"in_header", {}, section(test::arguments, test::offset_at, 0), "overlap the header", 1, 0, 0},
    {"in_table",
     {},
     section(test::arguments, test::offset_at, 64),
     "overlap the section headers",
     1,
     0,
     0},
    {"not_loadable",
     {},
     section(test::probes, test::flags_at, 0),
     "not marked as loadable",
     1,
     0,
     0},
    {"another_type", {}, section(test::probes, test::type_at, 17), "which is PRARGS (17)", 1, 0, 0},
    {"type_99",
     {},
     section(test::provider, test::type_at, 99),
     "section 5, which is not a readable provider",
     1,
     0,
     0},
    {"empty_strings",
     [](HandDof& dof) { dof.sections[test::strings].content.data().clear(); },
     {},
     "it is empty",
     1,
     0,
     0},
    {"endless_strings",
     content(test::strings, 32, 'x', 1),
     {},
     "last string is not terminated",
     1,
     0,
     0},
    {"probe_entries_of_0", {}, section(test::probes, test::entsize_at, 0), "of 0 bytes", 1, 0, 0},
    {"probe_entries_of_1", {}, section(test::probes, test::entsize_at, 1), "of 1 bytes", 1, 0, 0},
    {"probe_entries_of_7", {}, section(test::probes, test::entsize_at, 7), "of 7 bytes", 1, 0, 0},
    {"probe_entries_of_40",
     {},
     section(test::probes, test::entsize_at, 40),
     "of 40 bytes",
     1,
     0,
     0},
    {"probe_entries_of_64",
     {},
     section(test::probes, test::entsize_at, 64),
     "not a multiple",
     1,
     0,
     0},
    {"offset_entries_of_0", {}, section(test::offsets, test::entsize_at, 0), "of 0 bytes", 1, 0, 0},
    {"offset_entries_of_8", {}, section(test::offsets, test::entsize_at, 8), "of 8 bytes", 1, 0, 0},
    {"enabled_entries_of_1",
     {},
     section(test::enabled_offsets, test::entsize_at, 1),
     "of 1 bytes",
     1,
     0,
     0},
    {"argument_entries_of_0",
     {},
     section(test::arguments, test::entsize_at, 0),
     "of 0 bytes",
     1,
     0,
     0},
    {"half_an_offset", {}, section(test::offsets, test::size_at, 10), "not a multiple", 1, 0, 0},
    {"relocation_entries_of_8",
     {},
     section(test::relocations, test::entsize_at, 8),
     "of 8 bytes",
     1,
     1,
     2},
    // Overlaps are harmless to a reader that writes nowhere, and told.
    {"nested",
     {},
     section(test::offsets, test::offset_at, 64 + 9 * 32),
     "overlap at byte",
     1,
     1,
     2},
    // Providers.
    {"short_provider",
     [](HandDof& dof) { dof.sections[test::provider].content.data().resize(40); },
     {},
     "has 40 bytes instead of 44",
     1,
     0,
     0},
    {"no_such_strings", content(test::provider, 0, 99), {}, "refers to section 99", 1, 0, 0},
    {"no_such_probes",
     content(test::provider, 4, UINT32_MAX),
     {},
     "refers to section 4294967295",
     1,
     0,
     0},
    {"probes_are_strings", content(test::provider, 4, 0), {}, "which is STRTAB (8)", 1, 0, 0},
    {"enabled_are_offsets",
     content(test::provider, 40, test::offsets),
     {},
     "which is PROFFS (18)",
     1,
     0,
     0},
    {"provider_name_beyond",
     content(test::provider, 16, 33),
     {},
     "its name is at byte 33 of",
     1,
     0,
     0},
    {"provider_without_name", content(test::provider, 16, 0), {}, "its name is empty", 1, 0, 0},
    // Records: the other one remains.
    {"name_beyond",
     content(test::probes, 12, UINT32_MAX),
     {},
     "probe record 0 of section 1: its name",
     1,
     1,
     1},
    {"no_name", content(test::probes, 12, 0), {}, "its name is empty", 1, 1, 1},
    {"function_beyond",
     content(test::probes, 8, 33),
     {},
     "its function's name is at byte 33",
     1,
     1,
     1},
    {"offsets_wrap",
     content(test::probes, 28, 0x40000000),
     {},
     "1073741824 to 1073741826",
     1,
     1,
     1},
    {"offsets_beyond",
     content(test::probes, 28, 2),
     {},
     "its sites 2 to 4 are not in the table of 3",
     1,
     1,
     1},
    {"enabled_wrap",
     content(test::probes, 36, 0x40000000),
     {},
     "its is-enabled sites 1073741824",
     1,
     1,
     1},
    {"enabled_beyond", content(test::probes, 40, 2, 2), {}, "its is-enabled sites 0 to 2", 1, 1, 1},
    {"no_sites", content(test::probes, 48 + 34, 0, 2), {}, "it has no sites", 1, 1, 1},
    {"enabled_without_table",
     content(test::provider, 40, 0),
     {},
     "its provider has no table",
     1,
     1,
     1},
    {"enabled_in_version_1",
     [](HandDof& dof) { dof.version = 1; },
     {},
     "version 1 does not support",
     1,
     1,
     1},
    {"arguments_wrap",
     content(test::probes, 24, UINT32_MAX),
     {},
     "its arguments 4294967295",
     1,
     1,
     1},
    {"arguments_beyond", content(test::probes, 24, 1), {}, "its arguments 1 to 2", 1, 1, 1},
    {"map_beyond",
     content(test::arguments, 0, 2, 1),
     {},
     "comes from native argument 2 of 2",
     1,
     1,
     1},
    {"map_of_nothing", content(test::probes, 32, 0, 1), {}, "native argument 1 of 0", 1, 1, 1},
    {"types_at_end",
     content(test::probes, 16, 33),
     {},
     "native argument 0 is at byte 33 of the 33",
     1,
     1,
     1},
    {"types_beyond", content(test::probes, 20, UINT32_MAX), {}, "argument 0 is at byte", 1, 1, 1},
    {"types_run_out", content(test::probes, 32, 4, 1), {}, "native argument 3 is at byte", 1, 1, 1},
    // Relocations: never a guess at what the word means.
    {"relocation_type_99", content(test::relocations, 4, 99), {}, "unknown type 99", 1, 1, 1},
    {"two_of_a_word",
     content(test::relocations, 24 + 8, 0, 8),
     {},
     "second one for byte 0",
     1,
     1,
     1},
    {"unaligned", content(test::relocations, 24 + 8, 49, 8), {}, "not an address word", 1, 1, 2},
    {"not_the_word", content(test::relocations, 24 + 8, 56, 8), {}, "not an address word", 1, 1, 2},
    {"end_minus_4", content(test::relocations, 24 + 8, 92, 8), {}, "not an address word", 1, 1, 2},
    {"at_the_end", content(test::relocations, 24 + 8, 96, 8), {}, "not an address word", 1, 1, 2},
    {"wrapping_word",
     content(test::relocations, 24 + 8, UINT64_MAX - 7, 8),
     {},
     "not an address word",
     1,
     1,
     2},
    {"of_strings",
     content(test::relocation_header, 8, test::strings),
     {},
     "which is STRTAB (8)",
     1,
     1,
     2},
    {"of_section_99", content(test::relocation_header, 8, 99), {}, "refers to section 99", 1, 1, 2},
    {"no_table",
     content(test::relocation_header, 4, test::offsets),
     {},
     "which is PROFFS (18)",
     1,
     1,
     2},
    {"short_header",
     [](HandDof& dof) { dof.sections[test::relocation_header].content.data().resize(8); },
     {},
     "has 8 bytes instead of 12",
     1,
     1,
     2},
    // Semaphores: the probes remain.
    {"semaphore_of_nobody",
     content(test::semaphores, 8, test::probes),
     {},
     "not a readable provider",
     1,
     1,
     2},
    {"semaphore_without_name", content(test::semaphores, 12, 0), {}, "its name is empty", 1, 1, 2},
    {"semaphore_name_beyond",
     content(test::semaphores, 12, 999),
     {},
     "its name is at byte 999",
     1,
     1,
     2},
    {"semaphores_of_12",
     {},
     section(test::semaphores, test::entsize_at, 12),
     "of 12 bytes",
     1,
     1,
     2},
    {"semaphores_beyond",
     {},
     section(test::semaphores, test::size_at, 1024),
     "exceed the",
     1,
     1,
     2},
};

class DofLies : public ::testing::TestWithParam<Lie> {};

/// All that read() says.
std::vector<std::string> complaints(const Objects& found) {
  std::vector<std::string> all;
  const auto take = [&](const std::vector<Problem>& problems) {
    for (const Problem& one : problems) all.push_back(one.text);
  };
  take(found.problems);
  for (const Object& object : found.objects) take(object.problems);
  return all;
}

TEST_P(DofLies, AreToldAndCostNoMoreThanTheyTouch) {
  const Lie& lie = GetParam();
  HandDof dof = hand_dof();
  if (lie.tell) lie.tell(dof);
  std::vector<std::byte> bytes = dof.bytes();
  if (lie.put) lie.put(bytes);
  const Objects found = read(bytes);
  EXPECT_THAT(found.objects, SizeIs(lie.objects));
  const std::vector<std::string> problems = complaints(found);
  int providers = 0, records = 0;
  for (const Object& object : found.objects) {
    for (const Provider& provider : object.providers) {
      ++providers;
      records += static_cast<int>(provider.records.size());
    }
  }
  EXPECT_EQ(providers, lie.providers);
  EXPECT_EQ(records, lie.records);
  EXPECT_THAT(problems, Contains(HasSubstr(lie.complaint)));
}

INSTANTIATE_TEST_SUITE_P(, DofLies, ::testing::ValuesIn(lies),
                         [](const auto& lie) { return std::string(lie.param.name); });

// But for what is as good: the other model, a later version, fewer registers, more that is loaded.
TEST(DofRefusals, NoByteOfTheHeaderCanChangeUnseen) {
  const std::vector<std::byte> honest = hand_dof().bytes();
  for (std::size_t at = 0; at < 64; ++at)
    for (unsigned value = 0; value < 256; ++value) {
      std::vector<std::byte> bytes = honest;
      if (bytes[at] == static_cast<std::byte>(value)) continue;
      bytes[at] = static_cast<std::byte>(value);
      const Objects found = read(bytes);
      const bool as_good = (at == 4 && value == 1) || (at == 6 && value == 3) ||
                           ((at == 8 || at == 9) && value < 8) ||
                           (at == 40 && value > std::to_integer<unsigned>(honest[40]));
      // With fewer sections it is another DOF, which has no semaphores.
      EXPECT_TRUE(as_good || !complaints(found).empty() || found.objects.empty() ||
                  found.objects[0].providers.empty() ||
                  found.objects[0].providers[0].semaphores.empty())
          << "byte " << at << " = " << value;
    }
}

TEST(DofRefusals, EveryBitMayLie) {
  const std::vector<std::byte> honest = hand_dof().bytes();
  for (std::size_t bit = 0; bit < honest.size() * 8; ++bit) {
    std::vector<std::byte> bytes = honest;
    bytes[bit / 8] ^= static_cast<std::byte>(1U << bit % 8);
    const Objects found = read(bytes);
    for (const Object& object : found.objects)
      for (const Provider& provider : object.providers)
        for (const Record& record : provider.records)
          EXPECT_GT(record.offsets.size() + record.enabled_offsets.size(), 0);
  }
}

TEST(DofRefusals, EveryTruncationIsTold) {
  const std::vector<std::byte> honest = hand_dof().bytes();
  for (std::size_t size = 1; size < honest.size(); ++size)
    EXPECT_THAT(complaints(read(std::span(honest).first(size))), Not(IsEmpty())) << size;
}

TEST(DofRefusals, LongNamesAreRefused) {
  const auto with_string = [](std::size_t size, auto refer) {
    HandDof dof = hand_dof();
    dof.sections[test::strings].content.text(std::string(size, 'x')).u8(0);
    refer(dof);
    return read(dof.bytes());
  };
  const auto records_with = [&](std::size_t field, std::size_t size) {
    return with_string(
               size,
               [&](HandDof& dof) { dof.sections[test::probes].content.put(field, test::total, 4); })
        .objects.at(0)
        .providers.at(0)
        .records.size();
  };
  EXPECT_EQ(records_with(12, 63), 2);
  EXPECT_EQ(records_with(12, 64), 1);
  EXPECT_EQ(records_with(8, 191), 2);
  EXPECT_EQ(records_with(8, 192), 1);
  EXPECT_EQ(records_with(20, 127), 2);
  EXPECT_EQ(records_with(20, 128), 1);
  const auto providers_with = [&](std::size_t size) {
    return with_string(
               size,
               [](HandDof& dof) { dof.sections[test::provider].content.put(16, test::total, 4); })
        .objects.at(0)
        .providers.size();
  };
  EXPECT_EQ(providers_with(63), 1);
  EXPECT_EQ(providers_with(64), 0);
}

TEST(DofRefusals, RelocationsNeverChangeWhatIsReadAfterThem) {
  // One whose target is said to be the string table would rewrite the names, if it were applied.
  HandDof dof = hand_dof();
  const Objects before = read(dof.bytes());
  dof.sections[test::relocation_header].content.put(8, test::strings, 4);
  dof.sections[test::relocations].content.put(16, UINT64_MAX, 8);
  const std::vector<std::byte> bytes = dof.bytes();
  const Objects after = read(bytes);
  EXPECT_EQ(after.objects.at(0).providers.at(0).records.at(0).name, "order");
  EXPECT_EQ(bytes, dof.bytes());
  EXPECT_EQ(after.objects[0].providers[0].records[0].word,
            before.objects.at(0).providers.at(0).records.at(0).word);
}

TEST(DofRefusals, ManyReferencesToTheSameListsAreCut) {
  // 20,000 records, each with the same 60,000 sites: 4.8 GB, if all were kept.
  HandDof dof = hand_dof();
  const std::vector<std::byte> record(dof.sections[test::probes].content.data().begin() + 48,
                                      dof.sections[test::probes].content.data().end());
  Bytes& records = dof.sections[test::probes].content;
  Bytes one;
  one.data() = record;
  one.put(28, 0, 4).put(34, 60'000, 2);
  records.data().clear();
  for (int i = 0; i < 20'000; ++i) records.append(one);
  dof.sections[test::offsets].content.zeros(60'000 * 4);
  dof.sections.resize(test::relocations);
  const auto bytes = dof.bytes();
  const Objects found = read(bytes);
  EXPECT_THAT(complaints(found), Contains(HasSubstr("the rest is omitted")));
  EXPECT_LE(found.decoded_bytes, bytes.size() * limits::dof_expansion);
  const auto kept = found.objects.at(0).providers.at(0).records.size();
  EXPECT_GT(kept, 100);
  EXPECT_LT(kept * 60'000 * 4, bytes.size() * limits::dof_expansion);
  EXPECT_LE(read(bytes, 1 << 20).decoded_bytes, 1 << 20);
}

TEST(DofRefusals, ManyProvidersOfTheSameProbesAreCut) {
  HandDof dof = hand_dof();
  dof.sections.resize(test::relocations);
  const Bytes record = dof.sections[test::probes].content;
  for (int i = 0; i < 2000; ++i) dof.sections[test::probes].content.append(record);
  const auto provider = dof.sections[test::provider];
  for (int i = 0; i < 2000; ++i) dof.sections.push_back(provider);
  const auto bytes = dof.bytes();
  const Objects found = read(bytes);
  EXPECT_THAT(complaints(found), Contains(HasSubstr("the rest is omitted")));
  EXPECT_LE(found.decoded_bytes, bytes.size() * limits::dof_expansion);
}

TEST(DofRefusals, ComplaintsAreCounted) {
  HandDof dof = hand_dof();
  Bytes& records = dof.sections[test::probes].content;
  records.put(12, 0, 4);  // no name
  Bytes bad;
  bad.data().assign(records.data().begin(), records.data().begin() + 48);
  for (int i = 0; i < 1000; ++i) records.append(bad);
  const Objects found = read(dof.bytes());
  EXPECT_THAT(found.objects.at(0).problems, SizeIs(limits::dof_problems + 1));
  EXPECT_EQ(found.objects[0].problems.back().text, "745 more problems are not listed");
}

TEST(DofRefusals, BrokenHeadersCostOnlyTheirOwn) {
  Bytes section;
  for (const unsigned version : {1U, 9U, 2U}) {
    auto bytes = hand_dof().bytes();
    bytes[6] = static_cast<std::byte>(version);
    section.data().insert(section.data().end(), bytes.begin(), bytes.end());
    section.align(8);
  }
  const Objects found = read(section.data());
  EXPECT_THAT(found.objects, SizeIs(2));
  EXPECT_THAT(found.problems, ElementsAre(Field(&Problem::text, HasSubstr("its version is 9"))));
}

}  // namespace
}  // namespace vitrine::dof
