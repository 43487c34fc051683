#include "cli/profile_outputs.hpp"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>

#include "usdt/output_file.hpp"
#include "usdt/staged_file.hpp"

namespace vitrine::cli {
namespace {

constexpr const char* formats_remedy = "--format takes pprof, otlp, folded, speedscope, json, html";
constexpr std::string_view standard_output = "-";

bool is_binary(profile::Encoding encoding) {
  return encoding == profile::Encoding::pprof || encoding == profile::Encoding::otlp;
}

std::string directory_of(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  return slash == std::string::npos ? "." : slash == 0 ? "/" : path.substr(0, slash);
}

}  // namespace

Result<std::vector<ProfileOutput>> profile_outputs(const std::vector<std::string>& paths,
                                                   const std::vector<std::string>& formats) {
  std::vector<profile::Encoding> encodings;
  for (const std::string& format : formats) {
    const auto encoding = profile::encoding_named(format);
    if (!encoding)
      return fail(ErrorCode::usage, fmt::format("invalid format '{}'", format), formats_remedy);
    encodings.push_back(*encoding);
  }
  std::vector<ProfileOutput> outputs;
  for (std::size_t i = 0; i < std::max(paths.size(), encodings.size()); ++i) {
    if (i >= paths.size() && !paths.empty())
      return fail(ErrorCode::usage, "more formats than outputs",
                  "the first --format belongs to the first -o, and so on");
    const std::string path = i < paths.size() ? paths[i] : std::string(standard_output);
    const auto encoding =
        i < encodings.size() ? std::optional(encodings[i]) : profile::encoding_of_file(path);
    if (!encoding)
      return fail(ErrorCode::usage, fmt::format("unknown format of {}", path),
                  "end its name in .pb.gz, .otlp, .folded, .speedscope.json, .ndjson or .html, or "
                  "add --format");
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
  struct stat status {};
  const bool exists = ::stat(output.path.c_str(), &status) == 0;
  Result<void> tried;
  if (output.path.ends_with('/')) {
    tried = usdt::file_error(output.path, "written", EISDIR);
  } else if (exists && !S_ISREG(status.st_mode) && !S_ISDIR(status.st_mode)) {  // a pipe, a device
    if (::access(output.path.c_str(), W_OK) != 0)
      tried = usdt::file_error(output.path, "written", errno);
  } else if (auto staged = usdt::StagedFile::write(output.path, {}); !staged) {
    // Tried as it will be done: some directories (/proc) say that they can be written to, and cannot.
    tried = tl::unexpected(std::move(staged.error()));
  }
  if (!tried) tried.error().remedy = "give -o a file in a writable directory";
  return tried;
}

bool is_ours(const std::string& path) {
  if (path == standard_output) return true;
  struct stat status {};
  if (::stat(path.c_str(), &status) == 0 &&
      (status.st_uid != ::geteuid() || status.st_gid != ::getegid()))
    return false;
  return ::stat(directory_of(path).c_str(), &status) == 0 && status.st_uid == ::geteuid() &&
         (status.st_mode & S_IRWXU) == S_IRWXU;
}

Result<void> write_profile(const profile::Profile& profile, const ProfileOutput& output,
                           const profile::EncodeOptions& options) {
  const auto bytes = TRY(profile::encode(profile, output.encoding, options));
  if (output.path != standard_output) {
    TRY(usdt::write_whole(output.path, bytes));
    return {};
  }
  if (std::fwrite(bytes.data(), 1, bytes.size(), stdout) != bytes.size() ||
      std::fflush(stdout) != 0)
    return fail(ErrorCode::failed, fmt::format("standard output: {}", std::strerror(errno)));
  return {};
}

}  // namespace vitrine::cli
