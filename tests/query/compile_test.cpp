// Conditions in the kernel say what they say in user space: predicate.h as its text describes it,
// against Condition::holds(), on random conditions and random fires.
#include "query/compile.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <random>

#include "query/expression.hpp"
#include "query/site.hpp"

namespace vitrine::query {
namespace {

using test::OrderFire;
using test::OrderSite;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr vitrine_hash_key hash_key{{0x1234, 0x5678}};

/// What the kernel side has of a fire.
struct KernelView {
  struct Captured {
    bool ok = false;
    std::uint64_t value = 0;  ///< a number, extended to 64 bits
    std::uint64_t hash = 0;   ///< of a string
  };
  std::vector<Captured> captures;
  std::vector<std::uint64_t> selected;  ///< hashes
  std::uint64_t pid = 0, tid = 0, comm = 0;
};

std::uint64_t raw(const probe::Value& value) {
  struct Visitor {
    std::uint64_t operator()(std::int64_t v) const { return static_cast<std::uint64_t>(v); }
    std::uint64_t operator()(std::uint64_t v) const { return v; }
    std::uint64_t operator()(bool v) const { return v ? 0x40 : 0; }  // any byte but 0 is true
    std::uint64_t operator()(const probe::PointerValue& v) const { return v.address; }
    std::uint64_t operator()(const probe::EnumeratorValue& v) const {
      return static_cast<std::uint64_t>(v.value);
    }
    std::uint64_t operator()(double) const { return 0; }
    std::uint64_t operator()(const probe::StringValue&) const { return 0; }
    std::uint64_t operator()(const probe::BytesValue&) const { return 0; }
    std::uint64_t operator()(const probe::ListValue&) const { return 0; }
    std::uint64_t operator()(const probe::ValueError&) const { return 0; }
  };
  return std::visit(Visitor{}, value);
}

KernelView view_of(const Fire& fire, const std::vector<Selected>& selected) {
  KernelView view;
  for (const probe::Value& value : fire.values) {
    KernelView::Captured captured;
    captured.ok = !std::holds_alternative<probe::ValueError>(value);
    captured.value = raw(value);
    if (const auto* string = std::get_if<probe::StringValue>(&value))
      captured.hash = string_hash(hash_key, string->text);
    view.captures.push_back(captured);
  }
  for (const Selected& each : selected) {
    const auto value = fire.labels->value(each.key);
    view.selected.push_back(value ? string_hash(hash_key, *value) : 0);
  }
  view.pid = static_cast<std::uint64_t>(fire.pid);
  view.tid = static_cast<std::uint64_t>(fire.tid);
  view.comm = string_hash(hash_key, fire.comm);
  return view;
}

bool compares(const vitrine_test& test, std::uint64_t left) {
  const auto says = [&](auto a, auto b) {
    switch (test.comparison) {
      case VITRINE_EQ:
        return a == b;
      case VITRINE_NE:
        return a != b;
      case VITRINE_LT:
        return a < b;
      case VITRINE_LE:
        return a <= b;
      case VITRINE_GT:
        return a > b;
      default:
        return a >= b;
    }
  };
  if (test.is_signed != 0)
    return says(static_cast<std::int64_t>(left), static_cast<std::int64_t>(test.operand));
  return says(left, test.operand);
}

bool run(const vitrine_predicate& predicate, const KernelView& view) {
  std::vector<bool> stack;
  const auto pop = [&] {
    const bool top = stack.at(stack.size() - 1);
    stack.pop_back();
    return top;
  };
  for (std::uint32_t i = 0; i < predicate.count; ++i) {
    const vitrine_test& test = predicate.tests[i];
    bool truth = false;
    switch (test.subject) {
      case VITRINE_AND: {
        const bool right = pop(), left = pop();
        truth = left && right;
        break;
      }
      case VITRINE_OR: {
        const bool right = pop(), left = pop();
        truth = left || right;
        break;
      }
      case VITRINE_NOT:
        truth = !pop();
        break;
      case VITRINE_ON_ARGUMENT: {
        const auto& captured = view.captures.at(test.index);
        truth = captured.ok && compares(test, captured.value);
        break;
      }
      case VITRINE_ON_ARGUMENT_STRING: {
        const auto& captured = view.captures.at(test.index);
        truth = captured.ok && captured.hash != 0 && compares(test, captured.hash);
        break;
      }
      case VITRINE_ON_LABEL: {
        const std::uint64_t hash = view.selected.at(test.index);
        truth = hash != 0 && compares(test, hash);
        break;
      }
      case VITRINE_ON_PID:
        truth = compares(test, view.pid);
        break;
      case VITRINE_ON_TID:
        truth = compares(test, view.tid);
        break;
      case VITRINE_ON_COMM:
        truth = compares(test, view.comm);
        break;
      default:
        ADD_FAILURE() << "no such subject";
    }
    stack.push_back(truth);
  }
  EXPECT_LE(stack.size(), 1U);
  return stack.empty() || stack.back();
}

Compiled compiled(std::string_view text, const std::vector<Selected>* selected = nullptr) {
  const auto expression = Expression::parse(text).value();
  const OrderSite site;
  std::vector<Capture> captures;
  const Condition condition = query::bind(expression, site.arguments(), captures);
  return compile(condition, site.arguments(), captures,
                 selected == nullptr ? condition.selected() : *selected, hash_key);
}

TEST(Compile, TakesWhatTheKernelCanTest) {
  for (const char* text : {"id == 17",
                           "id > 2.5",
                           "item == kettle",
                           "tenant != acme",
                           "pid == 1 or tid > 2",
                           "comm == server",
                           "colour == RED",
                           "paid",
                           "not paid",
                           "who == 0",
                           "arg40 == 1",
                           "lost == 1",
                           "label.tenant",
                           "trace_id == '4bf92f3577b34da6a3ce929d0e0e4736'",
                           "true",
                           "str(arg9) == '/etc/hosts'",
                           "17 < id",
                           "id & 1",
                           "arg8 + 1 == 4",
                           "price + 1 > 2"}) {
    const Compiled got = compiled(text);
    EXPECT_THAT(got.left_over, IsEmpty()) << text;
    EXPECT_GT(got.predicate.count, 0U) << text;
  }
}

TEST(Compile, SaysWhatItLeavesToUserSpace) {
  const auto left = [](std::string_view text) { return compiled(text).left_over; };
  EXPECT_THAT(left("price > 2"), ElementsAre("`price > 2`: a floating-point number"));
  EXPECT_THAT(left("item ~ 'k*'"), ElementsAre("`item ~ 'k*'`: a glob"));
  EXPECT_THAT(left("tenant > 5"), ElementsAre(HasSubstr("a text used as a number")));
  EXPECT_THAT(left("tenant > 'a'"), ElementsAre(HasSubstr("an order comparison of text")));
  EXPECT_THAT(left("id == arg8"), ElementsAre(HasSubstr("a comparison of two variables")));
  EXPECT_THAT(left("arg10 == 1"), ElementsAre(HasSubstr("more than 8 bytes")));
  EXPECT_THAT(left("cpu == 1"), ElementsAre(HasSubstr("the CPU")));
  EXPECT_THAT(left("tenant == '" + std::string(128, 'x') + "'"),
              ElementsAre(HasSubstr("more than 127 bytes")));
  const std::vector<Selected> none;
  EXPECT_THAT(compiled("tenant == acme", &none).left_over,
              ElementsAre(HasSubstr("the label tenant, which the kernel does not look up")));
}

TEST(Compile, TestsThePartsThatItCan) {
  const Compiled part = compiled("id == 17 and price > 2 and (tid == 1 and pid == 2)");
  EXPECT_THAT(part.left_over, ElementsAre(HasSubstr("price")));
  EXPECT_EQ(part.predicate.count, 5U);
  const Compiled none = compiled("id == 17 or price > 2");
  EXPECT_EQ(none.predicate.count, 0U) << "half of an `or` says nothing";
  EXPECT_THAT(none.left_over, ElementsAre(HasSubstr("price")));
  EXPECT_EQ(compiled("not (id == 17 and price > 2)").predicate.count, 0U);
}

TEST(Compile, LeavesLongConditionsToUserSpace) {
  std::string many = "id == 0";
  for (int i = 1; i < 16; ++i) many += fmt::format(" and id != {}", i);
  EXPECT_EQ(compiled(many).predicate.count, 31U);
  EXPECT_THAT(compiled(many).left_over, IsEmpty());
  many += " and id != 99";
  EXPECT_EQ(compiled(many).predicate.count, 31U);
  EXPECT_THAT(compiled(many).left_over, ElementsAre(HasSubstr("more than 32 tests")));
}

/// Random conditions and fires, dense in the values at which answers change.
class Chance {
 public:
  explicit Chance(unsigned seed) : random_(seed) {}

