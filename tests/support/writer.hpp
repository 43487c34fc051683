// Writer: one of the foreign programs of tests/writers, and the truth about what it has on display.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "support/child.hpp"

namespace vitrine::test {

struct TraceTruth {
  std::string trace_id;  ///< 32 hexadecimal digits
  std::string span_id;   ///< 16
  std::string flags;     ///< 2, or "-" in formats without
};

/// What one thread displays through one variable.
struct SlotTruth {
  pid_t tid = 0;
  std::string format;  ///< "custom-labels-v1": format::name()
  std::uint64_t address = 0;
  std::string library;                                      ///< the path that its `publish` named
  std::vector<std::pair<std::string, std::string>> labels;  ///< key and value, any bytes
  std::optional<TraceTruth> trace;
};

struct ThreadTruth {
  pid_t tid = 0;
  std::uint64_t tp = 0;
  std::string name;  ///< "main", or as given
};

/// One row of the matrix: how to run a writer so that its slots are in one particular place.
struct WriterSpec {
  std::string name;     ///< of the row: "glibc_dlopen_tlsdesc_a8"
  std::string program;  ///< in the directory of writers
  std::string needed;   ///< slots/<needed>/ is searched for the library it needs at start
  std::vector<std::string> fillers;  ///< libraries opened before
  std::string library;  ///< slots/<library>/ has the one with the slots; empty: the program's own

  friend void PrintTo(const WriterSpec& spec, std::ostream* out) { *out << spec.name; }
};

/// Every way to place the slots, in two formats at once (docs/formats/tls.md,
/// "How it is verified").
std::vector<WriterSpec> location_matrix();

/// Every other format, in the executable and in a library at start and by dlopen.
std::vector<WriterSpec> format_matrix();

class Writer {
 public:
  /// Starts it, and its standard cast: threads `early` and `early-idle`, then the libraries of the
  /// row, then `late` and `late-idle`; `main`, `early` and `late` display labels, the idle ones
  /// have never touched a slot.
  static Writer start(const WriterSpec& spec);

  /// Just the program, only its main thread, which displays nothing.
  static Writer start_bare(const WriterSpec& spec, std::vector<std::string> command_prefix = {});

  /// Sends one command (tests/writers/README.md) and takes in the truth it tells. Fails the test
  /// when the writer says `failed`.
  void command(const std::string& line);

  /// "slots/NAME/libcustomlabels_slot.so", "slots/filler_3.so": the full path.
  static std::string slot_library(const std::string& name);
  static std::string path(const std::string& relative);

  [[nodiscard]] pid_t pid() const { return child_.pid(); }
  [[nodiscard]] Child& child() { return child_; }
  [[nodiscard]] const std::vector<ThreadTruth>& threads() const { return threads_; }
  [[nodiscard]] const ThreadTruth& thread(const std::string& name) const;

  /// What is on display, one entry per thread and variable it has touched.
  [[nodiscard]] std::vector<SlotTruth> slots() const;

 private:
  explicit Writer(Child child) : child_(std::move(child)) {}
  void take(const std::string& line);
  void take_answer();

  Child child_;
  std::string library_;  ///< named by the command in hand
  std::vector<ThreadTruth> threads_;
  std::map<std::pair<pid_t, std::uint64_t>, SlotTruth> slots_;
};

}  // namespace vitrine::test
