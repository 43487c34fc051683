// A collector as tests start it: receiver.py or receiver.js.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "support/child.hpp"

namespace vitrine::test {

inline std::string content_of(const std::filesystem::path& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

/// A folder of one test's own, removed with it.
class Folder {
 public:
  Folder() {
    std::string name = (std::filesystem::temp_directory_path() / "vitrine-send-XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr) throw std::runtime_error("mkdtemp");
    path_ = name;
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  ~Folder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  operator const std::filesystem::path&() const { return path_; }  // NOLINT: is one
  std::filesystem::path operator/(const std::string& name) const { return path_ / name; }
  std::string string() const { return path_.string(); }

 private:
  std::filesystem::path path_;
};

struct Request {
  std::string answer, path, body;
  std::string file;  ///< with the body, as long as its receiver lives
  nlohmann::json headers;
  double at = 0;  ///< s
};

class Receiver {
 public:
  /// `interpreter`: "python3" or "node"; or "grpc", which has answers of its own.
  Receiver(const std::string& interpreter, std::vector<std::string> arguments)
      : is_grpc_(interpreter == "grpc"),
        child_(Child::spawn(command(interpreter, folder_, std::move(arguments)))) {
    port_ = child_.read_line().value_or("");
    EXPECT_NE(port_, "") << child_.rest_of_errors();
  }

  std::string port() const { return port_; }
  std::string url(const std::string& path = "") const {
    return (is_grpc_ ? "otlp+grpc://127.0.0.1:" : "otlp+http://127.0.0.1:") + port_ + path;
  }

  /// The next request, in the order in which they came.
  Request next() {
    const auto line = child_.read_line();
    if (!line) {
      ADD_FAILURE() << "no request came: " << port_;
      return {};
    }
    const auto json = nlohmann::json::parse(*line);
    const std::string file = json["body"];
    return {json["answer"], json["path"], content_of(file), file, json["headers"], json["at"]};
  }
  std::vector<Request> next(std::size_t count) {
    std::vector<Request> requests;
    while (requests.size() < count) requests.push_back(next());
    return requests;
  }

 private:
  static std::vector<std::string> command(const std::string& interpreter, const Folder& folder,
                                          std::vector<std::string> arguments) {
#ifdef GRPC_RECEIVER
    if (interpreter == "grpc") {
      arguments.insert(arguments.begin(), {GRPC_RECEIVER, folder.string()});
      return arguments;
    }
#endif
    const std::string script =
        std::string(SEND_TESTS) + (interpreter == "node" ? "/receiver.js" : "/receiver.py");
    arguments.insert(arguments.begin(), {interpreter, script, folder.string()});
    return arguments;
  }

  Folder folder_;
  bool is_grpc_;
  Child child_;
  std::string port_;
};

}  // namespace vitrine::test
