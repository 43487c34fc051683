#include "cli/profile/outputs.hpp"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <ctime>

#include "cli/output/text.hpp"
#include "cli/shell/confinement.hpp"
#include "cli/shell/output_file.hpp"
#include "cli/shell/report.hpp"
#include "sandbox/files.hpp"

namespace vitrine::cli {
namespace {

std::string utc(std::uint64_t time_ns) {
  constexpr std::uint64_t second = 1'000'000'000;
  const auto seconds = static_cast<std::time_t>(time_ns / second);
  return fmt::format("{:%Y%m%dT%H%M%S}.{:03}Z", fmt::gmtime(seconds), time_ns % second / 1'000'000);
}

/// `each` gets every character, and those after a % as such.
template <class Each>
void walk(std::string_view pattern, Each each) {
  for (std::size_t i = 0; i < pattern.size(); ++i) {
    const bool marked = pattern[i] == '%' && i + 1 < pattern.size() &&
                        (pattern[i + 1] == 't' || pattern[i + 1] == '%');
    if (marked) ++i;
    each(pattern[i], marked);
  }
}

}  // namespace

bool has_time(std::string_view pattern) {
  bool found = false;
  walk(pattern, [&](char c, bool marked) { found = found || (marked && c == 't'); });
  return found;
}

std::string path_at(std::string_view pattern, std::uint64_t time_ns) {
  std::string path;
  walk(pattern, [&](char c, bool marked) {
    if (marked && c == 't')
      path += utc(time_ns);
    else
      path += c;
  });
  return path;
}

namespace {

constexpr std::string_view standard_output = "-";

bool is_binary(profile::Encoding encoding) {
  return encoding == profile::Encoding::pprof || encoding == profile::Encoding::otlp;
}

/// Of new files: what root may read of the machine is not for everybody.
sandbox::StagedFile::Access access_of_profiles() {
  using Access = sandbox::StagedFile::Access;
  return ::geteuid() == 0 ? Access::owner : Access::usual;
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
  return outputs;
}

Result<void> check_writable(const ProfileOutput& output) {
  if (output.path == standard_output) return {};
  return check_writable(output.path, access_of_profiles());
}

Result<void> write_profile(const profile::Profile& profile, const ProfileOutput& output,
                           const profile::EncodeOptions& options) {
  const auto bytes = TRY(profile::encode(profile, output.encoding, options));
  if (output.path != standard_output) {
    TRY(sandbox::write_whole(output.path, bytes, access_of_profiles()));
    return {};
  }
  if (std::fwrite(bytes.data(), 1, bytes.size(), stdout) != bytes.size() ||
      std::fflush(stdout) != 0)
    return fail(ErrorCode::failed, fmt::format("standard output: {}", std::strerror(errno)));
  return {};
}

}  // namespace vitrine::cli
