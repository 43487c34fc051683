#include <gtest/gtest.h>

#include "usdt/definition.hpp"

namespace vitrine::usdt {
namespace {

Probe probe(const std::string& identifier) {
  Probe out;
  out.identifier = identifier;
  out.name = probe_name(identifier);
  return out;
}

TEST(Names, TwoUnderscoresFromTheLeftAreAHyphen) {
  EXPECT_EQ(probe_name("a__b"), "a-b");
  EXPECT_EQ(probe_name("a___b"), "a-_b");
  EXPECT_EQ(probe_name("a____b"), "a--b");
  EXPECT_EQ(probe_name("a_b_"), "a_b_");
  EXPECT_EQ(probe_name("__"), "-");
}

TEST(Names, SymbolsSpellTheProbeAsTheDefinitionDoes) {
  Provider provider;
  provider.name = "foo__bar_";
  for (const char* identifier : {"start", "request__start", "a___b", "a____b", "_x", "x_", "__"}) {
    EXPECT_EQ(probe_symbol(provider, probe(identifier)),
              std::string("__dtrace_foo__bar____") + identifier);
    EXPECT_EQ(enabled_symbol(provider, probe(identifier)),
              std::string("__dtraceenabled_foo__bar____") + identifier);
    EXPECT_EQ(semaphore_symbol(provider, probe(identifier)),
              std::string("__dtracesemaphore_foo__bar____") + identifier);
  }
}

TEST(Names, MacrosAreUpperCaseWithOneUnderscoreForAHyphen) {
  Provider provider;
  provider.name = "mySql";
  EXPECT_EQ(macro_name(provider, probe("query__cache-hit__2")), "MYSQL_QUERY_CACHE_HIT_2");
  EXPECT_EQ(macro_name(provider, probe("a___b")), "MYSQL_A__B");
}

}  // namespace
}  // namespace vitrine::usdt
