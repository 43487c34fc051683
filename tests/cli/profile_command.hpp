// `vitrine profile` on subjects of its tests (profile_subject.cpp), and what it printed.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "cli/command.hpp"
#include "support/child.hpp"

namespace vitrine::test {

using nlohmann::json;

/// What `--format json` printed.
struct Seen {
  std::vector<json> samples;
  json summary;

  [[nodiscard]] std::vector<json> where(const std::function<bool(const json&)>& holds) const {
    std::vector<json> found;
    std::copy_if(samples.begin(), samples.end(), std::back_inserter(found), holds);
    return found;
  }
  /// Names of all functions on the stacks of `some`.
  static std::vector<std::string> functions(const std::vector<json>& some) {
    std::vector<std::string> names;
    for (const json& sample : some)
      for (const json& frame : sample["frames"])
        if (frame["function"].is_string()) names.push_back(frame["function"]);
    return names;
  }
};

inline Seen parse(const std::string& text) {
  Seen seen;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    json object = json::parse(line);
    if (object.contains("summary"))
      seen.summary = object["summary"];
    else
      seen.samples.push_back(std::move(object));
  }
  return seen;
}

inline std::string label(const json& sample, const std::string& key) {
  for (const json& pair : sample["labels"])
    if (pair["key"] == key) return pair["value"];
  return "";
}

inline bool has_frame(const json& sample, const std::string& name) {
  for (const json& frame : sample["frames"])
    if (frame["function"].is_string() &&
        frame["function"].get<std::string>().find(name) != std::string::npos)
      return true;
  return false;
}

inline auto of_tenant(std::string tenant) {
  return [tenant = std::move(tenant)](const json& sample) {
    return label(sample, "tenant") == tenant;
  };
}

inline Child start_subject(std::vector<std::string> commands,
                           std::string program = PROFILE_SUBJECT) {
  commands.insert(commands.begin(), std::move(program));
  Child child = Child::spawn(std::move(commands));
  EXPECT_EQ(child.read_line(patience).value_or("nothing"), "ready");
  return child;
}

/// On a machine with much else to do a second has few ticks of ours.
inline const std::vector<std::string> fast{"--freq", "999", "--duration", "1500ms"};

inline Outcome profile(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), "profile");
  return vitrine(std::move(arguments));
}

inline Seen profile_json(std::vector<std::string> arguments) {
  if (std::find(arguments.begin(), arguments.end(), "--duration") == arguments.end())
    arguments.insert(arguments.begin(), fast.begin(), fast.end());
  arguments.insert(arguments.begin(), {"--format", "json"});
  const Outcome outcome = profile(std::move(arguments));
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  return parse(outcome.out);
}

class Directory {
 public:
  Directory() {
    std::string name = std::filesystem::temp_directory_path() / "vitrine_profile_XXXXXX";
    EXPECT_NE(::mkdtemp(name.data()), nullptr);
    path_ = name;
  }
  ~Directory() { std::filesystem::remove_all(path_); }
  std::string at(const std::string& name) const { return path_ / name; }
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

inline std::string content(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace vitrine::test
