#include "agent/files.hpp"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <ctime>

#include "base/standard_output.hpp"

namespace vitrine::agent {
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

sandbox::StagedFile::Access access_of_profiles() {
  using Access = sandbox::StagedFile::Access;
  return ::geteuid() == 0 ? Access::owner : Access::usual;
}

Result<void> write_profile(const profile::Profile& profile, const ProfileOutput& output,
                           const profile::EncodeOptions& options) {
  const sandbox::Content content = [&](const profile::Sink& sink) {
    return profile::encode(profile, output.encoding, options, sink);
  };
  if (output.path != standard_output)
    return sandbox::write_pieces(output.path, content, access_of_profiles());
  return content([](std::string_view piece) -> Result<void> {
    StandardOutput& out = StandardOutput::instance();
    if (out.write(piece) && out.flush()) return {};
    return fail(out.error() == EPIPE ? ErrorCode::interrupted : ErrorCode::failed,
                fmt::format("standard output: {}", out.problem()));
  });
}

}  // namespace vitrine::agent
