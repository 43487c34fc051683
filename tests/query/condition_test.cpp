// What conditions say of a fire.
#include <gmock/gmock.h>

#include "query/expression.hpp"
#include "query/site.hpp"

namespace vitrine::query {
namespace {

using test::OrderFire;
using test::OrderSite;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

bool holds(std::string_view text, OrderFire fire = {}) {
  const auto expression = Expression::parse(text);
  if (!expression) {
    ADD_FAILURE() << text << ": " << expression.error().message;
    return false;
  }
  const OrderSite site;
  std::vector<Capture> captures;
  const Condition condition = query::bind(*expression, site.arguments(), captures);
  return condition.holds(fire.with(captures));
}

std::vector<std::string> complaints(std::string_view text) {
  const auto expression = Expression::parse(text);
  const OrderSite site;
  std::vector<Capture> captures;
  return query::bind(expression.value(), site.arguments(), captures).complaints();
}

TEST(Condition, ComparesArguments) {
  EXPECT_TRUE(holds("arg0 == 17"));
  EXPECT_TRUE(holds("id == 0x11"));
  EXPECT_TRUE(holds("17 == id"));
  EXPECT_FALSE(holds("id != 17"));
  EXPECT_TRUE(holds("id > 16 and id >= 17 and id < 18 and id <= 17"));
  EXPECT_TRUE(holds("16 < id"));
  EXPECT_FALSE(holds("17 < id"));
  EXPECT_TRUE(holds("price > 2"));
  EXPECT_TRUE(holds("price == 2.5"));
  EXPECT_TRUE(holds("id > 2.5"));
  EXPECT_TRUE(holds("arg.id == 17"));
  EXPECT_TRUE(holds("arg8 == -3"));
  EXPECT_TRUE(holds("id > arg9")) << "two arguments";
}

TEST(Condition, ComparesAsMathematicsDoes) {
  OrderFire fire;
  fire.numbers[9] = ~std::uint64_t{0};
  EXPECT_TRUE(holds("arg9 == 0xffffffffffffffff", fire));
  EXPECT_FALSE(holds("arg9 == -1", fire));
  EXPECT_TRUE(holds("arg8 < 0xffffffffffffffff", fire)) << "-3 is less";
  fire.numbers[9] = std::uint64_t{9007199254740993};
  EXPECT_FALSE(holds("arg9 == 9007199254740992.0", fire)) << "2^53 + 1, which no double is";
}

TEST(Condition, ComparesText) {
  EXPECT_TRUE(holds(R"(item == "kettle")"));
  EXPECT_TRUE(holds("item == 'kettle'"));
  EXPECT_TRUE(holds("item == kettle")) << "a bare word on the right";
  EXPECT_FALSE(holds(R"(item == "kettl")"));
  EXPECT_TRUE(holds(R"(item != "teapot")"));
  EXPECT_TRUE(holds(R"(item < "l")"));
  EXPECT_TRUE(holds(R"(arg9 == "/etc/hosts")")) << "an untyped argument beside text is its address";
  EXPECT_TRUE(holds(R"(str(arg9) ~ "/etc/*" and arg9 == 5)")) << "both at once";
  EXPECT_TRUE(holds(R"(item ~ "k*le")"));
  EXPECT_TRUE(holds(R"(item !~ "t*")"));
  EXPECT_TRUE(holds(R"(comm == "server")"));
  EXPECT_TRUE(holds("comm ~ 's*'"));
}

TEST(Condition, DoesNotTakeCutTextForWhole) {
  OrderFire fire;
  fire.texts[1] = test::text("kettle", true);
  EXPECT_FALSE(holds("item == kettle", fire));
  EXPECT_TRUE(holds("item != kettle", fire));
  EXPECT_TRUE(holds("item > kettle", fire));
}

TEST(Condition, ComparesLabels) {
  EXPECT_TRUE(holds(R"(label.tenant == "acme")"));
  EXPECT_TRUE(holds("tenant == acme"));
  EXPECT_TRUE(holds(R"(label["http.route"] == "/order")"));
  EXPECT_TRUE(holds("http.route ~ '/*'"));
  EXPECT_TRUE(holds("retries > 2")) << "text that reads as a number";
  EXPECT_TRUE(holds("retries == 3.0"));
  EXPECT_FALSE(holds("tenant > 2"));
  EXPECT_FALSE(holds("tenant != 2")) << "no number, so nothing is compared";
  EXPECT_TRUE(holds("trace_id == '4bf92f3577b34da6a3ce929d0e0e4736'"));
  EXPECT_TRUE(holds("trace_id ~ '4bf9*'"));
}

TEST(Condition, ComparesTheThread) {
  EXPECT_TRUE(holds("pid == 4242 && tid == 4243 && cpu == 1"));
  EXPECT_TRUE(holds("pid != tid"));
  EXPECT_TRUE(holds("probe == 'shop:order'"));
}

TEST(Condition, KnowsEnumeratorsAndTruth) {
  EXPECT_TRUE(holds("colour == RED"));
  EXPECT_TRUE(holds("colour == 'RED'"));
  EXPECT_TRUE(holds("colour != GREEN"));
  EXPECT_TRUE(holds("colour < GREEN"));
  EXPECT_TRUE(holds("colour == 1"));
  EXPECT_TRUE(holds("colour ~ 'R*'"));
  EXPECT_TRUE(holds("paid"));
  EXPECT_TRUE(holds("paid == true"));
  EXPECT_FALSE(holds("!paid or paid == false"));
  EXPECT_TRUE(holds("true"));
  EXPECT_FALSE(holds("false"));
}

TEST(Condition, IsFalseOfWhatIsNotThere) {
  for (const std::string name : {"label.absent", "absent", "lost", "arg40", "span_id"}) {
    EXPECT_FALSE(holds(name + " == 1"));
    EXPECT_FALSE(holds(name + " != 1"));
    EXPECT_FALSE(holds(name + " != 'x'"));
    EXPECT_FALSE(holds(name + " !~ 'x'"));
    EXPECT_FALSE(holds(name + " < 1 or " + name + " >= 1"));
    EXPECT_FALSE(holds(name)) << "alone, it asks whether it is there";
    EXPECT_TRUE(holds("not (" + name + " == 1)"));
  }
  EXPECT_TRUE(holds("label.tenant"));
  EXPECT_TRUE(holds("arg0"));
  OrderFire fire;
  fire.numbers[0] = std::int64_t{0};
  fire.labels.map["empty"] = "";
  EXPECT_FALSE(holds("arg0", fire)) << "0 is false";
  EXPECT_TRUE(holds("label.empty", fire)) << "but an empty label is set";
}

TEST(Condition, ConnectsInTheUsualOrder) {
  EXPECT_TRUE(holds("true or false and false"));
  EXPECT_FALSE(holds("(true or false) and false"));
  EXPECT_FALSE(holds("not true or false"));
  EXPECT_TRUE(holds("not (true and false)"));
  EXPECT_TRUE(holds("!!true"));
  EXPECT_TRUE(holds("false || !false && true"));
}

TEST(Condition, SaysWhatCanNeverBeTrue) {
  EXPECT_THAT(complaints("id == 17 and tenant == acme"), IsEmpty());
  EXPECT_THAT(complaints("arg40 == 1"), ElementsAre(HasSubstr("has 11 arguments")));
  EXPECT_THAT(complaints("arg.nmae == 1"), ElementsAre(HasSubstr("id, item, price")));
  EXPECT_THAT(complaints("colour == BLUE"), ElementsAre(HasSubstr("(NONE, RED, GREEN)")));
  EXPECT_THAT(complaints("id == seventeen"), ElementsAre(HasSubstr("is a number (int)")));
  EXPECT_THAT(complaints("id == '17'"), IsEmpty()) << "text that is a number";
}

TEST(Condition, TellsWhatToCaptureAndToLookUp) {
  const auto expression =
      Expression::parse(
          "item == kettle and arg9 == 5 and str(arg9, 8) == x and tenant == a and "
          "label.tenant != b and trace_id and bytes(arg6, arg2)")
          .value();
  const OrderSite site;
  std::vector<Capture> captures;
  const Condition condition = query::bind(expression, site.arguments(), captures);
  EXPECT_THAT(captures,
              ElementsAre(Capture{1, Form::text, 0, 2}, Capture{9, Form::number, 0, {}},
                          Capture{9, Form::text, 8, {}, true}, Capture{6, Form::bytes, 0, 2}));
  EXPECT_THAT(condition.selected(), ElementsAre(Selected{Selected::Kind::label, "tenant"},
                                                Selected{Selected::Kind::trace_id, ""}));
}

}  // namespace
}  // namespace vitrine::query
