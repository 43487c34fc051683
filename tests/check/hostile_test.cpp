// Files that lie: whatever they say, a check ends, and soon.
#include <algorithm>
#include <random>

#include "check/publishers.hpp"

namespace vitrine::test {
namespace {

/// Checks bytes as every profile would. What it says does not matter: that it says something does.
void survive(const Folder& folder, const std::string& bytes) {
  const std::string path = folder.write("libcustomlabels.so", bytes);
  check::Options options;
  options.claimed = options.profiles;
  const auto report = check::check_file(path, options);
  if (report) {
    EXPECT_FALSE(report->findings.empty());
  } else {
    EXPECT_EQ(report.error().code, ErrorCode::malformed) << report.error().message;
  }
}

class Hostile : public testing::TestWithParam<const char*> {};

TEST_P(Hostile, TruncatedAnywhereIsSurvived) {
  const Folder folder;
  const std::string whole = content_of(GetParam());
  ASSERT_FALSE(whole.empty());
  for (std::size_t i = 0; i < 60; ++i) survive(folder, whole.substr(0, whole.size() * i / 60));
}

TEST_P(Hostile, MutatedAnywhereIsSurvived) {
  const Folder folder;
  const std::string whole = content_of(GetParam());
  std::mt19937 random(42);
  const auto below = [&](std::size_t limit) { return random() % limit; };
  for (int round = 0; round < 200; ++round) {
    std::string bytes = whole;
    // Headers and tables are at both ends; the middle is code, which nobody reads.
    for (int i = 0; i < 8; ++i) {
      const std::size_t near = below(std::min<std::size_t>(bytes.size(), 4096));
      const std::size_t at = i % 2 == 0 ? near : bytes.size() - 1 - near;
      bytes[at] = static_cast<char>(below(4) == 0 ? 0xff : below(256));
    }
    survive(folder, bytes);
  }
}

constexpr const char* names[] = {"library", "program", "probes"};
INSTANTIATE_TEST_SUITE_P(, Hostile, testing::Values(LABELS_LIBRARY, CHECK_SUBJECT, PROBE_SUBJECT),
                         [](const auto& one) { return std::string(names[one.index]); });

TEST(HostileFiles, ThatAreNoneAreErrors) {
  const Folder folder;
  for (const std::string& path : {folder / "nothing", std::string("/dev/zero"),
                                  folder.write("text", "#!/bin/sh\n"), folder.write("empty", "")}) {
    const auto report = check::check_file(path, {});
    ASSERT_FALSE(report) << path;
    EXPECT_NE(report.error().message, "");
  }
}

}  // namespace
}  // namespace vitrine::test
