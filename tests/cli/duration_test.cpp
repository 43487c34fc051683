#include <gtest/gtest.h>

#include "cli/shell/options.hpp"

namespace vitrine::cli {
namespace {

using std::chrono::milliseconds;

TEST(Duration, TakesAUnit) {
  EXPECT_EQ(parse_duration("500ms").value(), milliseconds(500));
  EXPECT_EQ(parse_duration("2s").value(), milliseconds(2000));
  EXPECT_EQ(parse_duration("1m").value(), milliseconds(60000));
  EXPECT_EQ(parse_duration("3h").value(), milliseconds(3 * 3600 * 1000));
  EXPECT_EQ(parse_duration("0s").value(), milliseconds(0));
}

TEST(Duration, RefusesWhatIsNotOneAndSaysHowToWriteIt) {
  for (const char* text : {"", "5", "ms", "-1s", "1.5s", "1 s", "1d", "99999999999999999999s"}) {
    const auto duration = parse_duration(text);
    ASSERT_FALSE(duration.has_value()) << text;
    EXPECT_EQ(duration.error().code, ErrorCode::usage);
    EXPECT_NE(duration.error().message.find(text), std::string::npos);
  }
  EXPECT_EQ(parse_duration("9000000000h").error().message,
            "duration '9000000000h' is longer than a year");
}

TEST(Interval, CountsABareNumberAsMilliseconds) {
  EXPECT_EQ(parse_interval("250").value(), milliseconds(250));
  EXPECT_EQ(parse_interval("2s").value(), milliseconds(2000));
  EXPECT_EQ(parse_interval("0").error().code, ErrorCode::usage);
}

}  // namespace
}  // namespace vitrine::cli
