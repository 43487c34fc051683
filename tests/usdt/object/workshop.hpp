// Objects made by real compilers, in a folder that goes away with the test.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "support/child.hpp"
#include "usdt/link.hpp"

namespace vitrine::test {

/// Runs a shell command.
Outcome shell(const std::string& command);

class Workshop {
 public:
  Workshop();
  Workshop(const Workshop&) = delete;
  Workshop& operator=(const Workshop&) = delete;
  ~Workshop();

  [[nodiscard]] std::string path(const std::string& name) const { return folder_ / name; }

  /// Compiles `source` (C, or assembly if the name ends in .S) with `compiler`, a command with its
  /// options, into `name`.o. Returns the object's path.
  std::string compile(const std::string& name, const std::string& source,
                      const std::string& compiler = "gcc -O2 -fPIE");

 private:
  std::filesystem::path folder_;
};

std::vector<std::byte> bytes_of(const std::string& path);
void write(const std::string& path, std::span<const std::byte> bytes);

/// The provider `shop` with the probes order-start(int, int) and done().
usdt::Definition shop();

/// Declarations of its probes, as the header makes them.
extern const char* const shop_header;

/// A program with all forms of its probes. Prints "2".
extern const char* const shop_program;

}  // namespace vitrine::test
