// Publishers that tests compile for themselves, and what check says of them.
#pragma once

#include <elf.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <vector>

#include "check/check.hpp"
#include "support/child.hpp"

namespace vitrine::test {

using Words = std::vector<std::string>;

/// A folder of files that goes with the test.
class Folder {
 public:
  Folder() {
    std::string pattern = "/tmp/vitrine-check-XXXXXX";
    path_ = ::mkdtemp(pattern.data());
  }
  ~Folder() { std::filesystem::remove_all(path_); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;

  [[nodiscard]] std::string operator/(const std::string& name) const { return path_ + '/' + name; }

  std::string write(const std::string& name, const std::string& content) const {
    std::ofstream(*this / name, std::ios::binary) << content;
    return *this / name;
  }

  /// Runs a compiler on `source`, a C program or, with an extension of .S, assembly. Returns the
  /// path of what it made.
  std::string make(const std::string& name, const std::string& source, const Words& options,
                   const std::string& compiler = "gcc", const char* extension = ".c") const {
    Words command{compiler, "-O1", "-o", *this / name, write(name + extension, source)};
    command.insert(command.end(), options.begin(), options.end());
    const Outcome outcome = run(command);
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    return *this / name;
  }

 private:
  std::string path_;
};

inline std::string content_of(const std::string& path) {
  std::ifstream stream(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), {}};
}

/// What a report says of `rule`: "fails: …"; "not asked" when it is not in it.
inline std::string said(const check::Report& report, std::string_view rule) {
  for (const check::Finding& one : report.findings)
    if (one.rule->id == rule)
      return std::string(check::name(one.outcome.verdict)) + ": " + one.outcome.seen;
  return "not asked";
}

/// The ids of what fails, in the report's order, each once.
inline std::vector<std::string> failing(const check::Report& report, bool advice = true) {
  std::vector<std::string> ids;
  for (const check::Finding& one : report.findings)
    if (one.fails() && (advice || one.rule->weight == check::Weight::required) &&
        std::find(ids.begin(), ids.end(), one.rule->id) == ids.end())
      ids.emplace_back(one.rule->id);
  return ids;
}

inline check::Report check_file(const std::string& path, check::Profiles claimed = {}) {
  check::Options options;
  options.claimed = claimed;
  if (!claimed.empty()) options.profiles = claimed;
  auto report = check::check_file(path, options);
  EXPECT_TRUE(report) << report.error().message;
  return report ? std::move(*report) : check::Report{};
}

}  // namespace vitrine::test
