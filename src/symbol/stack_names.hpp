// StackNames: the functions of a stack, by the files that a process executes and its JIT symbols.
//
// Names come from Symboliser, by the rules that profiles have: functions inlined at an
// address are frames of their own, symbols without a size reach to the next one, names have no
// versions.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "base/memory.hpp"
#include "base/notes.hpp"
#include "sandbox/files.hpp"
#include "symbol/jit_symbols.hpp"
#include "symbol/symboliser.hpp"
#include "target/mapped_files.hpp"

namespace vitrine::symbol {

/// One frame of a stack.
struct StackFrame {
  Address address = 0;        ///< in the process: of the innermost frame where it is, else where
                              ///< it returns to
  std::string function = {};  ///< demangled; empty: not known
  /// Of the address in the function, bytes; none: it is inlined, or only debug information names
  /// it.
  std::optional<std::uint64_t> offset = {};
  std::string module = {};  ///< path of the file, as the kernel names it; empty: not known
  bool inlined = false;     ///< into the function of the next frame, which has the same address

  bool operator==(const StackFrame&) const = default;
};

/// What a process executes, and what it executed before: stacks of that may come late.
class ProcessFunctions {
 public:
  /// A child executes what its parent does until it is looked at.
  [[nodiscard]] ProcessFunctions child() const;

 private:
  friend class StackNames;

  /// A mapped part of a file.
  struct Part {
    Address start = 0, end = 0;
    std::uint64_t offset = 0;  ///< in the file
    std::size_t file = 0;      ///< of Image::files
  };
  struct CodeRange {
    Address start = 0, end = 0;
  };
  struct MappedFile {
    std::uint64_t device = 0, inode = 0;
    std::string path;
    std::shared_ptr<sandbox::FileMemory> file;  ///< null: could not be opened
  };
  struct Image {
    std::uint64_t program = 0;    ///< program_image; 0: not known
    std::vector<Part> parts;      ///< by address
    std::vector<CodeRange> code;  ///< all that can be executed, also outside of files; by address
    std::vector<MappedFile> files;
    std::shared_ptr<target::FileDescriptor> root;  ///< the process's: debug files may be there

    [[nodiscard]] const Part* find(Address address) const;
    [[nodiscard]] bool is_code(Address address) const;
  };

  std::shared_ptr<const Image> now, before;
  /// Pages that were in no file when it was looked at: of code made at run time, and the like.
  std::set<Address> elsewhere;
  target::InnerIdentity identity;
  std::shared_ptr<JitSymbols> jit = std::make_shared<JitSymbols>();
  std::optional<std::chrono::steady_clock::time_point> jit_read;  ///< when it was last read
};

class StackNames {
 public:
  StackNames();

  /// Sees what a process executes now. Of one that is gone, or not permitted to look at, what was seen
  /// before is kept.
  void look_at(pid_t pid, ProcessFunctions& its);

  /// Of a stack's addresses, innermost first; the first is exact, the others are return addresses.
  /// An address has a frame for each function inlined there and one for the function with the code.
  /// The stack ends before the first address that is not code: the kernel follows a frame pointer
  /// that is none where a function uses its register for something else.
  /// `its`: of the process; null: nothing is known of it. `program`: which one it executed then
  /// (program_image); 0: not known. Looks at the process, if it still has its PID, when that is
  /// another, or an address is where nothing has been seen.
  std::vector<StackFrame> name(pid_t pid, ProcessFunctions* its, bool has_pid,
                               std::uint64_t program, std::span<const Address> addresses);

  /// Why names are missing, each once.
  std::vector<std::string> take_notes() { return notes_.take(); }

 private:
  using Image = ProcessFunctions::Image;
  using Part = ProcessFunctions::Part;
  using MappedFile = ProcessFunctions::MappedFile;
  using Clock = std::chrono::steady_clock;
  /// Of each address.
  using Named = std::vector<std::vector<StackFrame>>;

  std::shared_ptr<sandbox::FileMemory> open(int proc_dir, const target::MappedFile& mapped);
  void name_in(const Image& image, std::size_t file, std::span<const Address> addresses,
               Named& named);

  std::optional<StackFrame> name_jit(ProcessFunctions& its, const Image& image, Address address,
                                     Address within);
  static const Image* image_of(const ProcessFunctions& its, std::uint64_t program);
  bool is_seen(const ProcessFunctions& its, const Image& image, Address address) const;

  std::map<sandbox::FileIdentity, std::weak_ptr<sandbox::FileMemory>>
      files_;  ///< each is open once
  Symboliser symboliser_;
  target::FileDescriptor our_root_;
  JitMemory jit_memory_;
  Clock::time_point jit_round_{};  ///< when it began
  Notes notes_;
};

}  // namespace vitrine::symbol
