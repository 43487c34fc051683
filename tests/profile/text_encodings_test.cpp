// folded, speedscope and json, against what their readers expect.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>
#include <sstream>

#include "profile/encode.hpp"
#include "profile/profiles.hpp"

namespace vitrine::profile {
namespace {

using nlohmann::json;
using test::small_profile;
using test::tick_ns;
using testing::ElementsAre;

std::vector<std::string> lines(const std::string& text) {
  std::istringstream stream(text);
  std::vector<std::string> out;
  for (std::string line; std::getline(stream, line);) out.push_back(line);
  return out;
}

Profile only(Measure measure) {
  Profile profile = small_profile();
  std::erase_if(profile.samples, [&](const Sample& s) { return s.measure != measure; });
  if (measure == Measure::off_cpu) profile.frequency = 0;
  return profile;
}

TEST(Folded, OnCpuCountsSamples) {
  EXPECT_THAT(
      lines(*encode_folded(only(Measure::on_cpu), {})),
      ElementsAre("[incomplete];[unknown];[libwork.so] 1",
                  "[truncated];[helper];a:b c \xef\xbf\xbd 1", "main;work::spin(int);work::mix 5"));
}

TEST(Folded, OffCpuCountsMicroseconds) {
  EXPECT_THAT(lines(*encode_folded(only(Measure::off_cpu), {})),
              ElementsAre("[incomplete] 3000000", "main;work::spin(int);work::mix;schedule 12000"));
}

TEST(Folded, BothAreApartAndInOneUnit) {
  EXPECT_THAT(lines(*encode_folded(small_profile(), {})),
              ElementsAre("off-CPU;[incomplete] 3000000",
                          "off-CPU;main;work::spin(int);work::mix;schedule 12000",
                          "on-CPU;[incomplete];[unknown];[libwork.so] 10101",
                          "on-CPU;[truncated];[helper];a:b c \xef\xbf\xbd 10101",
                          "on-CPU;main;work::spin(int);work::mix 50505"));
}

TEST(Folded, GroupsAreTheOutermostFrames) {
  EXPECT_THAT(lines(*encode_folded(only(Measure::on_cpu), {.group_by = {"tenant", "process"}})),
              ElementsAre("tenant=(none);process=helper:x;[incomplete];[unknown];[libwork.so] 1",
                          "tenant=;process=helper:x;[truncated];[helper];a:b c \xef\xbf\xbd 1",
                          "tenant=acme;process=shop;main;work::spin(int);work::mix 2",
                          "tenant=globex;process=shop;main;work::spin(int);work::mix 3"));
}

TEST(TextEncodings, AFunctionWithoutANameIsNamedByItsFile) {
  Profile profile = only(Measure::on_cpu);
  profile.functions[0] = {"", "", "/src/shop.cpp", 10};  // a line is known, but no function
  EXPECT_THAT(lines(*encode_folded(profile, {})),
              testing::Contains("[shop];work::spin(int);work::mix 5"));
  EXPECT_EQ(json::parse(lines(*encode(profile, Encoding::json_flat)).at(0))["stack"],
            json({"work::mix", "work::spin(int)", "[shop]"}));
  const json frames = json::parse(*encode(profile, Encoding::speedscope))["shared"]["frames"];
  EXPECT_THAT(frames, testing::Contains(
                          json({{"name", "[shop]"}, {"file", "/src/shop.cpp"}, {"line", 12}})));
}

TEST(Folded, NothingIsNothing) {
  EXPECT_EQ(*encode_folded({}, {}), "");
}

TEST(JsonFlat, EverySampleIsALineWithTheSameFields) {
  const Profile profile = small_profile();
  const auto all = lines(*encode(profile, Encoding::json_flat));
  ASSERT_EQ(all.size(), profile.samples.size());
  const json blocked = json::parse(all[3]);
  json head = blocked;
  head.erase("resource");
  EXPECT_EQ(head, json::parse(R"json({
    "ts_ns":1790000000040000000,"measure":"off_cpu","value_ns":5000000,"count":1,"pid":100,
    "tid":100,"cpu":0,"comm":"main","process":"shop","labels":{"route":"/pay","tenant":"acme"},
    "trace_id":"0102030405060708090a0b0c0d0e0f10","span_id":"1112131415161718",
    "stack":["schedule","work::mix","work::spin(int)","main"],"end":"outermost"})json"));
  EXPECT_EQ(blocked["resource"]["service.name"], "checkout");
  std::uint64_t total = 0;
  for (std::size_t i = 0; i < all.size(); ++i) {
    const json line = json::parse(all[i]);
    ASSERT_EQ(line.size(), blocked.size()) << all[i];
    for (const auto& [key, value] : line.items()) {
      EXPECT_EQ(value.type(), blocked[key].type()) << key << ": " << all[i];
      if (value.is_object()) {
        for (const json& one : value) EXPECT_TRUE(one.is_string()) << all[i];
      }
    }
    total += line["value_ns"].get<std::uint64_t>() - profile.samples[i].value_ns;
  }
  EXPECT_EQ(total, 0U);
  EXPECT_THAT(json::parse(all[5])["comm"].get<std::string>(), testing::EndsWith("\xef\xbf\xbd"));
  EXPECT_EQ(encoding_of_file("a.flat.ndjson"), Encoding::json_flat);
  EXPECT_EQ(encoding_of_file("a.ndjson"), Encoding::json);
}

/// The pieces of an encoding.
std::vector<std::string> pieces_of(const Profile& profile, Encoding encoding) {
  std::vector<std::string> pieces;
  const auto encoded = encode(profile, encoding, {}, [&](std::string_view piece) -> Result<void> {
    pieces.emplace_back(piece);
    return {};
  });
  EXPECT_TRUE(encoded);
  return pieces;
}

TEST(Encodings, InPiecesAreTheWhole) {
  const Profile profile = test::large_profile(20'000, 200);
  for (const auto& [name, encoding] : encoding_names) {
    const auto pieces = pieces_of(profile, encoding);
    std::string joined;
    for (const std::string& piece : pieces) joined += piece;
    EXPECT_EQ(joined, *encode(profile, encoding)) << name;
  }
}

TEST(JsonPieces, AreWholeLinesAndSmall) {
  constexpr std::size_t usual = 256 << 10, longest_line = 64 << 10;
  for (const Encoding encoding : {Encoding::json, Encoding::json_flat}) {
    const auto pieces = pieces_of(test::large_profile(20'000, 200), encoding);
    EXPECT_GT(pieces.size(), 4U);
    for (const std::string& piece : pieces) {
      EXPECT_LT(piece.size(), usual + longest_line);
      EXPECT_TRUE(piece.empty() || piece.back() == '\n');
    }
  }
}

TEST(JsonFlat, KeysThatAreAlikeAsTextAreAllThere) {
  Profile profile = small_profile();
  for (LabelSet& set : profile.label_sets)
    set = {{"\xff", "one"}, {"\xfe", "two"}, {"\xef\xbf\xbd", "three"}, {"", "four"}};
  for (Process& process : profile.processes) process.resource = {{"\xff", "a"}, {"\xfe", "b"}};
  const json line = json::parse(lines(*encode(profile, Encoding::json_flat)).at(0));
  EXPECT_EQ(line["labels"], (json{{"\xef\xbf\xbd", "three"},
                                  {"label.\xef\xbf\xbd", "two"},
                                  {"label.\xef\xbf\xbd.1", "one"},
                                  {"", "four"}}));
  EXPECT_EQ(line["resource"]["\xef\xbf\xbd"], "a");
  EXPECT_EQ(line["resource"]["label.\xef\xbf\xbd"], "b");
}

TEST(JsonPieces, EndWithTheFirstThatIsNotTaken) {
  const Profile profile = test::large_profile(20'000, 200);
  for (const Encoding encoding : {Encoding::json, Encoding::json_flat}) {
    int given = 0;
    const auto encoded = encode(profile, encoding, {}, [&](std::string_view) -> Result<void> {
      if (++given < 3) return {};
      return fail(ErrorCode::failed, "no room");
    });
    ASSERT_FALSE(encoded);
    EXPECT_EQ(encoded.error().message, "no room");
    EXPECT_EQ(given, 3);
  }
}

TEST(Json, EverySampleOfASumIsALineIfItsTimeIsKnown) {
  Profile profile = small_profile();
  profile.samples.resize(4);
  profile.samples[3].count = 3;
  EXPECT_EQ(lines(*encode(profile, Encoding::json)).size(), 5U);
  profile.span_ns = 1000;
  const auto all = lines(*encode(profile, Encoding::json));
  ASSERT_EQ(all.size(), 7U);
  EXPECT_EQ(json::parse(all[3])["value_ns"], 1'666'668);
  EXPECT_EQ(json::parse(all[4])["value_ns"], 1'666'666);
  EXPECT_EQ(all[5], all[4]);
  EXPECT_EQ(json::parse(all.back())["summary"]["samples"], 6);
  const auto flat = lines(*encode(profile, Encoding::json_flat));
  ASSERT_EQ(flat.size(), 4U);
  EXPECT_EQ(json::parse(flat[3])["count"], 3);
}

TEST(Json, EverySampleIsALineAndTheLastTellsOfTheWhole) {
  const Profile profile = small_profile();
  const auto all = lines(*encode(profile, Encoding::json));
  ASSERT_EQ(all.size(), profile.samples.size() + 1);
  const json blocked = json::parse(all[3]);
  EXPECT_EQ(blocked, json::parse(R"json({
    "ts_ns":"1790000000040000000","measure":"off_cpu","value_ns":5000000,"pid":100,"tid":100,
    "cpu":0,"comm":"main","process":"shop",
    "labels":[{"key":"route","value":"/pay"},{"key":"tenant","value":"acme"}],
    "trace_id":"0102030405060708090a0b0c0d0e0f10","span_id":"1112131415161718",
    "frames":[
      {"address":"0xffffffff81000000","function":"schedule","file":null,"line":null,
       "module":"[kernel]","kind":"kernel"},
      {"address":"0x7100","function":"work::mix","file":"/src/work.hpp","line":8,
       "module":"/lib/libwork.so","inlined":true},
      {"address":"0x7100","function":"work::spin(int)","file":"/src/work.cpp","line":6,
       "module":"/lib/libwork.so"
},
      {"address":"0x1234","function":"main","file":"/src/shop.cpp","line":12,
       "module":"/srv/shop"}]
})json"));
  const json hostile = json::parse(all[5]);
  EXPECT_EQ(hostile["end"], "truncated");
  EXPECT_EQ(hostile["comm"], json({{"base64", "aml0/w=="}}));
  EXPECT_EQ(hostile["labels"][6]["key"], json({{"base64", "/w=="}}));
  const json nameless = json::parse(all[6]);
  EXPECT_EQ(nameless["end"], "no_rule");
  EXPECT_EQ(nameless["labels"], json::array());
  EXPECT_EQ(nameless["frames"][0]["function"], nullptr);
  EXPECT_EQ(nameless["frames"][0]["problem"], "the file has no symbols");

  const json summary = json::parse(all.back())["summary"];
  EXPECT_EQ(summary["samples"], 10);
  EXPECT_EQ(summary["lost"], 3);
  EXPECT_EQ(summary["unread_labels"], 4);
  EXPECT_EQ(summary["problems"][1], json({{"base64", "YmFkIP8gdGV4dA=="}}));
  EXPECT_EQ(summary["processes"][0]["resource"][0],
            json({{"key", "service.name"}, {"value", "checkout"}}));
}

TEST(Speedscope, AProfileAMeasureInNanoseconds) {
  const json file = json::parse(*encode_speedscope(small_profile(), {.title = "shop"}));
  EXPECT_EQ(file["name"], "shop");
  ASSERT_EQ(file["profiles"].size(), 2U);
  const json& cpu = file["profiles"][0];
  EXPECT_EQ(cpu["name"], "CPU");
  EXPECT_EQ(cpu["weights"], json({5 * tick_ns, tick_ns, tick_ns}));
  EXPECT_EQ(cpu["endValue"], 7 * tick_ns);
  std::vector<std::string> names;
  for (const json& frame : cpu["samples"][0])
    names.push_back(file["shared"]["frames"][frame.get<std::size_t>()]["name"]);
  EXPECT_THAT(names, ElementsAre("main", "work::spin(int)", "work::mix"));
  EXPECT_EQ(file["profiles"][1]["endValue"], 3'012'000'499);
}

TEST(Speedscope, GroupsAreTheOutermostFrames) {
  const json file = json::parse(*encode_speedscope(small_profile(), {.group_by = {"tenant"}}));
  std::map<std::string, std::uint64_t> totals;
  const json& cpu = file["profiles"][0];
  for (std::size_t i = 0; i < cpu["samples"].size(); ++i)
    totals[file["shared"]["frames"][cpu["samples"][i][0].get<std::size_t>()]["name"]] +=
        cpu["weights"][i].get<std::uint64_t>();
  EXPECT_EQ(totals, (std::map<std::string, std::uint64_t>{{"tenant=acme", 2 * tick_ns},
                                                          {"tenant=globex", 3 * tick_ns},
                                                          {"tenant=", tick_ns},
                                                          {"tenant=(none)", tick_ns}}));
}

TEST(Encode, IndicesThatPointNowhereAreNothing) {
  Profile profile = small_profile();
  profile.samples[0].stack = 1000;
  profile.samples[1].labels = 1000;
  profile.samples[2].link = profile.samples[2].process = 1000;
  profile.stacks[0].locations.push_back(1000);
  profile.locations[0].mapping = 1000;
  profile.locations[0].lines.push_back({1000, 1});
  for (const Encoding encoding :
       {Encoding::pprof, Encoding::folded, Encoding::speedscope, Encoding::json})
    EXPECT_TRUE(encode(profile, encoding, {.group_by = {"tenant", "pid", "trace_id"}}))
        << static_cast<int>(encoding);
}

}  // namespace
}  // namespace vitrine::profile
