// Symboliser: names, files and lines of code addresses, with the functions inlined there.
//
// Files are untrusted: they are parsed in a worker process that can be killed, one for all files of a
// Symboliser. One that crashes the parser, stalls it or eats its memory costs its own symbols only: what
// a worker that had other files open does not survive is tried again in one that has none.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/limits.hpp"
#include "base/memory.hpp"
#include "base/result.hpp"
#include "sandbox/files.hpp"
#include "sandbox/worker.hpp"
#include "symbol/debug_file.hpp"

namespace vitrine::symbol {

/// A function that the code at an address belongs to.
struct Frame {
  std::string name;              ///< demangled
  std::string system_name;       ///< as the symbol table or DWARF spells it; empty: the same
  std::string file;              ///< source; empty: not known
  std::uint32_t line = 0;        ///< 0: not known
  std::uint32_t start_line = 0;  ///< of the function; 0: not known
  /// Of the address from the function's symbol, bytes; none: it is inlined, or has no symbol.
  std::optional<std::uint32_t> offset = std::nullopt;
  bool operator==(const Frame&) const = default;
};

/// Innermost inlined function first, the one with code of its own last. Empty: no symbol.
using Frames = std::vector<Frame>;

/// A file, by descriptors that stay valid while it is asked about.
struct File {
  std::string path;            ///< for messages, and for .gnu_debuglink
  int descriptor = -1;         ///< of the file that was mapped
  std::vector<int> root_dirs;  ///< where debug files are looked for, in order; none: vitrine's root
  std::optional<sandbox::FileIdentity> identity =
      std::nullopt;  ///< of the file; else it is looked up
};

/// A file, with where its debug file is looked for: another process's may be another one.
using FileKey = std::pair<sandbox::FileIdentity, DebugPlaces::Key>;

/// `file.identity` must be set.
FileKey key_of(const File& file);

struct Limits {
  std::uint64_t worker_memory = 2ULL << 30;  ///< bytes of address space
  std::uint64_t worker_data = 2ULL << 30;    ///< bytes of private memory
  /// Bytes that the worker holds between requests; more than `trimmed_memory` for some seconds.
  std::uint64_t kept_memory = limits::symbol_kept_memory;
  std::uint64_t trimmed_memory = limits::symbol_kept_memory;
  /// Bytes of private memory for what it keeps of files.
  std::uint64_t open_memory = limits::symbol_kept_memory;
  /// Names are kept, to be found again without the worker. False: the caller keeps them.
  bool keeps_names = true;
  /// The worker is started before it is needed, as it has all that this process has in memory then.
  bool starts_early = false;
  std::chrono::milliseconds idle{30'000};  ///< as sandbox::Limits
  std::chrono::milliseconds time{30'000};  ///< of one request to it
  std::size_t inline_depth = 64;
  std::size_t name_bytes = 4096;            ///< longer names are cut
  const std::atomic<bool>* stop = nullptr;  ///< when it becomes true, requests end
};

struct Resolved {
  std::vector<Frames> frames;  ///< one an address asked for
  std::string problem;         ///< why there are none, or fewer than there could be; empty: none
  /// Not all of the file was parsed: its parser could not stand that.
  bool reduced = false;
};

/// What the code of a file is asked for by.
enum class Place : std::uint8_t {
  address,     ///< in the file's own address space
  file_offset  ///< from the beginning of the file
};

/// What of a file is read for the names of its addresses.
enum class Depth : std::uint8_t {
  all,     ///< its debug information as well: with lines, and the functions inlined
  symbols  ///< symbol tables alone
};

class Symboliser {
 public:
  explicit Symboliser(Limits limits = {}, Place place = Place::address);
  ~Symboliser();
  Symboliser(const Symboliser&) = delete;
  Symboliser& operator=(const Symboliser&) = delete;

  /// `addresses`: of the kind of `place`. A file (by device, inode, size, change time) is
  /// parsed for the same path and root directories, and stays open in the worker for later requests, as
  /// long as that lives and has room for it (Limits::open_memory, and at most 64 files). What a file's parser could
  /// not stand is not tried again: then there are the names of its symbol tables alone, or none. What was
  /// found without debug information is not kept. Not for two threads at once; forks.
  Resolved resolve(const File& file, std::span<const Address> addresses, Depth depth = Depth::all);

  /// Of all its files.
  [[nodiscard]] sandbox::Parser& parser();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// The messages between this process and a worker: a request is the addresses; a response their frames. The
// worker may have been taken over by the file that it reads: its responses are taken as hostile.

/// Comes with the file, which a worker keeps open as long as it has room.
struct Request {
  std::vector<Address> addresses;
  DebugSearch debug;
  bool with_dwarf = true;  ///< false: symbol tables alone
  Place place = Place::address;
  std::uint32_t number = 0;  ///< of the file, given by the caller
  // As in Limits:
  std::uint64_t open_memory = limits::symbol_kept_memory;
  std::uint32_t inline_depth = 64;
  std::uint32_t name_bytes = 4096;
};

constexpr Place last(Place) {
  return Place::file_offset;
}

template <pack::Of<Request> T>
auto fields(T& request) {
  auto& [addresses, debug, with_dwarf, place, number, open_memory, inline_depth, name_bytes] =
      request;
  return std::tie(addresses, debug, with_dwarf, place, number, open_memory, inline_depth,
                  name_bytes);
}

/// Frames beyond limits::symbol_response bytes are left out, and the problem reports it.
std::vector<std::byte> encode_response(const Resolved& resolved);

/// `addresses`: how many were asked for. Errors: malformed.
Result<Resolved> decode_response(std::span<const std::byte> bytes, std::size_t addresses,
                                 const Limits& limits);

// What a worker of a Symboliser does: it keeps files, and names their addresses.

std::unique_ptr<sandbox::Service> make_naming_service();

}  // namespace vitrine::symbol