  template <class T>
  T of(std::initializer_list<T> choices) {
    return *(choices.begin() + below(choices.size()));
  }
  std::size_t below(std::size_t n) {
    return std::uniform_int_distribution<std::size_t>(0, n - 1)(random_);
  }

  std::string number() {
    return of<std::string>({"-9223372036854775808", "-1", "0", "1", "2", "5", "0x7fffffff",
                            "9223372036854775807", "9223372036854775808", "18446744073709551615",
                            "2.5", "-0.5", "1e30", "-1e30", "0.5", "9.3e18", "18446744073709551616",
                            "true"});
  }
  std::string text() {
    return of<std::string>(
        {"''", "'acme'", "bolt", "'kettle'", "'/etc/hosts'", "'server'", "RED", "'5'"});
  }
  std::string subject() {
    return of<std::string>({"id",           "item",          "arg2",
                            "colour",       "paid",          "who",
                            "lost",         "arg8",          "arg9",
                            "str(arg9)",    "arg40",         "tenant",
                            "label.absent", "pid",           "tid",
                            "comm",         "price",         "arg.nope",
                            "id & 1",       "arg8 + 1",      "(id - 3) * arg8",
                            "arg9 >> 1",    "-id",           "arg8 / id",
                            "arg9 % arg8",  "paid + colour", "who & 3",
                            "price + 1",    "lost + 1",      "~arg9"});
  }
  std::string comparison() { return of<std::string>({"==", "!=", "<", "<=", ">", ">="}); }
  std::string condition(int depth) {
    if (depth == 0 || below(4) == 0) {
      const std::string other = below(3) != 0 ? number() : text();
      if (below(8) == 0) return subject();
      if (below(8) == 0) return number() + " " + comparison() + " " + subject();
      return subject() + " " + comparison() + " " + other;
    }
    switch (below(3)) {
      case 0:
        return "not (" + condition(depth - 1) + ")";
      case 1:
        return "(" + condition(depth - 1) + " or " + condition(depth - 1) + ")";
      default:
        return "(" + condition(depth - 1) + ") and (" + condition(depth - 1) + ")";
    }
  }

