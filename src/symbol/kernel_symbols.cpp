#include "symbol/kernel_symbols.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "base/limits.hpp"

namespace vitrine::symbol {
namespace {

/// Longest function believed in: what lies further behind the last symbol has no name.
constexpr std::uint64_t longest_function = 1U << 20;

bool is_code(char type) {
  return type == 't' || type == 'T' || type == 'w' || type == 'W';
}

}  // namespace

// A line: address (hexadecimal), type, name, and for modules a tab and "[module]".
Result<KernelSymbols> KernelSymbols::parse(std::string text) {
  if (text.size() > limits::kernel_symbol_bytes)
    return fail(ErrorCode::limit, fmt::format("{} bytes of kernel symbols", text.size()));
  KernelSymbols symbols;
  symbols.text_ = std::move(text);
  const std::string_view all = symbols.text_;
  bool hidden = false;
  for (std::size_t at = 0; at < all.size();) {
    const std::size_t end = std::min(all.find('\n', at), all.size());
    const std::string_view line = all.substr(at, end - at);
    Entry entry;
    const auto [rest, error] =
        std::from_chars(line.data(), line.data() + line.size(), entry.start, 16);
    const auto digits = static_cast<std::size_t>(rest - line.data());
    if (error == std::errc() && line.size() > digits + 3 && line[digits] == ' ' &&
        line[digits + 2] == ' ' && is_code(line[digits + 1])) {
      const std::size_t name = digits + 3;
      const std::size_t tab = std::min(line.find('\t', name), line.size());
      entry.name = static_cast<std::uint32_t>(at + name);
      entry.name_size = static_cast<std::uint16_t>(std::min<std::size_t>(tab - name, UINT16_MAX));
      if (tab + 3 < line.size() && line[tab + 1] == '[' && line.back() == ']') {
        entry.module = static_cast<std::uint32_t>(at + tab + 2);
        entry.module_size =
            static_cast<std::uint16_t>(std::min<std::size_t>(line.size() - tab - 3, UINT16_MAX));
      }
      entry.global = line[digits + 1] == 'T';
      hidden = hidden || entry.start == 0;
      if (entry.start != 0) symbols.entries_.push_back(entry);
      if (symbols.entries_.size() > limits::kernel_symbols)
        return fail(ErrorCode::limit,
                    fmt::format("more than {} kernel symbols", limits::kernel_symbols));
    }
    at = end + 1;
  }
  if (symbols.entries_.empty() && hidden)
    return fail(ErrorCode::not_permitted, "the kernel hides the addresses of its functions",
                "run as root or with CAP_SYSLOG; if kernel.kptr_restrict is 2, also: sysctl "
                "kernel.kptr_restrict=1");
  if (symbols.entries_.empty())
    return fail(ErrorCode::malformed, "/proc/kallsyms has no functions");
  // Of several names for one address a global one is taken, else the first.
  std::stable_sort(symbols.entries_.begin(), symbols.entries_.end(),
                   [](const Entry& a, const Entry& b) {
                     return std::pair(a.start, !a.global) < std::pair(b.start, !b.global);
                   });
  const auto same = [](const Entry& a, const Entry& b) { return a.start == b.start; };
  symbols.entries_.erase(std::unique(symbols.entries_.begin(), symbols.entries_.end(), same),
                         symbols.entries_.end());
  return symbols;
}

std::optional<KernelSymbols::Function> KernelSymbols::find(Address address) const {
  const auto after =
      std::upper_bound(entries_.begin(), entries_.end(), address,
                       [](Address a, const Entry& entry) { return a < entry.start; });
  if (after == entries_.begin() || address - (after - 1)->start >= longest_function)
    return std::nullopt;
  const Entry& entry = *(after - 1);
  const std::string_view all = text_;
  return Function{all.substr(entry.name, entry.name_size),
                  all.substr(entry.module, entry.module_size), entry.start};
}

}  // namespace vitrine::symbol
