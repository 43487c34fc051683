// Publishers of others, as the command shows them.
#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>

#include "support/child.hpp"

namespace vitrine {
namespace {

using nlohmann::json;
using test::Child;

/// The order of attributes is the publisher's own business.
std::map<std::string, json> by_key(const json& list) {
  std::map<std::string, json> sorted;
  for (const json& item : list)
    EXPECT_TRUE(sorted.emplace(item.at("key"), item.at("value")).second) << item;
  return sorted;
}

// libdatadog, in Rust: the process context of every service that dd-trace instruments.
TEST(Npm, LibdatadogsProcessContext) {
  Child publisher = Child::spawn({"node", NPM_DIR "/publish_context.js"});
  const auto line = publisher.read_line();
  ASSERT_TRUE(line) << "is it installed (npm ci in tests/npm)? " << publisher.rest_of_errors();
  const json published = json::parse(*line);

  const auto vitrine = test::run({VITRINE, "context", std::to_string(publisher.pid()), "--json"});
  ASSERT_EQ(vitrine.status, 0) << vitrine.err;
  const json shown = json::parse(vitrine.out);
  EXPECT_EQ(shown.at("pid"), published.at("pid"));
  EXPECT_EQ(shown.at("version"), published.at("version"));
  EXPECT_EQ(by_key(shown.at("resource")), by_key(published.at("resource")));
  EXPECT_EQ(by_key(shown.at("attributes")), by_key(published.at("attributes")));
  EXPECT_FALSE(shown.contains("truncated")) << shown;
}

}  // namespace
}  // namespace vitrine
