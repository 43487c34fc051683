#include "query/show.hpp"

#include <gmock/gmock.h>

#include "query/site.hpp"

namespace vitrine::query {
namespace {

using test::OrderFire;
using test::OrderSite;
using testing::ElementsAre;
using testing::HasSubstr;

TEST(Show, TakesAListApart) {
  const auto items = parse_items(
      R"(arg0, str(arg9) as path , hex( id ),label.tenant, label["a-b"] as "a b",arg.id, pid)");
  ASSERT_TRUE(items) << items.error().message;
  std::vector<std::string> titles;
  for (const Item& item : *items) titles.push_back(item.title);
  EXPECT_THAT(titles, ElementsAre("arg0", "path", "hex( id )", "tenant", "a b", "id", "pid"));
  EXPECT_EQ((*items)[2].format, Format::hex);
}

TEST(Show, GivesTheValuesAtAFire) {
  const auto items = parse_items(
                         "id, item, str(arg9), bytes(arg9, 4), tenant, colour, lost, absent, "
                         "dec(colour), item as again")
                         .value();
  const OrderSite site;
  std::vector<Capture> captures;
  const auto bound = query::bind(items, site.arguments(), captures);
  EXPECT_EQ(captures.size(), 6U) << "each thing once";
  OrderFire order;
  const Fire& fire = order.with(captures);
  EXPECT_EQ(value_of(bound[0].subject, fire), probe::Value(std::int64_t{17}));
  EXPECT_EQ(value_of(bound[1].subject, fire), test::text("kettle"));
  EXPECT_EQ(value_of(bound[2].subject, fire), test::text("/etc/hosts"));
  EXPECT_EQ(value_of(bound[4].subject, fire), test::text("acme"));
  EXPECT_EQ(value_of(bound[5].subject, fire), probe::Value(probe::EnumeratorValue{1, "RED"}));
  EXPECT_TRUE(std::holds_alternative<probe::ValueError>(*value_of(bound[6].subject, fire)));
  EXPECT_FALSE(value_of(bound[7].subject, fire));
  EXPECT_EQ(captures[3], (Capture{9, Form::bytes, 4, {}}));
}

TEST(Show, PointsAtWhatMakesNoSense) {
  const auto message = [](std::string_view text) { return parse_items(text).error().message; };
  EXPECT_THAT(message(""), HasSubstr("not the end"));
  EXPECT_THAT(message("arg0,"), HasSubstr("not the end"));
  EXPECT_THAT(message("arg0 arg1"), HasSubstr("expected a comma, not `arg1`"));
  EXPECT_THAT(message("arg0 as"), HasSubstr("expected a name after `as`"));
  EXPECT_THAT(message("17"), HasSubstr("not `17`"));
  EXPECT_THAT(parse_item("arg0, arg1").error().remedy, HasSubstr("arg0, arg1\n      ^ "));
  EXPECT_TRUE(parse_item("price"));
}

}  // namespace
}  // namespace vitrine::query
