// The options of vitrine trace that add fires up instead of showing them.
#pragma once

#include <CLI/CLI.hpp>
#include <optional>
#include <string>

#include "base/result.hpp"
#include "query/reduction.hpp"

namespace vitrine::cli {

class ReductionOptions {
 public:
  void define(CLI::App& app);

  /// What is asked for; nothing when fires are to be shown one by one. Errors: usage, which names
  /// the option.
  Result<std::optional<query::ReductionQuery>> take() const;

 private:
  bool count_ = false;
  std::string histogram_;
  std::string sum_;
  std::string latency_;
  std::string match_;
  std::string by_;
};

}  // namespace vitrine::cli
