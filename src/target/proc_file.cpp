#include "target/proc_file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstring>
#include <vector>

namespace vitrine::target {
namespace {

std::vector<std::string_view> split(std::string_view text) {
  std::vector<std::string_view> fields;
  while (!text.empty()) {
    const std::size_t end = text.find_first_of(" \n");
    if (end != 0) fields.push_back(text.substr(0, end));
    if (end == std::string_view::npos) break;
    text.remove_prefix(end + 1);
  }
  return fields;
}

bool number(std::string_view text, std::uint64_t& into) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), into);
  return error == std::errc() && end == text.data() + text.size();
}

}  // namespace

Result<std::string> read_file_at(int dir, const std::string& path, std::size_t limit) {
  auto fd = TRY(open_at(dir, path, O_RDONLY));
  std::string content;
  while (content.size() < limit) {
    const std::size_t have = content.size();
    content.resize(std::min(limit, have + 4096));
    const ssize_t n = ::read(fd.get(), content.data() + have, content.size() - have);
    const int error = errno;
    content.resize(have + static_cast<std::size_t>(n < 0 ? 0 : n));
    if (n < 0 && error == EINTR) continue;
    if (n < 0)
      return fail(file::code_of(error),
                  fmt::format("cannot read {}: {}", path, std::strerror(error)));
    if (n == 0) break;
  }
  return content;
}

Result<Stat> parse_stat(std::string_view line) {
  const auto broken = [&] {
    return fail(ErrorCode::malformed, fmt::format("invalid stat line: \"{}\"", line));
  };
  const std::size_t open = line.find('(');
  const std::size_t close = line.rfind(')');
  if (open == std::string_view::npos || close == std::string_view::npos || close < open)
    return broken();
  Stat stat;
  stat.comm = line.substr(open + 1, close - open - 1);
  // proc(5) counts fields from 1 and the state, the first after the comm, is the third.
  const auto fields = split(line.substr(close + 1));
  const auto field = [&](std::size_t n) {
    return n - 3 < fields.size() ? fields[n - 3] : std::string_view();
  };
  if (field(3).size() != 1 || !number(field(9), stat.flags) || !number(field(22), stat.start_time))
    return broken();
  stat.state = field(3)[0];
  number(field(26), stat.code_start);
  number(field(27), stat.code_end);
  number(field(28), stat.stack_start);
  return stat;
}

std::optional<std::string_view> status_field(std::string_view status, std::string_view name) {
  while (!status.empty()) {
    const std::size_t end = status.find('\n');
    std::string_view line = status.substr(0, end);
    if (line.size() > name.size() && line.starts_with(name) && line[name.size()] == ':') {
      line.remove_prefix(name.size() + 1);
      line.remove_prefix(std::min(line.find_first_not_of(" \t"), line.size()));
      return line;
    }
    if (end == std::string_view::npos) break;
    status.remove_prefix(end + 1);
  }
  return std::nullopt;
}

}  // namespace vitrine::target
