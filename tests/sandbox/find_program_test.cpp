// find_program: as execvp(3) searches PATH.
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "sandbox/files.hpp"

namespace vitrine::sandbox {
namespace {

class FindProgram : public testing::Test {
 protected:
  void SetUp() override {
    std::string folder = "/tmp/find-program-XXXXXX";
    ASSERT_NE(::mkdtemp(folder.data()), nullptr);
    folder_ = folder;
    std::ofstream(folder_ / "one") << "#!/bin/sh\n";
    std::ofstream(folder_ / "text") << "no program\n";
    std::filesystem::create_directory(folder_ / "folder");
    ASSERT_EQ(::chmod((folder_ / "one").c_str(), 0755), 0);
    before_ = std::filesystem::current_path();
    std::filesystem::current_path(folder_);
    path_ = std::getenv("PATH");
  }
  void TearDown() override {
    ::setenv("PATH", path_.c_str(), 1);
    std::filesystem::current_path(before_);
    std::filesystem::remove_all(folder_);
  }
  static std::optional<std::string> find(const std::string& path, const char* name) {
    ::setenv("PATH", path.c_str(), 1);
    return find_program(name);
  }

  std::filesystem::path folder_, before_;
  std::string path_;
};

TEST_F(FindProgram, AnEmptyElementIsTheWorkingDirectory) {
  for (const char* path : {":/nowhere", "/nowhere::/none", "/nowhere:", ":"})
    EXPECT_EQ(find(path, "one"), "./one") << path;
  EXPECT_EQ(find("", "one"), std::nullopt) << "PATH has no element";
  EXPECT_EQ(find("/nowhere", "one"), std::nullopt);
}

TEST_F(FindProgram, WhatCannotBeExecutedIsPassedOver) {
  EXPECT_EQ(find(folder_.string(), "one"), (folder_ / "one").string());
  EXPECT_EQ(find(folder_.string(), "text"), std::nullopt);
  EXPECT_EQ(find(folder_.string(), "folder"), std::nullopt);
}

}  // namespace
}  // namespace vitrine::sandbox
