// FileSubject: a file that is checked, and all that the rules about files ask of it.
#pragma once

#include <memory>
#include <string>

#include "base/result.hpp"
#include "check/label_facts.hpp"
#include "check/probe_facts.hpp"
#include "check/rule.hpp"
#include "file/file_memory.hpp"

namespace vitrine::check {

struct FileSubject {
  /// An open file, which its user, or a process, calls `path`, and the kernel `file_name`. In a
  /// worker. Errors: unsupported (no regular file), malformed (no ELF file).
  static Result<std::unique_ptr<FileSubject>> of(FileDescriptor file, std::string path,
                                                 std::string file_name);

  std::string path;
  std::string file_name;  ///< what /proc/PID/maps would show of it, without the directory
  std::unique_ptr<vitrine::file::FileMemory> file;
  elf::File elf;
  bool program = false;      ///< not a library
  bool relocatable = false;  ///< an object, not linked yet
  LabelFacts labels;
  SdtFacts sdt;
  DofFacts dof;

  Profiles published;  ///< of which there is something that a reader could use
  Profiles intended;   ///< those, and of which there are traces

  /// A static program without a symbol: whether it publishes labels, nobody can see.
  [[nodiscard]] bool nameless() const {
    return program && labels.block && !labels.exports && !labels.symtab;
  }
};

/// What kind of library a name is for, as readers of custom labels ask it.
bool is_v0_library_name(std::string_view file_name);  ///< libcustomlabels.*\.so
bool is_v1_library_name(std::string_view file_name);  ///< …$|customlabels\.node$

}  // namespace vitrine::check
