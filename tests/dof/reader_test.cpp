#include "dof/reader.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "dof_bytes.hpp"

namespace vitrine::dof {
namespace {

using test::Bytes;
using test::hand_dof;
using test::HandDof;
using ::testing::ElementsAre;
using ::testing::Field;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

Object only(const HandDof& dof) {
  const Objects found = read(dof.bytes());
  EXPECT_THAT(found.problems, IsEmpty());
  EXPECT_THAT(found.objects, SizeIs(1));
  return found.objects.empty() ? Object{} : found.objects[0];
}

TEST(DofReader, DecodesWhatTheSpecificationsTablesSay) {
  const HandDof dof = hand_dof();
  const Object object = only(dof);
  EXPECT_THAT(object.problems, IsEmpty());
  EXPECT_EQ(object.model, Model::lp64);
  EXPECT_EQ(object.version, 2);
  EXPECT_EQ(object.offset, 0);
  EXPECT_EQ(object.loadable_size, dof.offset(test::strings) + 33);
  EXPECT_EQ(object.file_size, dof.offset(test::semaphores) + 16);
  ASSERT_THAT(object.providers, SizeIs(1));
  const Provider& shop = object.providers[0];
  EXPECT_EQ(shop.name, "shop");
  EXPECT_EQ(shop.stabilities.provider, (Stability{5, 5, 5}));
  EXPECT_EQ(shop.stabilities.module, (Stability{1, 1, 0}));
  EXPECT_EQ(shop.stabilities.function, (Stability{1, 1, 0}));
  EXPECT_EQ(shop.stabilities.name, (Stability{6, 7, 2}));
  EXPECT_EQ(shop.stabilities.args, (Stability{5, 5, 5}));

  ASSERT_THAT(shop.records, SizeIs(2));
  const Record& order = shop.records[0];
  EXPECT_EQ(order.name, "order");
  EXPECT_EQ(order.function, "serve");
  EXPECT_THAT(order.prototype.native, ElementsAre("int", "char *"));
  EXPECT_THAT(order.prototype.translated, ElementsAre("char *"));
  EXPECT_THAT(order.prototype.argument_map, ElementsAre(1));
  EXPECT_THAT(order.offsets, ElementsAre(4, 0x10));
  EXPECT_THAT(order.enabled_offsets, ElementsAre(0x20));
  EXPECT_EQ(order.word, 0x1122334455667788);
  EXPECT_EQ(order.word_offset, dof.offset(test::probes));
  EXPECT_EQ(order.relocation, Relocation::own_address);
  const Record& pay = shop.records[1];
  EXPECT_EQ(pay.name, "pay");
  EXPECT_EQ(pay.prototype, Prototype{});
  EXPECT_THAT(pay.offsets, ElementsAre(0x30));
  EXPECT_THAT(pay.enabled_offsets, IsEmpty());
  EXPECT_EQ(pay.word_offset, dof.offset(test::probes) + 48);

  ASSERT_THAT(shop.semaphores, SizeIs(1));
  EXPECT_EQ(shop.semaphores[0].name, "pay");
  EXPECT_EQ(shop.semaphores[0].word, 0xabc);
  EXPECT_EQ(shop.semaphores[0].word_offset, dof.offset(test::semaphores));
}

TEST(DofReader, TellsTheKindsOfRelocationsApart) {
  for (const auto& [type, kind] : {std::pair{0U, Relocation::none},
                                   {1U, Relocation::load_base},
                                   {2U, Relocation::own_address}}) {
    HandDof dof = hand_dof();
    dof.sections[test::relocations].content.put(4, type, 4);
    const Object object = only(dof);
    EXPECT_THAT(object.problems, IsEmpty());
    EXPECT_EQ(object.providers.at(0).records.at(0).relocation, kind);
    EXPECT_EQ(object.providers.at(0).records.at(1).relocation, Relocation::own_address);
  }
}

TEST(DofReader, TakesWordsWithoutARelocationAsAddresses) {
  HandDof dof = hand_dof();
  dof.sections.resize(test::relocations);
  for (const Record& record : only(dof).providers.at(0).records)
    EXPECT_EQ(record.relocation, Relocation::none);
}

TEST(DofReader, ReadsProvidersOfVersion1WithoutTheLastField) {
  HandDof dof = hand_dof();
  dof.version = 1;
  dof.sections[test::probes].content.put(40, 0, 2);  // no is-enabled sites
  dof.sections[test::provider].content.data().resize(40);
  const Object object = only(dof);
  EXPECT_THAT(object.problems, IsEmpty());
  EXPECT_THAT(object.providers.at(0).records, SizeIs(2));
}

TEST(DofReader, ReadsVersion3AndNarrowModel) {
  HandDof dof = hand_dof();
  dof.version = 3;
  dof.model = 1;
  const Object object = only(dof);
  EXPECT_EQ(object.version, 3);
  EXPECT_EQ(object.model, Model::ilp32);
  EXPECT_THAT(object.providers.at(0).records.at(0).enabled_offsets, ElementsAre(0x20));
}

TEST(DofReader, PassesOverSectionsOfOthers) {
  HandDof dof = hand_dof();
  dof.sections.push_back({20, 3, 0, 7, Bytes().text("not ours")});  // UTSNAME, not loadable
  dof.sections.push_back({1, 1, 0, 0, Bytes().text("a comment")});
  const Object object = only(dof);
  EXPECT_THAT(object.problems, IsEmpty());
  EXPECT_THAT(object.providers.at(0).records, SizeIs(2));
}

TEST(DofReader, TakesLargerRecordsOfLaterWriters) {
  HandDof dof = hand_dof();
  Bytes wider;
  for (std::size_t i = 0; i < 2; ++i) {
    const auto& old = dof.sections[test::probes].content.data();
    wider.data().insert(wider.data().end(), old.begin() + static_cast<std::ptrdiff_t>(48 * i),
                        old.begin() + static_cast<std::ptrdiff_t>(48 * (i + 1)));
    wider.u64(0xeeeeeeeeeeeeeeee);
  }
  dof.sections[test::probes].content = wider;
  dof.sections[test::probes].entsize = 56;
  dof.sections[test::relocations].content.put(24 + 8, 56, 8);
  const Object object = only(dof);
  EXPECT_THAT(object.problems, IsEmpty());
  EXPECT_EQ(object.providers.at(0).records.at(1).name, "pay");
  EXPECT_EQ(object.providers.at(0).records.at(1).relocation, Relocation::own_address);
}

TEST(DofReader, ReadsSeveralObjectsOfASection) {
  HandDof second = hand_dof();
  second.sections[test::strings].content.put(test::shop, 't', 1);
  Bytes section;
  for (const HandDof& dof : {hand_dof(), second}) {
    const auto bytes = dof.bytes();
    section.data().insert(section.data().end(), bytes.begin(), bytes.end());
    section.align(8);
  }
  const std::size_t at = section.size() / 2;
  const Objects found = read(section.zeros(64).data());
  EXPECT_THAT(found.problems, IsEmpty());
  ASSERT_THAT(found.objects, SizeIs(2));
  EXPECT_EQ(found.objects[0].offset, 0);
  EXPECT_EQ(found.objects[0].providers.at(0).name, "shop");
  EXPECT_EQ(found.objects[1].offset, at);
  EXPECT_EQ(found.objects[1].providers.at(0).name, "thop");
  EXPECT_EQ(found.objects[1].providers.at(0).records.at(0).word_offset,
            second.offset(test::probes));
}

TEST(DofReader, GoesOnAfterGarbageBetweenObjects) {
  const auto bytes = hand_dof().bytes();
  Bytes section;
  section.data() = bytes;
  section.align(8);
  section.text("garbage!").zeros(16);
  section.data().insert(section.data().end(), bytes.begin(), bytes.end());
  const Objects found = read(section.data());
  EXPECT_THAT(found.objects, SizeIs(2));
  EXPECT_THAT(found.problems, ElementsAre(Field(&Problem::text, HasSubstr("bytes at offset"))));
}

TEST(DofReader, ReadsSeveralProvidersOfAnObject) {
  HandDof dof = hand_dof();
  const std::size_t records = dof.sections.size();
  dof.sections.push_back(dof.sections[test::probes]);
  dof.sections.push_back(dof.sections[test::provider]);
  dof.sections.back().content.put(4, records, 4).put(16, test::pay, 4);
  const Object object = only(dof);
  EXPECT_THAT(object.problems, IsEmpty());
  ASSERT_THAT(object.providers, SizeIs(2));
  EXPECT_EQ(object.providers[0].name, "shop");
  EXPECT_EQ(object.providers[1].name, "pay");
  // Relocations are of one provider's records each.
  EXPECT_EQ(object.providers[0].records.at(0).relocation, Relocation::own_address);
  EXPECT_EQ(object.providers[1].records.at(0).relocation, Relocation::none);
}

TEST(DofReader, ReadsNothingFromNothing) {
  EXPECT_THAT(read({}).objects, IsEmpty());
  EXPECT_THAT(read({}).problems, IsEmpty());
  EXPECT_THAT(read(Bytes().zeros(100).data()).problems, IsEmpty());
}

TEST(DofReader, ReadsAnObjectWithoutProviders) {
  HandDof dof = hand_dof();
  dof.sections.resize(1);
  const Object object = only(dof);
  EXPECT_THAT(object.problems, IsEmpty());
  EXPECT_THAT(object.providers, IsEmpty());
}

}  // namespace
}  // namespace vitrine::dof
