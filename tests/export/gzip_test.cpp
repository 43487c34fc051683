// gzip, and what is not.
#include "base/gzip.hpp"

#include <gtest/gtest.h>

#include <random>

#include "support/child.hpp"

namespace vitrine {
namespace {

constexpr std::size_t most = 1U << 20;

std::string noise(std::size_t bytes) {
  std::mt19937 chance(7);
  std::string out(bytes, '\0');
  for (char& byte : out) byte = static_cast<char>(chance());
  return out;
}

TEST(Gzip, GivesBackWhatItWasGiven) {
  for (const std::string& text :
       {std::string(), std::string("a"), std::string(most, 'x'), noise(most), noise(262'144)})
    EXPECT_EQ(gunzip(gzip(text).value(), most), text);
}

TEST(Gzip, GzipReadsIt) {
  test::Child peer = test::Child::spawn({"gzip", "-dc"});
  peer.write(gzip("some text\n").value());
  peer.close_stdin();
  EXPECT_EQ(peer.rest_of_output(), "some text\n");
}

TEST(Gzip, HoldsNoMoreThanItMay) {
  constexpr std::size_t bytes = 64U << 20;
  const std::string bomb = gzip(std::string(bytes, '\0')).value();
  ASSERT_LT(bomb.size(), bytes / 100);
  EXPECT_EQ(gunzip(bomb, most).error().code, ErrorCode::limit);
}

TEST(Gzip, EveryPieceOfItIsRefused) {
  const std::string whole = gzip("a text that says something").value();
  for (std::size_t bytes = 0; bytes < whole.size(); ++bytes)
    EXPECT_EQ(gunzip(whole.substr(0, bytes), most).error().code, ErrorCode::malformed) << bytes;
  EXPECT_EQ(gunzip(whole + "x", most).error().code, ErrorCode::malformed);
}

TEST(Gzip, AChangedByteIsSeenOrChangesNothing) {
  const std::string text = "a text that says something", whole = gzip(text).value();
  for (std::size_t at = 10; at < whole.size();
       ++at) {  // behind the header: time and system are free
    std::string changed = whole;
    changed[at] = static_cast<char>(changed[at] ^ 0x20);
    const auto got =
        gunzip(changed, most);  // bits between the end of the data and its sum are free
    EXPECT_TRUE(!got || *got == text) << at;
  }
}

}  // namespace
}  // namespace vitrine
