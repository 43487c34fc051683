// --redact and what belongs to it: of which keys a hash is shown instead of the values.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "base/redaction.hpp"
#include "base/result.hpp"

namespace vitrine::cli {

class RedactOptions {
 public:
  /// `what`: of what this command shows the values: "labels", "attributes".
  void define(CLI::App& app, const std::string& what);

  /// With the secret of the file, else of VITRINE_REDACT_SECRET, else a random one. The variable is
  /// taken out of the environment, so that no program that is started has it. Errors: usage.
  Result<Redaction> take();

 private:
  std::vector<std::string> keys_;
  std::string secret_file_;
};

}  // namespace vitrine::cli
