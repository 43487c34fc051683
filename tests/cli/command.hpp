// The command as tests start it. VITRINE, its path, is a definition of each test's target.
#pragma once

#include <gmock/gmock.h>

#include <chrono>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "support/child.hpp"

namespace vitrine::test {

inline constexpr std::chrono::seconds patience{60};

template <class Holds>
void wait_until(Holds holds) {
  const auto end = std::chrono::steady_clock::now() + patience;
  while (!holds() && std::chrono::steady_clock::now() < end)
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  EXPECT_TRUE(holds());
}

/// A subject's answer to one line.
inline std::string tell(Child& child, const std::string& command) {
  child.write(command + "\n");
  return child.read_line(patience).value_or("no answer");
}

/// Runs `vitrine` to its end.
inline Outcome vitrine(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), VITRINE);
  return run(std::move(arguments));
}

/// Attached, as it says itself on standard error, when it returns.
inline Child start_trace(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), {"sh", "-c", "exec \"$@\" 2>&1", "sh", VITRINE, "trace"});
  Child tracer = Child::spawn(std::move(arguments));
  const auto line = tracer.read_line(patience);
  EXPECT_THAT(line.value_or("nothing"), testing::HasSubstr("vitrine: tracing"));
  return tracer;
}

}  // namespace vitrine::test
