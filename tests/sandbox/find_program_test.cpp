// find_program: as execvp(3) searches PATH.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdlib>
#include <filesystem>
#include <string>

#include "sandbox/files.hpp"
#include "sandbox/place.hpp"

namespace vitrine::sandbox {
namespace {

class FindProgram : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(::chmod(place_.write("one", "#!/bin/sh\n").c_str(), 0755), 0);
    place_.write("text", "no program\n");
    std::filesystem::create_directory(place_ / "folder");
    before_ = std::filesystem::current_path();
    std::filesystem::current_path(place_.path());
    path_ = std::getenv("PATH");
  }
  void TearDown() override {
    ::setenv("PATH", path_.c_str(), 1);
    std::filesystem::current_path(before_);
  }
  static std::optional<std::string> find(const std::string& path, const char* name) {
    ::setenv("PATH", path.c_str(), 1);
    return find_program(name);
  }

  Place place_;
  std::filesystem::path before_;
  std::string path_;
};

TEST_F(FindProgram, AnEmptyElementIsTheWorkingDirectory) {
  for (const char* path : {":/nowhere", "/nowhere::/none", "/nowhere:", ":"})
    EXPECT_EQ(find(path, "one"), "./one") << path;
  EXPECT_EQ(find("", "one"), std::nullopt) << "PATH has no element";
  EXPECT_EQ(find("/nowhere", "one"), std::nullopt);
}

TEST_F(FindProgram, WhatCannotBeExecutedIsPassedOver) {
  EXPECT_EQ(find(place_.path(), "one"), place_ / "one");
  EXPECT_EQ(find(place_.path(), "text"), std::nullopt);
  EXPECT_EQ(find(place_.path(), "folder"), std::nullopt);
}

}  // namespace
}  // namespace vitrine::sandbox
