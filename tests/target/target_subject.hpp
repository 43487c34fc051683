// The process of subject.c, and how to command it.
#pragma once

#include <string>

#include "support/child.hpp"
#include "target/process.hpp"

namespace vitrine::target {

struct Subject {
  explicit Subject(test::ChildOptions options = {})
      : child(test::Child::spawn({TARGET_SUBJECT}, std::move(options))),
        greeting(child.read_line().value_or("")) {}

  std::string ask(const std::string& command) {
    child.write(command + "\n");
    return child.read_line().value_or("");
  }

  test::Child child;
  std::string greeting;  ///< "PID TP"
};

}  // namespace vitrine::target
