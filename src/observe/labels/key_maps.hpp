// KeyMaps: which process context has the names for the keys of a module's thread records.
//
// A record has its keys as indexes in the key map of the process context, and a process has one context (OTEP-4719).
// Two copies of a publishing library in one process, one in the program and one that a plug-in brings, publish one each.
// An index then is one name to the one copy and another name to the other. Names that are taken from the wrong map
// look like facts.
//
// A record belongs to the copy whose slot it is in. A context belongs to the module that keeps the address of its mapping
// in a variable, as publishers do to change it later:
//
// - With one context, and one module that has slots for records, there is no doubt.
// - Otherwise a module uses the map of the context whose address is in its writable memory.
// - A module that has no such address uses the map of a context that is none of the other modules': one for the whole
//   process, as the specification has it.
// - Where none is left, or several with different names, the attributes have no names: they are left out, and a note
//   names the modules.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "format/thread_schema.hpp"
#include "observe/labels/definitions.hpp"
#include "target/modules.hpp"
#include "target/process.hpp"

namespace vitrine::observe {

class KeyMaps {
 public:
  /// Looks for the contexts of a process and for the modules that they belong to. `definitions` and `modules` as
  /// DefinitionFinder has them; `all`: even if the last look was a short time ago. Returns whether records may have
  /// other names than before.
  bool refresh(target::Process& process, std::span<const Definition> definitions,
               std::span<const target::Module> modules, bool all);

  /// The definitions have changed: what was found out about the modules is void.
  void forget_modules();

  /// Whether more than one map, or module, is there, so that choice() decides.
  [[nodiscard]] bool are_several() const { return are_several_; }

  struct Choice {
    const format::ThreadSchema* schema = nullptr;  ///< null: none can be assigned
    Address header = 0;                            ///< of the context that has it
    std::string problem;  ///< why there is none, or a wrong one would be possible
  };
  /// For the records of a definition, one of those of the last refresh().
  [[nodiscard]] const Choice& choice(const Definition& definition) const;

  /// The schema of the only context that has one; null: there is none, or there are several.
  [[nodiscard]] const format::ThreadSchema* only() const {
    return tables_.size() == 1 ? &tables_.front().schema : nullptr;
  }

  /// A record of a definition has a key that its map does not have.
  void miss(const Definition& definition);

  /// What to know of records of several modules, or of several maps.
  [[nodiscard]] std::vector<std::string> notes() const;

 private:
  using Clock = std::chrono::steady_clock;

  /// A context that declares thread records.
  struct Table {
    Address header = 0;
    std::uint64_t stamp = 0;
    format::ThreadSchema schema;
  };
  /// A module that has slots for records.
  struct User {
    std::size_t module = 0;  ///< index in the list of modules
    std::string path;
    std::vector<Address> kept;  ///< addresses of contexts in its writable memory, ascending
    bool is_known = false;      ///< all of that memory was searched
  };
  struct Chosen {
    const Definition* definition = nullptr;
    Choice choice;
    bool is_missed = false;  ///< as miss()
  };

  std::optional<std::vector<Table>> read_tables(target::Process& process) const;
  void find_users(std::span<const Definition> definitions, std::span<const target::Module> modules);
  std::uint64_t search_users(Memory& memory, std::span<const target::Module> modules);
  [[nodiscard]] std::string owners_of(Address header) const;
  [[nodiscard]] Choice choose(const Definition& definition) const;
  bool choose_all(std::span<const Definition> definitions);

  std::vector<Table> tables_;  ///< by address
  std::vector<User> users_;
  std::vector<Chosen> chosen_;
  Choice none_;
  bool are_several_ = false;
  bool are_too_many_ = false;  ///< modules with records: users_ has not all
  bool is_searched_ = false;   ///< `kept` of all users is of the contexts that are in tables_
  Clock::time_point next_look_{}, next_search_{};
};

/// Whether the records of a format have their keys as indexes in the key map of the process context.
bool has_keys_in_context(format::Format format);

}  // namespace vitrine::observe
