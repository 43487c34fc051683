#include "symbol/jit_symbols.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "base/limits.hpp"
#include "target/mapped_files.hpp"

namespace vitrine::symbol {
namespace {

constexpr std::size_t max_line = 64 * 1024;  // bytes

/// A hexadecimal number and the blank behind it, off the front of `line`.
std::optional<std::uint64_t> take_number(std::string_view& line) {
  if (line.starts_with("0x") || line.starts_with("0X")) line.remove_prefix(2);
  std::uint64_t value = 0;
  const auto [rest, error] = std::from_chars(line.data(), line.data() + line.size(), value, 16);
  const auto digits = static_cast<std::size_t>(rest - line.data());
  if (error != std::errc() || digits >= line.size() || line[digits] != ' ') return std::nullopt;
  line.remove_prefix(digits + 1);
  return value;
}

}  // namespace

void PerfMap::add_line(std::string_view line) {
  const auto start = take_number(line);
  const auto size = start ? take_number(line) : std::nullopt;
  if (!size || line.empty()) return;
  line = line.substr(0, limits::name_bytes);
  if (entries_.size() >= limits::perf_map_symbols ||
      names_.size() + line.size() > limits::perf_map_bytes) {
    full_ = true;
    return;
  }
  entries_.push_back({*start, *size, static_cast<std::uint32_t>(names_.size()),
                      static_cast<std::uint32_t>(line.size())});
  names_ += line;
}

void PerfMap::add(std::string_view text) {
  for (std::size_t end = 0; (end = text.find('\n')) != text.npos;) {
    add_line(text.substr(0, end));
    text.remove_prefix(end + 1);
    taken_ += end + 1;
  }
  if (text.size() > max_line) taken_ += text.size();  // this will not become one
  functions_.reset();
}

std::optional<PerfMap::Function> PerfMap::find(Address address) const {
  if (!functions_) {
    functions_.emplace();
    for (std::size_t i = 0; i < entries_.size(); ++i)
      functions_->add(entries_[i].start, entries_[i].start + entries_[i].size,
                      static_cast<std::uint32_t>(i), i);
    functions_->build();
  }
  const auto index = functions_->find(address);
  if (!index) return std::nullopt;
  const Entry& entry = entries_[*index];
  return Function{std::string_view(names_).substr(entry.name, entry.name_size), entry.start};
}

std::string JitSymbols::refresh(int root, pid_t inner_pid, uid_t owner) {
  if (inner_pid == 0 || map_.full()) return {};
  auto part = target::read_perf_map(root, inner_pid, owner, map_.taken());
  if (!part && part.error().code == ErrorCode::not_found) return {};
  if (!part) return fmt::format("/tmp/perf-{}.map: not used: {}", inner_pid, part.error().message);
  if (part->anew) map_ = {};
  if (!part->text.empty()) map_.add(part->text);  // else its index stays
  if (!map_.full()) return {};
  return fmt::format("/tmp/perf-{}.map: too long: only its first part is used", inner_pid);
}

}  // namespace vitrine::symbol
