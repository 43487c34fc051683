// A directory of a test, gone with it.
#pragma once

#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <string>

namespace vitrine::sandbox {

class Place {
 public:
  Place() {
    std::string path = std::filesystem::temp_directory_path() / "vitrine_sandbox.XXXXXX";
    path_ = ::mkdtemp(path.data());
  }
  Place(const Place&) = delete;
  Place& operator=(const Place&) = delete;
  ~Place() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }

  std::string operator/(const std::string& name) const { return path_ / name; }
  [[nodiscard]] std::string path() const { return path_; }

  /// Makes a file; returns its path.
  std::string write(const std::string& name, const std::string& content) const {
    std::ofstream(path_ / name) << content;
    return path_ / name;
  }

 private:
  std::filesystem::path path_;
};

}  // namespace vitrine::sandbox
