// vitrine trace of tests/observe/trace_subject.c. TRACE_SUBJECT, its path, is a definition of each test's target.
#pragma once

#include "cli/command.hpp"

namespace vitrine::test {

inline Child start_subject() {
  Child child = Child::spawn({TRACE_SUBJECT});
  EXPECT_THAT(child.read_line().value_or(""), testing::HasSubstr("ready"));
  return child;
}

inline std::string pid_of(const Child& child) {
  return std::to_string(child.pid());
}

}  // namespace vitrine::test
