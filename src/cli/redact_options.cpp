#include "cli/redact_options.hpp"

#include <fmt/format.h>
#include <sys/random.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>

#include "cli/report.hpp"

namespace vitrine::cli {
namespace {

constexpr const char* variable = "VITRINE_REDACT_SECRET";
constexpr std::size_t least_secret = 16;   // shorter ones can be tried, all of them
constexpr std::size_t most_secret = 4096;  // a larger file is some other file
constexpr const char* how_to = "create one: head -c 32 /dev/urandom | base64 > secret";

/// Keys of profiles and conditions that are no labels.
constexpr std::array facts{"pid", "tid", "cpu", "comm", "thread", "process", "probe"};

Result<std::string> read(const std::string& path) {
  const std::unique_ptr<FILE, int (*)(FILE*)> file(std::fopen(path.c_str(), "re"), &std::fclose);
  std::string text(most_secret + 1, '\0');
  const std::size_t got = file ? std::fread(text.data(), 1, text.size(), file.get()) : 0;
  if (!file || std::ferror(file.get()) != 0)
    return fail(ErrorCode::usage,
                fmt::format("cannot read the secret {}: {}", path, std::strerror(errno)), how_to);
  text.resize(got);
  return text;
}

Result<std::string> checked(std::string secret, const std::string& source) {
  while (!secret.empty() && (secret.back() == '\n' || secret.back() == '\r')) secret.pop_back();
  if (secret.size() < least_secret || secret.size() > most_secret)
    return fail(
        ErrorCode::usage,
        fmt::format("the secret in {} has {} bytes; it must have {} to {}", source,
                    secret.size() > most_secret ? "too many" : std::to_string(secret.size()),
                    least_secret, most_secret),
        how_to);
  return secret;
}

Result<std::string> random_secret() {
  std::string secret(32, '\0');
  if (::getrandom(secret.data(), secret.size(), 0) != static_cast<ssize_t>(secret.size()))
    return fail(ErrorCode::failed, fmt::format("no random bytes: {}", std::strerror(errno)));
  return secret;
}

}  // namespace

void RedactOptions::define(CLI::App& app, const std::string& what) {
  auto* redact =
      app.add_option("--redact", keys_,
                     fmt::format("Show a keyed hash instead of the values of these {}; wildcards "
                                 "allowed, may be repeated",
                                 what))
          ->delimiter(',')
          ->allow_extra_args(false)
          ->option_text("KEY,...");
  app.add_option(
         "--redact-secret", secret_file_,
         fmt::format(
             "Hash with the secret in this file, so that runs can be compared (random; or {})",
             variable))
      ->needs(redact)
      ->option_text("FILE");
}

Result<Redaction> RedactOptions::take() {
  const char* const given = std::getenv(variable);
  const std::string inherited = given == nullptr ? "" : given;
  ::unsetenv(variable);
  if (keys_.empty()) return Redaction();
  if (std::ranges::count(keys_, "") != 0)
    return fail(ErrorCode::usage, "--redact has an empty KEY", "'*' is every key");
  for (const std::string& key : keys_)
    if (std::ranges::count(facts, key) != 0)
      note(
          fmt::format("--redact {} hides a label of that name; process and thread data from the "
                      "kernel is shown",
                      key));
  auto secret = TRY(!secret_file_.empty() ? read(secret_file_).and_then([&](std::string text) {
    return checked(std::move(text), secret_file_);
  })
                    : !inherited.empty()  ? checked(inherited, variable)
                                          : random_secret());
  return Redaction(keys_, std::move(secret));
}

}  // namespace vitrine::cli
