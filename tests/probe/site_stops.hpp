// Runs a program, and stops it at each of its probes.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "elf/file.hpp"
#include "probe/evaluate.hpp"
#include "probe/notes.hpp"

namespace vitrine::test {

/// A program's file, and the notes in it.
class ProbedProgram {
 public:
  explicit ProbedProgram(const std::string& path);  ///< fails the test when there is none
  ~ProbedProgram();

  [[nodiscard]] const std::string& path() const { return path_; }
  [[nodiscard]] Memory& memory() { return *memory_; }
  [[nodiscard]] const elf::File& elf() const { return elf_; }
  [[nodiscard]] const std::vector<probe::StapsdtNote>& notes() const { return notes_.notes; }

 private:
  std::string path_;
  std::unique_ptr<Memory> memory_;
  elf::File elf_;
  std::vector<std::byte> section_;
  probe::StapsdtNotes notes_;
};

/// Called with the notes of the place (linkers fold equal code), the registers and the memory.
using AtStop = std::function<void(const probe::StapsdtNote&, const probe::Registers&, Memory&)>;

/// Runs the program to its end and returns what it printed. Fails the test when it does not end
/// with status 0.
std::string run_with_stops(const ProbedProgram& program, const AtStop& at_stop);

}  // namespace vitrine::test
