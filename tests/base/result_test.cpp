// TRY and TRY_WHILE: what they return from the function they stand in, and what they are otherwise.
#include "base/result.hpp"

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace vitrine {
namespace {

template <class T>
Result<T> made(T value, bool well = true) {
  if (!well) return fail(ErrorCode::limit, "too many", "ask for less");
  return value;
}

Result<void> done(bool well = true) {
  if (!well) return fail(ErrorCode::not_found, "no such thread");
  return {};
}

const Error too_many{ErrorCode::limit, "too many", "ask for less"};

TEST(Try, IsTheValue) {
  const auto sum = [](bool well) -> Result<std::string> {
    const int one = TRY(made(1));
    auto two = TRY(made(2, well));
    static_assert(std::is_same_v<decltype(two), int>);
    return std::to_string(one + two);
  };
  EXPECT_EQ(sum(true), "3");
  EXPECT_EQ(sum(false).error(), too_many);
}

TEST(Try, ReturnsTheErrorToAResultOfAnotherType) {
  int reached = 0;
  const auto steps = [&](bool well) -> Result<std::vector<int>> {
    TRY(done());
    ++reached;
    TRY(done(well));
    ++reached;
    return std::vector{1};
  };
  EXPECT_EQ(steps(false).error().message, "no such thread");
  EXPECT_EQ(reached, 1);
  EXPECT_TRUE(steps(true));
  EXPECT_EQ(reached, 3);
}

TEST(Try, MovesOutOfATemporary) {
  using Owner = std::unique_ptr<int>;
  const auto owner = [](bool well) -> Result<Owner> {
    auto taken = TRY(made(std::make_unique<int>(7), well));
    ++*taken;
    return taken;
  };
  EXPECT_EQ(**owner(true), 8);
  EXPECT_EQ(owner(false).error(), too_many);

  Result<Owner> kept = std::make_unique<int>(1);
  const auto moved = [&]() -> Result<int> {
    const Owner mine = TRY(std::move(kept));
    return *mine;
  };
  EXPECT_EQ(moved(), 1);
  EXPECT_EQ(*kept, nullptr);
}

// Counts the copies of a value, which moves do not.
struct Copied {
  Copied() = default;
  Copied(const Copied& other) : copies(other.copies + 1) {}
  Copied(Copied&&) = default;
  Copied& operator=(const Copied&) = delete;
  Copied& operator=(Copied&&) = delete;
  ~Copied() = default;
  int copies = 0;
};

TEST(Try, RefersToTheValueOfAVariable) {
  Result<Copied> variable = Copied();
  const auto same = [](Result<Copied>& result) -> Result<bool> {
    Copied& value = TRY(result);
    const Result<Copied>& constant = result;
    const Copied& read = TRY(constant);
    return &value == &*result && &read == &value && value.copies == 0;
  };
  EXPECT_EQ(same(variable), true);
  variable = fail(too_many.code, too_many.message, too_many.remedy);
  EXPECT_EQ(same(variable).error(), too_many);
  EXPECT_EQ(variable.error(), too_many) << "the error of a variable is copied, not moved from";

  const auto copies = []() -> Result<int> {
    const auto value = TRY(made(Copied()));
    return value.copies;
  };
  EXPECT_EQ(copies(), 0);
}

TEST(Try, TakesAResultThatRefers) {
  std::map<int, std::string> names{{1, "one"}};
  const auto find = [&](int number) -> Result<std::reference_wrapper<std::string>> {
    const auto found = names.find(number);
    if (found == names.end()) return fail(ErrorCode::not_found, "no such name");
    return found->second;
  };
  const auto append = [&](int number) -> Result<void> {
    std::string& name = TRY(find(number));
    name += "!";
    return {};
  };
  EXPECT_TRUE(append(1));
  EXPECT_EQ(names[1], "one!");
  EXPECT_EQ(append(2).error().code, ErrorCode::not_found);
}

TEST(Try, TakesAnyTypeOfError) {
  struct Place {
    int column;
  };
  const auto parse = [](bool well) -> tl::expected<int, Place> {
    if (!well) return tl::unexpected(Place{4});
    return 1;
  };
  const auto twice = [&](bool well) -> tl::expected<long, Place> { return TRY(parse(well)) * 2L; };
  EXPECT_EQ(*twice(true), 2);
  EXPECT_EQ(twice(false).error().column, 4);
}

TEST(Try, EvaluatesItsExpressionOnce) {
  int calls = 0;
  const auto count = [&]() -> Result<void> {
    TRY([&]() -> Result<void> { return ++calls, Result<void>(); }());
    return {};
  };
  EXPECT_TRUE(count());
  EXPECT_EQ(calls, 1);
}

TEST(Try, TakesCommasAndStandsInAnother) {
  const auto nested = []() -> Result<std::size_t> {
    const auto pair = TRY(made<std::pair<int, int>>({1, 2}));
    const auto inner = [&]() -> Result<int> { return TRY(made(pair.first)); };
    if (pair.second == 2)
      TRY(made(TRY(inner())));
    else
      return std::size_t{0};
    const auto [first, second] = TRY(made(std::pair(3, 4)));
    return TRY(made(std::string(TRY(made(std::size_t(first + second))), 'x'))).size();
  };
  EXPECT_EQ(nested(), 7);
}

TEST(Try, DestroysWhatItLeaves) {
  const auto counted = std::make_shared<int>();
  const auto leave = [&]() -> Result<void> {
    const auto held = TRY(made(std::shared_ptr(counted)));
    TRY(made(held, false));
    return {};
  };
  EXPECT_FALSE(leave());
  EXPECT_EQ(counted.use_count(), 1);
}

TEST(TryWhile, AddsWhatWasBeingDone) {
  int described = 0;
  const auto doing = [&](const char* what) { return ++described, std::string(what); };
  const auto steps = [&](bool well) -> Result<int> {
    const auto [number, text] = TRY(made(std::pair(5, "five")));
    TRY_WHILE(doing(text), done());
    return TRY_WHILE(doing("reading labels"), made(number, well));
  };
  EXPECT_EQ(steps(true), 5);
  EXPECT_EQ(described, 0) << "said without an error";
  EXPECT_EQ(steps(false).error(),
            (Error{ErrorCode::limit, "reading labels: too many", "ask for less"}));
  EXPECT_EQ(described, 1);

  const Result<int> failed = fail(ErrorCode::failed, "no");
  const auto copied = [&]() -> Result<int> { return TRY_WHILE("opening", failed).get(); };
  EXPECT_EQ(copied().error().message, "opening: no");
  EXPECT_EQ(failed.error().message, "no");
}

}  // namespace
}  // namespace vitrine