  OrderFire fire() {
    OrderFire order;
    const auto whole = [&] {
      return of<std::int64_t>(
          {INT64_MIN, INT64_MIN + 1, -2, -1, 0, 1, 2, 3, 5, 17, INT64_MAX - 1, INT64_MAX});
    };
    order.numbers[0] = of<std::int64_t>({INT32_MIN, -1, 0, 1, 2, 3, 5, 17, INT32_MAX});
    order.numbers[2] = static_cast<std::uint64_t>(whole());
    order.numbers[3] = of<double>({-0.5, 0, 2.5, 1e30});
    const auto colour = of<std::int64_t>({-1, 0, 1, 2, 3});
    order.numbers[4] = probe::EnumeratorValue{colour, colour == 1 ? "RED" : ""};
    order.numbers[5] = of<bool>({false, true});
    order.numbers[6] = probe::PointerValue{static_cast<std::uint64_t>(whole())};
    order.numbers[8] = whole();
    order.numbers[9] = static_cast<std::uint64_t>(whole());
    order.texts[1] = test::text(of<std::string>({"", "kettle", "bolt", "5"}));
    order.texts[9] = test::text(of<std::string>({"/etc/hosts", "x"}));
    for (const std::uint32_t argument : {0U, 2U, 4U, 5U, 8U, 9U})
      if (below(8) == 0) order.numbers[argument] = probe::ValueError{"not readable"};
    if (below(6) == 0) order.texts.erase(1);
    order.labels.map.clear();
    if (below(3) != 0) order.labels.map["tenant"] = of<std::string>({"", "acme", "bolt", "5"});
    order.fire.comm = of<std::string_view>({"server", "acme", ""});
    order.fire.pid = of<std::int32_t>({0, 1, 2, 5, INT32_MAX});
    order.fire.tid = of<std::int32_t>({1, 2, 5});
    return order;
  }

 private:
  std::mt19937 random_;
};

TEST(Compile, SaysTheSameAsUserSpace) {
  Chance chance(20261121);
  const OrderSite site;
  std::size_t whole = 0, part = 0, truths = 0, asked = 0;
  for (int i = 0; i < 6000; ++i) {
    const std::string text = chance.condition(3);
    const auto expression = Expression::parse(text);
    ASSERT_TRUE(expression) << text << ": " << expression.error().message;
    std::vector<Capture> captures;
    const Condition condition = query::bind(*expression, site.arguments(), captures);
    const std::vector<Selected> selected = condition.selected();
    const Compiled got = compile(condition, site.arguments(), captures, selected, hash_key);
    got.left_over.empty() ? ++whole : ++part;
    for (int k = 0; k < 20; ++k) {
      OrderFire order = chance.fire();
      const Fire& fire = order.with(captures);
      const bool user = condition.holds(fire);
      const bool kernel = run(got.predicate, view_of(fire, selected));
      ++asked;
      truths += user ? 1 : 0;
      if (got.left_over.empty()) {
        ASSERT_EQ(user, kernel) << text;
      } else {
        ASSERT_TRUE(kernel || !user) << text << ": the kernel side drops what user space keeps";
      }
    }
  }
  // Else the test would say little.
  EXPECT_GT(whole, 1000U);
  EXPECT_GT(part, 500U);
  EXPECT_GT(truths, asked / 5);
  EXPECT_LT(truths, asked * 4 / 5);
}

}  // namespace
}  // namespace vitrine::query
