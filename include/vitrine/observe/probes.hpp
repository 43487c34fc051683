// vitrine/observe/probes.hpp: the static probes of files and of live processes.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>
#include <vitrine/observe/result.hpp>

namespace vitrine::observer {
inline namespace v1 {

struct ProbeArgument {
  std::string location;  ///< as the note has it: "-4@%edi"
  std::string name;      ///< empty: not known
  std::string type;      ///< "int32", "const char *", "string", "Colour"; empty: not known
};

/// One address at which a probe can fire. Addresses are those of the file's own address space.
struct ProbeSite {
  std::uint64_t address = 0;
  std::optional<std::uint64_t> file_offset;      ///< where a uprobe goes
  std::optional<std::uint64_t> runtime_address;  ///< in the process, where there is one
  std::optional<std::uint64_t> semaphore;        ///< address of its semaphore
  std::string function;                          ///< around it; empty: not known
  std::vector<ProbeArgument> arguments;
  std::vector<std::string> problems;  ///< what is wrong with it
};

struct Probe {
  enum class Kind : std::uint8_t { sdt, dof };
  Kind kind = Kind::sdt;  ///< announced by a stapsdt note, or by a DTrace object
  std::string provider;
  std::string name;
  std::string module;    ///< path of the file
  std::string build_id;  ///< lower-case hex; empty: it has none
  std::vector<ProbeSite> sites;
};

struct ProbeList {
  std::vector<Probe> probes;          ///< by module, provider and name
  std::vector<std::string> problems;  ///< what could not be used, and why
};

/// The probes of a file. Errors: not_found, not_permitted, malformed (not an ELF file), unsupported
/// (not a regular file). The file is parsed in a confined child process.
Result<ProbeList> probes_of_file(const std::string& path);

/// The probes of all files that a process executes. Errors: not_found, not_permitted.
Result<ProbeList> probes_of_process(int pid);

}  // namespace v1
}  // namespace vitrine::observer
