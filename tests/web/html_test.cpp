// encode_html: the data in the page, without a browser.
#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "web/made_profiles.hpp"

namespace vitrine::web_test {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;

constexpr std::string_view opening = "<script type=\"application/json\" id=\"profile\">";

std::string page_of(std::string_view name) {
  const auto profile = made(name);
  EXPECT_TRUE(profile) << name;
  const auto page = profile::encode_html(profile->profile, profile->options);
  EXPECT_TRUE(page) << page.error().message;
  return page.value_or("");
}

/// What a browser takes for the data: all up to the first end of the element.
std::string_view data_in(std::string_view page) {
  const auto from = page.find(opening) + opening.size();
  return page.substr(from, page.find("</script", from) - from);
}

std::size_t count(std::string_view text, std::string_view part) {
  std::size_t found = 0;
  for (auto at = text.find(part); at != std::string_view::npos; at = text.find(part, at + 1))
    ++found;
  return found;
}

TEST(Html, HoldsTheSumsOfTheProfile) {
  const std::string page = page_of("known");
  const auto data = nlohmann::json::parse(data_in(page));
  const auto& samples = data["samples"];
  EXPECT_THAT(samples["value_ns"], SizeIs(104));
  std::uint64_t on = 0, off = 0;
  for (std::size_t i = 0; i < samples["value_ns"].size(); ++i)
    (samples["off_cpu"][i] == 1 ? off : on) += samples["value_ns"][i].get<std::uint64_t>();
  EXPECT_EQ(on, 1'000'000'000U);
  EXPECT_EQ(off, 4'000'000'000U);
  for (const auto& column : samples) EXPECT_THAT(column, SizeIs(104));
  EXPECT_EQ(data["title"], "known");
}

TEST(Html, StacksShareTheirOuterFrames) {
  const std::string page = page_of("known");
  const auto data = nlohmann::json::parse(data_in(page));
  // By time: main, serve, render; serve, wait, schedule; render, memcpy; query, parse; poll, …
  EXPECT_THAT(data["nodes"]["frame"], SizeIs(12));
  EXPECT_THAT(data["nodes"]["line"], ElementsAre(0, 21, 57, 24, 0, 0, 61, 0, 9, 33, 0, 0));
  // A function is one frame, whatever its lines.
  EXPECT_THAT(data["frames"]["name"], SizeIs(10));
  EXPECT_EQ(data["nodes"]["up"].front(), 0);
  std::vector<std::string> inlined;
  const auto& frames = data["frames"];
  for (std::size_t i = 0; i < frames["name"].size(); ++i)
    if (frames["inlined"][i] == 1)
      inlined.push_back(data["strings"][frames["name"][i].get<std::size_t>()]);
  EXPECT_THAT(inlined, ElementsAre("parse"));
}

TEST(Html, NothingInAProfileEndsItsElement) {
  const std::string hostile = page_of("hostile");
  const std::string empty = page_of("empty");
  EXPECT_EQ(count(hostile, "<script"), count(empty, "<script"));
  EXPECT_EQ(count(hostile, "</script"), count(empty, "</script"));
  EXPECT_EQ(count(hostile, "<!--"), count(empty, "<!--"));
  const std::string_view data = data_in(hostile);
  EXPECT_THAT(std::vector<unsigned char>(data.begin(), data.end()), Each(::testing::Lt(0x80)));
  const auto parsed = nlohmann::json::parse(data);
  EXPECT_EQ(parsed["title"], "</script><script>window.attacked = 1</script>");
}

TEST(Html, IndicesThatLeadNowhereAreNoEntries) {
  const std::string page = page_of("hostile");
  const auto data = nlohmann::json::parse(data_in(page));
  // The bad sample is the earliest by its time.
  for (const char* column : {"node", "labels", "process", "link"})
    EXPECT_EQ(data["samples"][column][0], -1) << column;
  EXPECT_EQ(data["samples"]["value_ns"][0], (std::uint64_t{1} << 53) - 1);
}

}  // namespace
}  // namespace vitrine::web_test
