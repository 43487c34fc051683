// Names of Rust functions: ours beside libiberty's, on the symbols of tests/symbol/rust_names.txt,
// and on symbols with a binder of many lifetimes in a path that is not printed: (62^n) + 1 of them.
#include <fmt/format.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <optional>
#include <string>
#include <vector>

#include "symbol/demangle.hpp"

#define HAVE_DECL_BASENAME 1  // else libiberty.h declares basename otherwise than string.h
#include <libiberty/demangle.h>

using namespace vitrine;

namespace {

constexpr int rounds = 9;
constexpr rlim_t longest = 5;  // seconds for one name

std::optional<std::string> ours(const std::string& symbol) {
  auto name = symbol::rust_name(symbol);
  return name ? std::move(name) : symbol::legacy_rust_name(symbol);
}

std::optional<std::string> theirs(const std::string& symbol) {
  char* const text = rust_demangle(symbol.c_str(), 0);
  if (text == nullptr) return std::nullopt;
  std::string name = text;
  std::free(text);
  return name;
}

double seconds() {
  timespec now{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) / 1e9;
}

/// The best of some rounds: microseconds a name.
template <class Demangle>
double microseconds(const std::vector<std::string>& symbols, Demangle demangle) {
  double best = 0;
  for (int round = 0; round < rounds; ++round) {
    const double begin = seconds();
    std::size_t bytes = 0;
    for (const std::string& symbol : symbols) bytes += demangle(symbol).value_or("").size();
    const double took = bytes == 0 ? 0 : (seconds() - begin) * 1e6;
    best = round == 0 ? took : std::min(best, took);
  }
  return best / static_cast<double>(symbols.size());
}

/// In a process of its own, which is ended when it takes too long.
template <class Demangle>
std::string time_of(const std::string& symbol, Demangle demangle) {
  const pid_t child = ::fork();
  if (child == 0) {
    const rlimit limit{longest, longest};
    ::setrlimit(RLIMIT_CPU, &limit);
    demangle(symbol);
    ::_exit(0);
  }
  int status = 0;
  rusage usage{};
  if (child < 0 || ::wait4(child, &status, 0, &usage) != child) return "failed";
  if (!WIFEXITED(status)) return fmt::format("none after {} s", longest);
  return fmt::format("{:.3f} s", static_cast<double>(usage.ru_utime.tv_sec) +
                                     static_cast<double>(usage.ru_utime.tv_usec) / 1e6);
}

}  // namespace

int main() {
  std::vector<std::string> symbols;
  std::ifstream in(RUST_NAMES);
  for (std::string line; std::getline(in, line);)
    symbols.push_back(line.substr(0, line.find('\t')));
  if (symbols.empty()) return 1;
  const double us = microseconds(symbols, ours), them = microseconds(symbols, theirs);
  fmt::print("{} symbols: ours {:.2f} us a name, libiberty {:.2f} us, ratio {:.2f}\n",
             symbols.size(), us, them, us / them);
  for (std::size_t digits = 2; digits <= 6; digits += 2) {
    const std::string symbol = "_RNvXIC1aFG" + std::string(digits, 'z') + "_EuEuC1b1f";
    fmt::print("{:<28} ours {}, libiberty {}\n", symbol, time_of(symbol, ours),
               time_of(symbol, theirs));
  }
}
