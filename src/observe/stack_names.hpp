// StackNames: what the addresses of a stack are called, by the files that a process executes.
#pragma once

#include <sys/types.h>

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "base/memory.hpp"
#include "observe/named_file.hpp"
#include "target/mapped_files.hpp"

namespace vitrine::observe {

/// One frame of a stack.
struct StackFrame {
  Address address = 0;        ///< in the process: of the innermost frame where it is, else where
                              ///< it returns to
  std::string function = {};  ///< demangled; empty: not known
  std::uint64_t offset = 0;   ///< of the address in the function, bytes
  std::string module = {};    ///< path of the file, as the kernel names it; empty: not known

  bool operator==(const StackFrame&) const = default;
};

class StackNames {
 public:
  /// Sees what a process executes now. Of one that is gone, or not ours to look at, what was seen
  /// before is kept.
  void look_at(pid_t pid);

  /// The child executes what its parent does until it is looked at.
  void forked(pid_t parent, pid_t child);
  void exited(pid_t pid) { processes_.erase(pid); }

  /// Of a stack's addresses, innermost first; the first is exact, the others are return addresses.
  /// `program`: which one the process executed then (program_image); 0: not known. Looks at the
  /// process when that is another, or an address is where nothing has been seen.
  std::vector<StackFrame> name(pid_t pid, std::uint64_t program,
                               std::span<const Address> addresses);

 private:
  /// A mapped part of a file.
  struct Part {
    Address start = 0, end = 0;
    std::uint64_t offset = 0;  ///< in the file
    std::size_t file = 0;      ///< of Image::files
  };
  struct MappedFile {
    std::uint64_t device = 0, inode = 0;
    std::string path;
    std::shared_ptr<NamedFile> file;  ///< null: could not be opened
  };
  struct Image {
    std::uint64_t program = 0;  ///< program_image; 0: not known
    std::vector<Part> parts;    ///< by address
    std::vector<MappedFile> files;
    std::shared_ptr<target::FileDescriptor> root;  ///< the process's: debug files may be there

    [[nodiscard]] const Part* find(Address address) const;
  };

  std::shared_ptr<NamedFile> open(int proc_dir, const target::MappedFile& mapped);
  void name_in(const Image& image, std::size_t file, std::span<const Address> addresses,
               std::vector<StackFrame>& frames) const;

  /// What a process executes, and what it did before: fires of that may come late.
  struct Known {
    std::shared_ptr<const Image> now, before;
    /// Pages that were in no file when it was looked at: of code made at run time, and the like.
    std::set<Address> elsewhere;
  };
  static const Image* image_of(const Known& known, std::uint64_t program);
  bool is_seen(const Known& known, const Image& image, Address address) const;
  Known& known_of(pid_t pid);

  std::map<pid_t, Known> processes_;
  std::map<file::FileIdentity, std::weak_ptr<NamedFile>> files_;  ///< each is parsed once
};

}  // namespace vitrine::observe
