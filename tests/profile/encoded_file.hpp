// EncodedFile: a profile on disk in one encoding, for other programs to read.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>

#include "profile/encode.hpp"

namespace vitrine::test {

class EncodedFile {
 public:
  EncodedFile(const profile::Profile& profile, profile::Encoding encoding,
              const profile::EncodeOptions& options = {}) {
    const auto bytes = profile::encode(profile, encoding, options);
    EXPECT_TRUE(bytes) << bytes.error().message;
    if (bytes) write(*bytes);
  }
  explicit EncodedFile(const std::string& bytes) { write(bytes); }
  EncodedFile(const EncodedFile&) = delete;
  EncodedFile& operator=(const EncodedFile&) = delete;
  ~EncodedFile() { std::filesystem::remove(path_); }

  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  void write(const std::string& bytes) {
    static int count = 0;
    path_ = testing::TempDir() + "vitrine-profile-" + std::to_string(getpid()) + '-' +
            std::to_string(count++);
    std::ofstream(path_, std::ios::binary) << bytes;
  }
  std::string path_;
};

}  // namespace vitrine::test
