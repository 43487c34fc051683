// The modules of a live process (executable and libraries), as its dynamic linker lists them.
//
// Everything comes from the target's memory, so mount namespaces, chroots and deleted or replaced
// files do not matter (docs/formats/tls.md, "Modules").
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/memory.hpp"
#include "base/notes.hpp"
#include "elf/image.hpp"
#include "target/maps.hpp"
#include "target/process_memory.hpp"
#include "target/tls_location.hpp"

namespace vitrine::target {

struct Module {
  std::string path;  ///< as the target names it; of the executable, as the caller does
  elf::Image image;
  std::optional<elf::Dynamic> dynamic;  ///< none: a static executable
  bool executable = false;
  Address link_map = 0;    ///< the dynamic linker's own record of it; 0 when it has none
  int link_namespace = 0;  ///< 0: the main one; others come from dlmopen
};

/// What Modules needs to know of the process: the auxiliary vector's entries.
struct ProgramHeaders {
  Address address = 0;      ///< AT_PHDR
  std::uint64_t count = 0;  ///< AT_PHNUM
  Address interpreter = 0;  ///< AT_BASE: where the dynamic linker is; 0 when there is none
};

class Modules {
 public:
  explicit Modules(ProgramHeaders program, std::string executable_path)
      : program_(program), executable_path_(std::move(executable_path)) {}

  /// Looks whether the list has changed, by one batched read of the dynamic linker's records and of
  /// what distinguishes one module from another at the same place; reads it anew if it has. Returns
  /// whether it did. Errors: malformed (the executable's own headers).
  ///
  /// While the target is inside dlopen or dlclose its list may be half done: what could be read is
  /// there, stable() is false, and the next refresh() looks again.
  Result<bool> refresh(Memory& memory);

  /// Whether there is a path that only the target's directory makes sense of (`dlopen("./plugin.so")`).
  [[nodiscard]] bool has_relative() const;
  /// Gives these modules the kernel's paths. `mappings`: the executable ones.
  void name_relative(std::span<const Mapping> mappings);

  /// What was read is not all: the next refresh() reads the list anew.
  void forget() { complete_ = false; }

  [[nodiscard]] std::span<const Module> all() const { return modules_; }
  [[nodiscard]] bool stable() const { return stable_; }

  /// Whether the dynamic linker was done with the libraries that the program starts with, and at no
  /// others: of a program that has just been executed, nothing is known before.
  [[nodiscard]] bool is_loaded() const { return stable_ && (begun_ || program_.interpreter == 0); }

  /// What is kept of them, roughly: bytes.
  [[nodiscard]] std::size_t held_bytes() const { return held_bytes_; }

  /// What could not be read, and why; each once.
  [[nodiscard]] const std::vector<std::string>& notes() const { return notes_.waiting(); }

 private:
  /// struct r_debug; `next` is there from version 2 on.
  struct Debug {
    std::int32_t version;
    std::int32_t padding;
    Address map, breakpoint;
    std::int32_t state;
    std::int32_t padding2;
    Address linker_base;
    Address next;
  };
  /// The first members of struct link_map: the same in glibc and musl.
  struct Node {
    Address bias, name, dynamic, next, previous;
  };
  /// A node, and where it is.
  struct Entry {
    Address link_map = 0;
    Node node;
  };
  /// The memory of one reading: as it is, and what of it has been read already. Records, headers and
  /// names are small and next to one another.
  struct Source {
    Memory& memory;
    WindowMemory windows;
  };
  void read_executable(Source& source, elf::Image image);
  std::optional<Address> find_debug(Source& source) const;
  void walk_namespaces(Source& source, Address debug);
  void walk_list(Source& source, Address first, int link_namespace);
  std::vector<Entry> list_entries(Source& source, Address first);
  void take_modules(Source& source, std::span<const Entry> entries, int link_namespace);
  Result<Module> read_library(Source& source, const Entry& entry);
  void watch(Source& source, const Module& module, const Node& node);
  void take_first(Source& source, const Entry& entry);

  ProgramHeaders program_;
  std::string executable_path_;
  std::vector<Module> modules_;
  WatchedMemory watched_;
  Notes notes_;
  std::size_t nodes_left_ = 0;               ///< of all lists
  std::optional<std::uint64_t> pages_left_;  ///< to look for headers on
  std::size_t unread_ = 0;                   ///< modules
  std::size_t held_bytes_ = 0;
  bool complete_ = false;  ///< nothing but what is watched can change the list
  bool stable_ = true;
  bool begun_ = false;  ///< the dynamic linker has a list
};

// The auxiliary vector where the kernel gave it to the program: on its stack.

/// The bytes of the auxiliary vector that lies above the arguments and the environment of a 64-bit
/// program. /proc/PID/auxv belongs to the process's owner, so a reader with CAP_SYS_PTRACE alone
/// may read the memory but not that file. `stack_start`: Stat::stack_start. Errors: malformed (the
/// stack does not begin as the kernel makes it), limit.
Result<std::string> auxv_on_stack(Memory& memory, Address stack_start);

}  // namespace vitrine::target
