// rust_names.txt: symbols of rustc 1.95 programs, and old ones, with the names that GNU c++filt 2.40
// gives them (without the hashes of crates and the types of constants).
#include "symbol/demangle.hpp"

#include <gtest/gtest.h>

#include <fstream>
#include <random>

#include "base/limits.hpp"
#include "sandbox/worker.hpp"

namespace vitrine::symbol {
namespace {

std::vector<std::pair<std::string, std::string>> known_names() {
  std::vector<std::pair<std::string, std::string>> names;
  std::ifstream in(RUST_NAMES);
  for (std::string line; std::getline(in, line);)
    names.emplace_back(line.substr(0, line.find('\t')), line.substr(line.find('\t') + 1));
  return names;
}

TEST(Demangle, RustNamesEqualGnu) {
  const auto names = known_names();
  ASSERT_GT(names.size(), 30U);
  for (const auto& [symbol, name] : names) EXPECT_EQ(demangled_anywhere(symbol), name) << symbol;
}

TEST(Demangle, RustConstantsAndLifetimes) {
  EXPECT_EQ(demangled_anywhere("_RINvC1a1fKj7b_Kana_Kb1_Kc78_E"), "a::f::<123, -10, true, 'x'>");
  EXPECT_EQ(demangled_anywhere("_RINvC1a1fL_FG_RL0_eEuE"), "a::f::<'_, for<'a> fn(&'a str)>");
  EXPECT_EQ(demangled_anywhere("_RNvC1a1f.llvm.123"), "a::f");
  EXPECT_EQ(demangled_anywhere("_RNvC1a1f.cold"), "a::f (.cold)");
}

TEST(Demangle, CxxNames) {
  EXPECT_EQ(demangled_anywhere("_ZN1a1bEi"), "a::b(int)");
  EXPECT_EQ(demangled_anywhere("_ZN1a1bEi.cold"), "a::b(int) [clone .cold]");
  EXPECT_EQ(demangled_anywhere("main"), "main");
  EXPECT_EQ(demangled_anywhere("_Z"), "_Z");
  EXPECT_EQ(demangled_anywhere("_R"), "_R");
  EXPECT_EQ(demangled_anywhere(""), "");
}

// Back references to what refers back again: 2^60 types, were they all printed.
TEST(Demangle, WhatUnfoldsWithoutEndStaysAsItIs) {
  std::string symbol = "_RINvC1a1fThhE";
  std::size_t last = 8;  // where the tuple begins, after "_R"
  for (int i = 0; i < 60; ++i) {
    const std::size_t at = symbol.size() - 2;
    static constexpr char digits[] =
        "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
    const std::size_t n = last - 1;
    const std::string reference = n < 62 ? std::string{'B', digits[n], '_'}
                                         : std::string{'B', digits[n / 62], digits[n % 62], '_'};
    symbol += "T" + reference + reference + "E";
    last = at;
  }
  symbol += "E";
  EXPECT_EQ(demangled_anywhere(symbol), symbol);
  const std::string itself = "_RB_";
  EXPECT_EQ(demangled_anywhere(itself), itself);
  const std::string deep = "_RNvC1a" + std::string(5000, 'S') + "h";
  EXPECT_EQ(demangled_anywhere(deep), deep);
}

// A binder of 62^6 lifetimes in a path that is not printed: libiberty counts them all.
TEST(Demangle, BindersThatAreNotPrintedEnd) {
  EXPECT_EQ(demangled_anywhere("_RNvXIC1aFGzzzzzz_EuEuC1b1f"), "_RNvXIC1aFGzzzzzz_EuEuC1b1f");
  EXPECT_EQ(demangled_anywhere("_RNvXIC1aFG0_EuEuC1b1f"), "<() as b>::f");
}

// The same of C++, 2^40 types of 700 bytes; and what is nested too deep for any stack.
TEST(Demangle, CxxNamesThatUnfoldWithoutEndStayAsTheyAre) {
  static constexpr char digits[] = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ";
  std::string symbol = "_Z1f1aIiiE";  // S0_ is a<int, int>
  for (std::size_t i = 0; i < 40; ++i) {
    // Each type adds two substitutions: its template, and itself.
    const std::size_t last = 2 * i;
    const std::string reference = last < 36
                                      ? std::string{'S', digits[last], '_'}
                                      : std::string{'S', digits[last / 36], digits[last % 36], '_'};
    const std::string type = "1" + std::string(1, static_cast<char>('b' + i % 20));
    symbol += type + "I" + reference + reference + "E";
  }
  EXPECT_EQ(demangled_anywhere(symbol.substr(0, 20)).substr(0, 19), "f(a<int, int>, b<a<");
  EXPECT_EQ(demangled_anywhere(symbol), symbol);
  const std::string of_kilobytes = symbol.substr(0, 110);  // ten types
  EXPECT_EQ(demangled_anywhere(of_kilobytes), of_kilobytes);
  for (const std::size_t depth : {900, 100'000}) {
    const std::string deep = "_Z1f" + std::string(depth, 'P') + "i";
    const std::string shown = demangled_anywhere(deep);
    EXPECT_TRUE(shown == deep || shown == "f(int" + std::string(depth, '*') + ")") << depth;
  }
}

Result<std::string> name_in_worker(const std::string& symbol, FileDescriptor) {
  return demangled(symbol);
}

// The names of files are hostile: no process but a worker reads them.
TEST(Demangle, OnlyAWorkerDemangles) {
  for (const auto& [symbol, name] :
       {std::pair("_ZN1a1bEi", "a::b(int)"), {"_RNvC1a1f", "a::f"}, {"main", "main"}}) {
    EXPECT_EQ(demangled(symbol), symbol);
    EXPECT_EQ(sandbox::Parser::of_this_thread().ask<&name_in_worker>(symbol, -1).value(), name);
  }
}

TEST(Demangle, AnythingEndsAndIsBounded) {
  const auto names = known_names();
  std::mt19937 random(5);
  for (int round = 0; round < 50'000; ++round) {
    std::string symbol = names[random() % names.size()].first;
    for (std::size_t n = random() % 3 + 1; n > 0; --n) {
      const std::size_t at = 2 + random() % (symbol.size() - 2);
      switch (random() % 3) {
        case 0:
          symbol[at] = static_cast<char>("BCEINTLKSu_0159sRFD"[random() % 19]);
          break;
        case 1:
          symbol.erase(at, random() % 8);
          break;
        default:
          symbol.insert(at, symbol.substr(random() % symbol.size(), random() % 12));
      }
      if (symbol.size() < 4) break;
    }
    ASSERT_LE(demangled_anywhere(symbol).size(), limits::demangled_bytes + symbol.size());
  }
}

}  // namespace
}  // namespace vitrine::symbol
