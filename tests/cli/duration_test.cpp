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
  EXPECT_EQ(parse_duration("1.5s").value(), milliseconds(1500));
  EXPECT_EQ(parse_duration("0.25m").value(), milliseconds(15000));
}

TEST(Duration, CountsABareNumberAsSeconds) {
  EXPECT_EQ(parse_duration("5").value(), milliseconds(5000));
  EXPECT_EQ(parse_duration("0.5").value(), milliseconds(500));
}

TEST(Duration, RefusesWhatIsNotOneAndSaysHowToWriteIt) {
  for (const char* text : {"", "ms", "-1s", "1 s", "1d", "1e3s", "inf", "nan", "1.5.5s"}) {
    const auto duration = parse_duration(text);
    ASSERT_FALSE(duration.has_value()) << text;
    EXPECT_EQ(duration.error().code, ErrorCode::usage);
    EXPECT_NE(duration.error().message.find(text), std::string::npos);
  }
  EXPECT_FALSE(parse_duration("99999999999999999999s").has_value());
  EXPECT_EQ(parse_duration("9000000000h").error().message,
            "duration '9000000000h' is longer than a year");
}

TEST(Interval, IsADurationThatIsNotZero) {
  EXPECT_EQ(parse_interval("5").value(), parse_duration("5").value());
  EXPECT_EQ(parse_interval("250ms").value(), milliseconds(250));
  for (const char* text : {"0", "0s", "0.4ms"}) {
    const auto interval = parse_interval(text);
    ASSERT_FALSE(interval.has_value()) << text;
    EXPECT_EQ(interval.error().code, ErrorCode::usage);
    EXPECT_EQ(interval.error().remedy, "give at least 1ms, for example 500ms");
  }
}

}  // namespace
}  // namespace vitrine::cli
