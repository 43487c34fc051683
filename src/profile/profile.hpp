// A profile, as values: samples, and the tables that they point into.
//
// Every encoder (pprof, OTLP, folded, …) and the page are written from this and nothing else.
// Tables hold each value once; an index is a position in its table. `none` is no entry.
#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "base/memory.hpp"
#include "base/text.hpp"

namespace vitrine::profile {

using Index = std::uint32_t;
inline constexpr Index none = std::numeric_limits<Index>::max();

/// What a sample counts.
enum class Measure : std::uint8_t {
  on_cpu,   ///< a tick of the sampling clock found the thread running
  off_cpu,  ///< the thread gave up its CPU and came back
};

struct Label {
  std::string key;    ///< any bytes
  std::string value;  ///< any bytes
  auto operator<=>(const Label&) const = default;
};

/// What was in force: sorted by key, one value a key.
using LabelSet = std::vector<Label>;

/// The trace a thread worked for.
struct Link {
  std::array<std::uint8_t, 16> trace_id{};
  std::array<std::uint8_t, 8> span_id{};
  auto operator<=>(const Link&) const = default;
  /// Whether it leads to a span.
  [[nodiscard]] bool is_valid() const { return is_id(trace_id) && is_id(span_id); }
};

struct Function {
  std::string name;         ///< demangled
  std::string system_name;  ///< as the symbol table spells it; empty: the same
  std::string file;         ///< source; empty: not known
  std::uint32_t start_line = 0;
  auto operator<=>(const Function&) const = default;
};

struct Line {
  Index function = none;
  std::uint32_t line = 0;  ///< 0: not known
  auto operator<=>(const Line&) const = default;
};

/// A file as a process has it in memory.
struct Mapping {
  Address start = 0;
  Address limit = 0;
  std::uint64_t file_offset = 0;  ///< of `start`
  std::string file;               ///< as the process names it; "[vdso]", "[kernel]"
  std::string build_id;           ///< lower-case hex; empty: it has none
  std::string content_hash;       ///< `process.executable.build_id.htlhash`; hex
  auto operator<=>(const Mapping&) const = default;
};

enum class FrameKind : std::uint8_t { native, kernel, jit, unknown };

/// A place in code. `lines` holds the functions inlined there, innermost first; empty: no symbol.
struct Location {
  Index mapping = none;
  Address address = 0;  ///< in the process; of the call itself where it is a caller's frame
  FrameKind kind = FrameKind::native;
  std::vector<Line> lines;
  std::string problem;  ///< why it has no name, where that is not just a missing symbol
  auto operator<=>(const Location&) const = default;
};

/// Why a stack has no more frames than it has.
enum class StackEnd : std::uint8_t {
  outermost,     ///< it is whole
  truncated,     ///< the copy of the stack was used up: a longer one has more
  depth,         ///< it has its root and its leaf; frames between were left out
  other_stack,   ///< a signal handler had a stack of its own, and only that was copied
  out_of_reach,  ///< the next frame is farther away than can be copied
  unread,        ///< that part of the stack was not in memory
  no_rule,       ///< no rule for leaving the last frame
  bad,           ///< what was found is no stack
  gone,          ///< the process ended before its code could be looked at
};
inline constexpr std::size_t stack_ends = 9;

/// In place of the frames that were left out.
inline constexpr const char* omitted_frames = "[frames omitted]";

struct Stack {
  std::vector<Index> locations;  ///< leaf first; kernel frames, where there are any, before user's
  StackEnd end = StackEnd::outermost;
  auto operator<=>(const Stack&) const = default;
};

struct Attribute {
  std::string key;
  std::string value;
  auto operator<=>(const Attribute&) const = default;
};

struct Process {
  std::uint32_t pid = 0;
  std::string command;              ///< comm
  std::string executable;           ///< path as the process names it
  std::vector<Attribute> resource;  ///< from its process context
  auto operator<=>(const Process&) const = default;
};

struct Sample {
  Measure measure = Measure::on_cpu;
  Index process = none;
  Index stack = none;
  Index labels = none;
  Index link = none;
  std::uint32_t tid = 0;
  std::uint32_t cpu = 0;
  std::string thread_name;
  std::uint64_t time_ns = 0;   ///< Unix time: of the tick, or of going off the CPU
  std::uint64_t value_ns = 0;  ///< CPU time that the ticks stand for, or time off the CPU
  std::uint64_t count = 1;     ///< how many ticks or waits it is the sum of
};

/// What did not make it into the samples. Nothing is lost silently.
struct Losses {
  std::uint64_t events = 0;            ///< samples the kernel or we had no room for
  std::uint64_t truncated_stacks = 0;  ///< kept, and marked: ends truncated to unread
  std::uint64_t truncated_labels = 0;  ///< a value was cut, or a label left out
  std::uint64_t unread_labels = 0;     ///< the labels could not be read
  std::uint64_t unnamed = 0;  ///< locations that were not named in time: by file and offset
};

struct Profile {
  std::uint64_t start_ns = 0;     ///< Unix time
  std::uint64_t duration_ns = 0;  ///< of the observation
  /// Of a sample that is several: they were taken within so long after its time; 0: their times are not
  /// known.
  std::uint64_t span_ns = 0;
  std::uint32_t frequency = 0;  ///< ticks a second a CPU; 0: no on-CPU samples were asked for
  std::vector<Process> processes;
  std::vector<Mapping> mappings;
  std::vector<Function> functions;
  std::vector<Location> locations;
  std::vector<Stack> stacks;
  std::vector<LabelSet> label_sets;
  std::vector<Link> links;
  std::vector<Sample> samples;
  Losses losses;
  std::vector<std::string> problems;  ///< files without symbols and why; each a sentence
};

}  // namespace vitrine::profile
