#include "cli/profile/outputs.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <string_view>
#include <system_error>

#include "cli/shell/output_file.hpp"

namespace vitrine::cli {
namespace {

using agent::standard_output;

bool is_binary(profile::Encoding encoding) {
  return encoding == profile::Encoding::pprof || encoding == profile::Encoding::otlp;
}

/// By which spellings of one name are equal, and names through links. Devices and pipes take one profile after the
/// other: empty.
std::string name_of_file(const std::string& path) {
  if (path == standard_output) return {};
  std::error_code error;
  const auto status = std::filesystem::status(path, error);
  if (std::filesystem::exists(status) && !std::filesystem::is_regular_file(status)) return {};
  const auto whole =
      std::filesystem::weakly_canonical(std::filesystem::absolute(path, error), error);
  return error ? path : whole.string();
}

/// The last that is written would replace the others.
Result<void> check_distinct(const std::vector<ProfileOutput>& outputs) {
  std::vector<std::string> names;
  for (const ProfileOutput& output : outputs) {
    std::string name = name_of_file(output.path);
    if (name.empty()) continue;
    const auto same = std::ranges::find(names, name);
    if (same != names.end())
      return fail(ErrorCode::usage, fmt::format("{}: two outputs are one file", output.path),
                  "give each -o a file of its own");
    names.push_back(std::move(name));
  }
  return {};
}

}  // namespace

Result<std::vector<ProfileOutput>> profile_outputs(
    const std::vector<std::string>& paths, const std::vector<profile::Encoding>& encodings) {
  std::vector<ProfileOutput> outputs;
  for (std::size_t i = 0; i < std::max(paths.size(), encodings.size()); ++i) {
    if (i >= paths.size() && !paths.empty())
      return fail(ErrorCode::usage, "more formats than outputs",
                  "the first --format belongs to the first -o, and so on");
    const std::string path = i < paths.size() ? paths[i] : std::string(standard_output);
    const auto encoding =
        i < encodings.size() ? std::optional(encodings[i]) : profile::encoding_of_file(path);
    if (!encoding)
      return fail(
          ErrorCode::usage, fmt::format("unknown format of {}", path),
          "end its name in .pb.gz, .otlp, .folded, .speedscope.json, .ndjson, .flat.ndjson or "
          ".html, or add --format");
    outputs.push_back({path, *encoding});
  }
  const auto is_standard = [](const ProfileOutput& output) {
    return output.path == standard_output;
  };
  const auto standard = std::count_if(outputs.begin(), outputs.end(), is_standard);
  if (standard > 1)
    return fail(ErrorCode::usage, "only one format can go to standard output",
                "give the other formats a file: -o FILE");
  if (standard == 1 && ::isatty(STDOUT_FILENO) == 1 &&
      is_binary(std::find_if(outputs.begin(), outputs.end(), is_standard)->encoding))
    return fail(ErrorCode::usage, "the format is binary and standard output is a terminal",
                "redirect standard output, or give a file: -o FILE");
  TRY(check_distinct(outputs));
  return outputs;
}

Result<void> check_repeated(const std::vector<ProfileOutput>& outputs) {
  // Of lines, one profile may follow another.
  const auto is_lines = [](profile::Encoding encoding) {
    return encoding == profile::Encoding::json || encoding == profile::Encoding::json_flat;
  };
  for (const ProfileOutput& output : outputs)
    if (output.path == standard_output ? !is_lines(output.encoding) : !has_time(output.path))
      return fail(ErrorCode::usage,
                  fmt::format("{}: each profile would replace the previous one", output.path),
                  "add the time to its name by %t: -o 'profile-%t.pb.gz'");
  return {};
}

Result<void> check_writable(const ProfileOutput& output) {
  if (output.path == standard_output) return {};
  return check_writable(output.path, agent::access_of_profiles());
}

}  // namespace vitrine::cli
