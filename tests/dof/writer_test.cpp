#include "dof/writer.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "base/limits.hpp"
#include "dof/reader.hpp"
#include "dof_bytes.hpp"

namespace vitrine::dof {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

Record record(std::string name, std::string function, std::vector<std::uint32_t> offsets = {4}) {
  Record made;
  made.name = std::move(name);
  made.function = std::move(function);
  made.offsets = std::move(offsets);
  made.relocation = Relocation::own_address;
  return made;
}

Object object_of(std::vector<Record> records, std::uint8_t version = 1) {
  Object object;
  object.version = version;
  object.providers.push_back({"shop", {}, std::move(records), {}});
  return object;
}

Object read_back(const std::vector<std::byte>& bytes) {
  Objects found = read(bytes);
  EXPECT_THAT(found.problems, IsEmpty());
  EXPECT_THAT(found.objects, SizeIs(1));
  if (found.objects.empty()) return {};
  EXPECT_THAT(found.objects[0].problems, IsEmpty());
  return std::move(found.objects[0]);
}

void expect_same(const Provider& read, const Provider& written) {
  EXPECT_EQ(read.name, written.name);
  EXPECT_EQ(read.stabilities, written.stabilities);
  ASSERT_EQ(read.records.size(), written.records.size());
  for (std::size_t i = 0; i < read.records.size(); ++i) {
    const Record& one = read.records[i];
    const Record& other = written.records[i];
    EXPECT_EQ(one.name, other.name);
    EXPECT_EQ(one.function, other.function);
    EXPECT_EQ(one.prototype, other.prototype);
    EXPECT_EQ(one.offsets, other.offsets);
    EXPECT_EQ(one.enabled_offsets, other.enabled_offsets);
    EXPECT_EQ(one.word, other.word);
    EXPECT_EQ(one.word_offset, other.word_offset);
    EXPECT_EQ(one.relocation, other.relocation);
  }
  ASSERT_EQ(read.semaphores.size(), written.semaphores.size());
  for (std::size_t i = 0; i < read.semaphores.size(); ++i) {
    EXPECT_EQ(read.semaphores[i].name, written.semaphores[i].name);
    EXPECT_EQ(read.semaphores[i].word, written.semaphores[i].word);
    EXPECT_EQ(read.semaphores[i].word_offset, written.semaphores[i].word_offset);
  }
}

void expect_round_trip(Object object) {
  const auto bytes = write(object);
  ASSERT_TRUE(bytes) << bytes.error().message;
  EXPECT_EQ(bytes->size(), object.file_size);
  const Object back = read_back(*bytes);
  EXPECT_EQ(back.model, object.model);
  EXPECT_EQ(back.version, object.version);
  EXPECT_EQ(back.loadable_size, object.loadable_size);
  EXPECT_EQ(back.file_size, object.file_size);
  ASSERT_EQ(back.providers.size(), object.providers.size());
  for (std::size_t i = 0; i < back.providers.size(); ++i)
    expect_same(back.providers[i], object.providers[i]);
}

Object rich() {
  Record order = record("order", "serve", {4, 0x10});
  order.enabled_offsets = {0x20};
  order.prototype = {{"int", "char *"}, {"char *"}, {1}};
  order.word = 0x1122334455667788;
  Record pay = record("pay", "serve", {0x30});
  pay.word = 0xfffffffffffff000;
  Object object = object_of({order, pay}, 2);
  object.providers[0].stabilities = {{5, 5, 5}, {1, 1, 0}, {1, 1, 0}, {6, 7, 2}, {5, 5, 5}};
  object.providers[0].semaphores.push_back({"pay", 0xabc, 0});
  return object;
}

TEST(DofWriter, WritesWhatTheSpecificationsTablesSay) {
  Object object = rich();
  const auto bytes = write(object);
  ASSERT_TRUE(bytes);
  // The same, by hand: of the two, only the order of the strings is the writer's own.
  test::HandDof hand = test::hand_dof();
  ASSERT_EQ(object.loadable_size,
            hand.offset(test::strings) + 33 + 7);  // "char *" stands by itself, too
  const std::span<const std::byte> headers(*bytes);
  test::Bytes expected;
  expected.data() = hand.bytes();
  expected.data().resize(64 + 32 * 9);
  const auto u32 = [&](std::size_t at) {
    return std::to_integer<std::uint32_t>((*bytes)[at]) |
           std::to_integer<std::uint32_t>((*bytes)[at + 1]) << 8;
  };
  EXPECT_EQ(std::vector(headers.begin(), headers.begin() + 40),
            std::vector(expected.data().begin(), expected.data().begin() + 40));
  for (std::size_t section = 0; section < 9; ++section)
    for (const std::size_t field : {0, 4, 8, 12})
      EXPECT_EQ(u32(64 + 32 * section + field),
                std::to_integer<std::uint32_t>(expected.data()[64 + 32 * section + field]) |
                    std::to_integer<std::uint32_t>(expected.data()[65 + 32 * section + field]) << 8)
          << "section " << section << " field " << field;
  // Everything between the section headers and the strings but string offsets.
  for (const auto section : {test::arguments, test::offsets, test::enabled_offsets}) {
    const auto& content = hand.sections[section].content.data();
    const auto at = headers.begin() + static_cast<std::ptrdiff_t>(hand.offset(section));
    EXPECT_EQ(std::vector(at, at + static_cast<std::ptrdiff_t>(content.size())), content);
  }
}

TEST(DofWriter, ReadsBackAsItWasWritten) {
  expect_round_trip(rich());
  expect_round_trip(object_of({record("a", "f")}));
  expect_round_trip(object_of({}));
  expect_round_trip(Object{});
  for (const auto relocation : {Relocation::none, Relocation::load_base, Relocation::own_address}) {
    Object object = rich();
    object.model = Model::ilp32;
    object.version = 3;
    for (Record& one : object.providers[0].records) one.relocation = relocation;
    expect_round_trip(object);
  }
}

TEST(DofWriter, ReadsBackSeveralProviders) {
  Object object = rich();
  object.providers.push_back(rich().providers[0]);
  object.providers[1].name = "store";
  object.providers[1].records[0].relocation = Relocation::load_base;
  object.providers.push_back({"empty", {}, {}, {}});
  expect_round_trip(object);
}

TEST(DofWriter, PutsWordsWhereItSays) {
  Object object = rich();
  const auto bytes = write(object);
  ASSERT_TRUE(bytes);
  const auto word_at = [&](std::uint64_t at) {
    std::uint64_t word = 0;
    std::memcpy(&word, bytes->data() + at, sizeof word);
    return word;
  };
  for (const Record& one : object.providers[0].records) {
    EXPECT_EQ(word_at(one.word_offset), one.word);
    EXPECT_EQ(one.word_offset % 8, 0);
  }
  EXPECT_EQ(word_at(object.providers[0].semaphores[0].word_offset), 0xabc);
  EXPECT_GE(object.providers[0].semaphores[0].word_offset, object.loadable_size);
}

TEST(DofWriter, GivesTheSameBytesForTheSameProviders) {
  Object one = rich(), other = rich();
  EXPECT_EQ(*write(one), *write(other));
  EXPECT_EQ(*write(one), *write(other));  // what write() filled in changes nothing
}

TEST(DofWriter, SharesWhatRecordsOfAProbeHaveInCommon) {
  Record first = record("order", "f");
  first.prototype = {
      {"struct something_long *", "int"}, {"struct something_long *", "int"}, {0, 1}};
  Record second = first;
  second.function = "g";
  Object one = object_of({first}), two = object_of({first, second});
  ASSERT_TRUE(write(one) && write(two));
  // A record, an offset, a relocation, "g" and its padding.
  EXPECT_LE(two.file_size - one.file_size, 48 + 4 + 24 + 2 + 8);
}

TEST(DofWriter, SplitsRecordsWithMoreSitesThanOneCanHave) {
  Record many = record("order", "f", {});
  for (std::uint32_t i = 0; i < 150'000; ++i) many.offsets.push_back(i * 5);
  for (std::uint32_t i = 0; i < 70'000; ++i) many.enabled_offsets.push_back(i * 7);
  many.word = 0x1234;
  Object object = object_of({record("a", "f"), many, record("b", "f")}, 2);
  const auto bytes = write(object);
  ASSERT_TRUE(bytes) << bytes.error().message;
  const Object back = read_back(*bytes);
  expect_same(back.providers.at(0), object.providers[0]);
  ASSERT_THAT(back.providers[0].records, SizeIs(5));
  std::vector<std::uint32_t> offsets, enabled;
  for (std::size_t i = 1; i < 4; ++i) {
    const Record& part = back.providers[0].records[i];
    EXPECT_EQ(part.name, "order");
    EXPECT_EQ(part.word, 0x1234);
    offsets.insert(offsets.end(), part.offsets.begin(), part.offsets.end());
    enabled.insert(enabled.end(), part.enabled_offsets.begin(), part.enabled_offsets.end());
  }
  EXPECT_EQ(offsets, many.offsets);
  EXPECT_EQ(enabled, many.enabled_offsets);
}

TEST(DofWriter, WritesAThousandProbes) {
  std::vector<Record> records;
  for (std::uint32_t i = 0; i < 1000; ++i) {
    records.push_back(record("probe-" + std::to_string(i), "function_" + std::to_string(i / 3),
                             {i, i + 1, i + 2}));
    records.back().prototype = {{"int", "type_" + std::to_string(i)}, {"int", "long"}, {0, 1}};
    records.back().word = i * 0x100;
  }
  Object object = object_of(std::move(records));
  expect_round_trip(object);
  EXPECT_GT(write(object)->size(), 64 * 1024);
}

TEST(DofWriter, RefusesWhatReadersWouldRefuse) {
  const auto refuse = [](Object object, const char* why) {
    const auto bytes = write(object);
    ASSERT_FALSE(bytes) << why;
    EXPECT_EQ(bytes.error().code, ErrorCode::usage);
    EXPECT_THAT(bytes.error().message, HasSubstr(why));
  };
  Object object = rich();
  object.providers[0].name = std::string(64, 'p');
  refuse(object, "the provider");
  refuse(object_of({record(std::string(64, 'n'), "f")}), "the probe");
  refuse(object_of({record("", "f")}), "the probe");
  refuse(object_of({record("n", std::string(128, 'f'))}), "the function");
  refuse(object_of({record("n", "f", {})}), "no site");
  object = rich();
  object.version = 1;
  refuse(object, "version 1");
  object = rich();
  object.providers[0].records[0].prototype.argument_map = {2};
  refuse(object, "native argument 2 of 2");
  object.providers[0].records[0].prototype.argument_map = {0, 1};
  refuse(object, "maps 2 arguments and has 1");
  object.providers[0].records[0].prototype.native.assign(256, "int");
  refuse(object, "256 arguments");
  object = rich();
  object.providers[0].records[0].prototype.native[0] = std::string(128, 't');
  refuse(object, "the argument type");
  object.providers[0].records[0].prototype.native[0] = std::string("a\0b", 3);
  refuse(object, "NUL");
}

TEST(DofWriter, TakesTheLongestNames) {
  Record long_names = record(std::string(63, 'n'), std::string(127, 'f'));
  long_names.prototype.native.assign(255, std::string(127, 't'));
  long_names.prototype.translated = long_names.prototype.native;
  for (std::size_t i = 0; i < 255; ++i)
    long_names.prototype.argument_map.push_back(static_cast<std::uint8_t>(254 - i));
  Object object = object_of({long_names});
  object.providers[0].name = std::string(63, 'p');
  expect_round_trip(object);
}

TEST(DofWriter, ShortensNamesOfFunctions) {
  EXPECT_EQ(function_name("short"), "short");
  EXPECT_EQ(function_name(std::string(127, 'f')), std::string(127, 'f'));
  const std::string one = function_name(std::string(127, 'f') + "a");
  const std::string other = function_name(std::string(127, 'f') + "b");
  EXPECT_THAT(one, SizeIs(127));
  EXPECT_THAT(one, ::testing::StartsWith(std::string(118, 'f') + "~"));
  EXPECT_NE(one, other);
}

}  // namespace
}  // namespace vitrine::dof
