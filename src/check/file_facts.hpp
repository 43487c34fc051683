// What the rules ask of a file: its label variables, its probes, and the file itself.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "check/rule.hpp"
#include "elf/file.hpp"
#include "elf/image.hpp"
#include "elf/symbol_table.hpp"
#include "elf/symbols.hpp"
#include "probe/argument.hpp"
#include "probe/dof_probes.hpp"
#include "probe/site_address.hpp"
#include "sandbox/files.hpp"

namespace vitrine::check {

// What a file contains of the label variables that it defines.

/// How code of the file reaches a thread-local variable of it.
enum class Access : std::uint8_t { descriptor, general_dynamic, initial_exec };
std::string_view name(Access access);  ///< "TLSDESC", "GD", "IE"

struct SymbolFacts {
  std::optional<elf::Symbol> exported;  ///< defined in .dynsym
  std::optional<elf::Symbol> inside;    ///< defined in .symtab, whether or not it is exported

  [[nodiscard]] bool there() const { return exported || inside; }
  [[nodiscard]] const elf::Symbol* any() const {
    return exported ? &*exported : (inside ? &*inside : nullptr);
  }
};

struct SlotFacts : SymbolFacts {
  std::string_view name;
  std::uint64_t bytes = 8;        ///< that it must have
  std::vector<Access> accesses;   ///< each once
  bool named_descriptor = false;  ///< the relocation of a TLS descriptor has its symbol
};

/// custom_labels_abi_version.
struct VersionFacts : SymbolFacts {
  std::optional<std::uint32_t> value;        ///< that it has when the file has been loaded
  std::optional<std::uint64_t> file_offset;  ///< of its bytes; none: .bss
  bool writable = false;                     ///< when the program runs
  bool relocated = false;                    ///< a relocation writes it: the file has not its value
};

struct LabelFacts {
  std::string unsupported;  ///< not empty: no platform of these formats, and why
  std::string broken;       ///< not empty: why its tables of symbols cannot be used
  bool exports = false;     ///< it has a table of exported symbols
  bool symtab = false;      ///< it has .symtab: not stripped
  std::optional<elf::TlsSegment> block;
  VersionFacts version;
  SlotFacts v0, v1, thread_context;

  /// The slot of the version of the custom-labels ABI that the file follows, or seems to.
  [[nodiscard]] const SlotFacts& slot() const { return is_v0() ? v0 : v1; }
  [[nodiscard]] bool is_v0() const;
  bool prefer_v0 = false;        ///< when it has neither slot
  std::optional<bool> asked_v0;  ///< which version the user asks for, whatever is there
};

LabelFacts read_label_facts(Memory& file, const elf::File& elf);

// What a file contains of its probes, note by note and DOF by DOF: more than a listing of them keeps.

struct ArgumentFault {
  std::size_t site = 0;      ///< index in SdtFacts::sites
  std::size_t argument = 0;  ///< index in its list
  probe::ArgumentError error;
};

/// One note, whose site the linker has kept.
struct SdtSite {
  std::string provider, name;
  Address base = 0;  ///< as the note has it
  probe::Site site;
  std::vector<std::byte> code;  ///< the file's bytes from the site on, at most bpf::site_bytes
};

struct SdtFacts {
  std::vector<elf::Section> sections;    ///< `.note.stapsdt`
  std::vector<std::string> problems;     ///< notes that cannot be decoded
  std::size_t notes = 0;                 ///< decoded
  std::size_t tombstones = 0;            ///< of those: their code was left out
  std::vector<SdtSite> sites;            ///< of the others, in the section's order
  std::vector<ArgumentFault> arguments;  ///< that cannot be decoded
  bool base_section = false;             ///< `.stapsdt.base`
  bool semaphore_section = false;        ///< `.probes`
  std::vector<Address> exported;         ///< addresses of its preemptible symbols, ascending
};

struct DofFacts {
  probe::DofFile file;
  probe::DofProbes probes;
};

SdtFacts read_sdt_facts(Memory& file, const elf::File& elf, std::uint64_t file_size,
                        const DofFacts& dof);
DofFacts read_dof_facts(Memory& file, const elf::File& elf, std::uint64_t file_size);

// FileSubject: a file that is checked, and all that the rules about files ask of it.

struct FileSubject {
  /// An open file, which its user, or a process, calls `path`, and the kernel `file_name`. In a
  /// worker. Errors: unsupported (no regular file), malformed (no ELF file).
  static Result<std::unique_ptr<FileSubject>> of(FileDescriptor file, std::string path,
                                                 std::string file_name);

  std::string path;
  std::string file_name;  ///< what /proc/PID/maps would show of it, without the directory
  std::unique_ptr<vitrine::sandbox::FileMemory> file;
  elf::File elf;
  bool program = false;      ///< not a library
  bool relocatable = false;  ///< an object, not linked yet
  LabelFacts labels;
  SdtFacts sdt;
  DofFacts dof;

  Profiles published;  ///< of which there is something that a reader could use
  Profiles intended;   ///< those, and of which there are traces

  /// A static program without a symbol: whether it publishes labels cannot be seen.
  [[nodiscard]] bool nameless() const {
    return program && labels.block && !labels.exports && !labels.symtab;
  }
};

/// What kind of library a name is for, as readers of custom labels ask it.
bool is_v0_library_name(std::string_view file_name);  ///< libcustomlabels.*\.so
bool is_v1_library_name(std::string_view file_name);  ///< …$|customlabels\.node$

}  // namespace vitrine::check
