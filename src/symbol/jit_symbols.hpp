// PerfMap: the functions that a JIT compiler reports: /tmp/perf-PID.map, as perf reads it.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "symbol/function_symbols.hpp"
#include "target/mapped_files.hpp"

namespace vitrine::symbol {

class PerfMap {
 public:
  struct Function {
    std::string_view name;  ///< lives until the next add()
    Address start = 0;
  };

  /// Takes more of the file's text, where the last left off: lines "START SIZE NAME", both numbers
  /// hexadecimal. What is no such line is passed over; one that is not finished is left for the next
  /// time. Memory is used again: of several functions at an address the last one counts.
  void add(std::string_view text);

  /// The function around an address. The first call after add() makes an index: that is not for two
  /// threads at once.
  [[nodiscard]] std::optional<Function> find(Address address) const;

  /// How much of the file has been taken, bytes: the next text begins there.
  [[nodiscard]] std::uint64_t taken() const { return taken_; }
  [[nodiscard]] std::size_t size() const { return entries_.size(); }
  /// What it takes, about, with its index.
  [[nodiscard]] std::size_t bytes() const;

  /// Whether there are more functions than may be taken in (limits::perf_map_symbols, perf_map_bytes).
  [[nodiscard]] bool full() const { return full_; }

  /// Keeps the first `functions` alone, those of the file's first `taken` bytes.
  void go_back(std::size_t functions, std::uint64_t taken);

  /// Frees what is reserved for functions to come.
  void shrink();

 private:
  struct Entry {
    Address start = 0;
    std::uint64_t size = 0;
    std::uint32_t name = 0, name_size = 0;  ///< in names_
  };
  void add_line(std::string_view line);

  std::uint64_t taken_ = 0;
  bool full_ = false;
  std::string names_;
  std::vector<Entry> entries_;                  ///< in the file's order
  mutable std::optional<Intervals> functions_;  ///< indexes of entries_; none: not made yet
};

// JitSymbols: the functions that a process has made at run time, as /tmp/perf-PID.map has them.

/// Of all processes together.
inline constexpr std::size_t max_jit_bytes = 128U << 20;

class JitSymbols {
 public:
  /// Whether these may take so many bytes.
  using HasRoom = std::function<bool(std::size_t bytes)>;

  /// Reads what has been written since. Any user can make the file: it counts if it is a regular
  /// one of the process's user, in its mount namespace (`root`: descriptor). `inner_pid`: in its own
  /// pid namespace; 0: not known. Returns what is wrong with the file; empty: nothing, or there is
  /// none. What had no room is read by the next call.
  std::string refresh(int root, pid_t inner_pid, uid_t owner, const HasRoom& has_room);

  [[nodiscard]] std::size_t bytes() const { return map_.bytes(); }
  /// Whether the last refresh() had room for none, or not for all.
  [[nodiscard]] bool lacks_room() const { return lacks_room_; }
  void clear() { *this = {}; }

  [[nodiscard]] std::optional<PerfMap::Function> find(Address address) const {
    return map_.find(address);
  }

 private:
  PerfMap map_;
  target::KnownPerfMap known_;  ///< what is in map_
  bool lacks_room_ = false;
};

/// Has the JIT symbols of many processes share bounded memory: those that were used least recently make room. In one
/// thread at a time, with all that is done with the symbols.
class JitMemory {
 public:
  explicit JitMemory(std::size_t max_bytes = max_jit_bytes) : max_bytes_(max_bytes) {}

  /// What is refreshed from here on is not dropped until the next round: else many processes whose symbols have no
  /// room together would be read again and again.
  void begin_round() { ++round_; }

  /// As JitSymbols::refresh(). Symbols that had no room are read in the next round, not before.
  std::string refresh(const std::shared_ptr<JitSymbols>& symbols, int root, pid_t inner_pid,
                      uid_t owner);

  /// What all of them take.
  [[nodiscard]] std::size_t bytes() const;

 private:
  struct Held {
    std::weak_ptr<JitSymbols> symbols;
    std::uint64_t round = 0;  ///< in which they were refreshed last
  };
  std::size_t max_bytes_;
  std::uint64_t round_ = 0;
  std::list<Held> held_;  ///< the least recently refreshed first
};

}  // namespace vitrine::symbol
