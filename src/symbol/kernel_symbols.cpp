#include "symbol/kernel_symbols.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdint>
#include <cstring>
#include <tuple>

#include "base/limits.hpp"

namespace vitrine::symbol {
namespace {

/// Longest function believed in: what lies further behind the last symbol has no name.
constexpr std::uint64_t longest_function = 1U << 20;
constexpr std::size_t max_modules = 1U << 15;
constexpr std::size_t piece_bytes = 64 * 1024;

bool is_code(char type) {
  return type == 't' || type == 'T' || type == 'w' || type == 'W';
}

}  // namespace

// A line: address (hexadecimal), type, name, and for modules a tab and "[module]".
Result<void> KernelSymbols::add_line(std::string_view line) {
  Entry entry;
  const auto [rest, error] =
      std::from_chars(line.data(), line.data() + line.size(), entry.start, 16);
  const auto digits = static_cast<std::size_t>(rest - line.data());
  if (error != std::errc() || line.size() <= digits + 3 || line[digits] != ' ' ||
      line[digits + 2] != ' ' || !is_code(line[digits + 1]))
    return {};
  const std::size_t at = digits + 3;
  const std::size_t tab = std::min(line.find('\t', at), line.size());
  const std::string_view name = line.substr(at, std::min<std::size_t>(tab - at, UINT16_MAX));
  hidden_ = hidden_ || entry.start == 0;
  if (entry.start == 0) return {};
  if (entries_.size() >= limits::kernel_symbols ||
      names_.size() + name.size() > limits::kernel_symbol_bytes)
    return fail(ErrorCode::limit,
                fmt::format("more than {} kernel symbols", limits::kernel_symbols));
  std::size_t its_module = 0;
  if (tab + 3 < line.size() && line[tab + 1] == '[' && line.back() == ']') {
    const std::string_view module = line.substr(tab + 2, line.size() - tab - 3);
    // The symbols of a module follow one another.
    if (modules_.back() != module && modules_.size() < max_modules) modules_.emplace_back(module);
    if (modules_.back() == module) its_module = modules_.size() - 1;
  }
  entry.kind = static_cast<std::uint16_t>(2 * its_module + (line[digits + 1] == 'T' ? 1 : 0));
  entry.name = static_cast<std::uint32_t>(names_.size());
  entry.name_size = static_cast<std::uint16_t>(name.size());
  names_ += name;
  entries_.push_back(entry);
  return {};
}

Result<void> KernelSymbols::finish() {
  if (entries_.empty() && hidden_)
    return fail(ErrorCode::not_permitted, "the kernel hides the addresses of its functions",
                "run as root or with CAP_SYSLOG; if kernel.kptr_restrict is 2, also: sysctl "
                "kernel.kptr_restrict=1");
  if (entries_.empty()) return fail(ErrorCode::malformed, "/proc/kallsyms has no functions");
  // Of several names for one address a global one is taken, else the first.
  std::sort(entries_.begin(), entries_.end(), [](const Entry& a, const Entry& b) {
    return std::tuple(a.start, !a.is_global(), a.name) <
           std::tuple(b.start, !b.is_global(), b.name);
  });
  const auto same = [](const Entry& a, const Entry& b) { return a.start == b.start; };
  entries_.erase(std::unique(entries_.begin(), entries_.end(), same), entries_.end());
  entries_.shrink_to_fit();
  names_.shrink_to_fit();
  return {};
}

Result<KernelSymbols> KernelSymbols::parse(std::string_view text) {
  if (text.size() > limits::kernel_symbol_bytes)
    return fail(ErrorCode::limit, fmt::format("{} bytes of kernel symbols", text.size()));
  KernelSymbols symbols;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    TRY(symbols.add_line(text.substr(0, end)));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  TRY(symbols.finish());
  return symbols;
}

Result<KernelSymbols> KernelSymbols::read(int file) {
  KernelSymbols symbols;
  std::vector<char> piece(piece_bytes);
  std::size_t kept = 0;  // of a line whose end has not come yet
  for (std::uint64_t all = 0; all <= limits::kernel_symbol_bytes;) {
    const ssize_t got = ::read(file, piece.data() + kept, piece.size() - kept);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0)
      return fail(ErrorCode::failed,
                  fmt::format("/proc/kallsyms cannot be read: {}", std::strerror(errno)));
    all += static_cast<std::uint64_t>(got);
    std::string_view text(piece.data(), kept + static_cast<std::size_t>(got));
    for (std::size_t end = 0; (end = text.find('\n')) != text.npos;) {
      TRY(symbols.add_line(text.substr(0, end)));
      text.remove_prefix(end + 1);
    }
    if (got == 0 || text.size() == piece.size()) {  // the kernel has no line that is so long
      TRY(symbols.add_line(text));
      TRY(symbols.finish());
      return symbols;
    }
    kept = text.size();
    std::memmove(piece.data(), text.data(), kept);
  }
  return fail(ErrorCode::limit,
              fmt::format("more than {} bytes of kernel symbols", limits::kernel_symbol_bytes));
}

std::optional<KernelSymbols::Function> KernelSymbols::find(Address address) const {
  const auto after =
      std::upper_bound(entries_.begin(), entries_.end(), address,
                       [](Address a, const Entry& entry) { return a < entry.start; });
  if (after == entries_.begin() || address - (after - 1)->start >= longest_function)
    return std::nullopt;
  const Entry& entry = *(after - 1);
  return Function{std::string_view(names_).substr(entry.name, entry.name_size),
                  modules_[entry.module()], entry.start};
}

}  // namespace vitrine::symbol
