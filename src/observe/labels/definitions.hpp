// Which label formats a process defines, where their slots are, and what its file lets one
// assume.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/notes.hpp"
#include "base/result.hpp"
#include "format/label_set.hpp"
#include "format/thread_schema.hpp"
#include "sandbox/files.hpp"
#include "sandbox/work_budget.hpp"
#include "symbol/function_symbols.hpp"
#include "target/libc.hpp"
#include "target/modules.hpp"
#include "target/process.hpp"
#include "target/tls_resolver.hpp"

namespace vitrine::observe {

/// One thread-local variable in which the threads of a process display labels in one format.
struct Definition {
  format::Format format{};
  std::string module;  ///< path of the module that defines it, as the target names it
  target::TlsLocation location;
  target::TlsEvidence evidence{};
  /// Draft A: the variable through which its key table is found (custom_labels_current_ref_v2).
  std::optional<target::TlsLocation> reference;
  /// Those whose variable it is, as indexes in DefinitionFinder::modules(): of several, all refer to the first one's.
  std::vector<std::size_t> modules;
};

/// Finds the definitions of one process and keeps them up to date.
class DefinitionFinder {
 public:
  /// `process` must outlive this, and so must `executables`, which finders of several processes may
  /// share.
  explicit DefinitionFinder(target::Process& process,
                            symbol::ExecutableSymbols* executables = nullptr);

  /// Brings everything up to date. When nothing has changed this costs one batched read of the
  /// dynamic linker's records and the words that the locations were derived from.
  ///
  /// `schema`: what the process context declares of thread records (format::schema_of), if there is
  /// one. Returns whether anything may have changed. When `budget` is spent, the search ends with
  /// what it has found, and the next call searches again. Errors: malformed (the executable's
  /// headers), limit (the budget was spent before those were read), interrupted (it was stopped).
  Result<bool> refresh(const std::optional<format::ThreadSchema>& schema,
                       const sandbox::WorkBudget& budget = sandbox::WorkBudget());

  /// The last search ended because its budget was spent.
  [[nodiscard]] bool unfinished() const { return unfinished_; }

  /// As target::Modules.
  [[nodiscard]] bool is_loaded() const { return modules_.is_loaded(); }

  /// In the order of the modules; variables that two modules share are listed once.
  [[nodiscard]] std::span<const Definition> all() const { return definitions_; }

  /// What was there but cannot be used, and why; each once.
  [[nodiscard]] const std::vector<std::string>& notes() const { return notes_.waiting(); }

  /// For a process without definitions: what was looked for, what was there instead, and the likely
  /// causes.
  [[nodiscard]] Error why_none() const;

  /// For target::ThreadPointers::find.
  [[nodiscard]] const target::ThreadLayout& thread_layout() const { return thread_layout_; }

  [[nodiscard]] std::span<const target::Module> modules() const { return modules_.all(); }
  /// As target::Modules.
  [[nodiscard]] std::size_t held_bytes() const { return modules_.held_bytes(); }

 private:
  struct Symbols;

  /// What a search works on.
  struct Search {
    Memory& memory;
    target::TlsResolver& resolver;
    const std::optional<format::ThreadSchema>& schema;
  };

  Result<bool> refresh(Memory& memory, const std::optional<format::ThreadSchema>& schema);
  void search(Memory& memory, const std::optional<format::ThreadSchema>& schema);
  Symbols symbols_of(Memory& memory, const target::Module& module);
  void complete_from_file(const target::Module& module, Symbols& symbols);
  void define(const Search& search, const target::Module& module, const Symbols& symbols);
  void define_draft(const Search& search, const target::Module& module, const Symbols& symbols);
  bool version_is(Memory& memory, const target::Module& module, const Symbols& symbols,
                  std::uint32_t version, const char* slot);
  void add(const Search& search, const target::Module& module, format::Format format,
           const elf::Symbol& slot, const char* name,
           std::optional<target::TlsLocation> reference = std::nullopt);

  target::Process& process_;
  symbol::ExecutableSymbols own_executable_;
  symbol::ExecutableSymbols& executables_;
  target::Modules modules_;
  target::ThreadLayout thread_layout_;
  std::vector<Definition> definitions_;
  target::WatchedMemory watched_;
  Notes notes_;
  std::optional<format::ThreadSchema> schema_;
  bool unfinished_ = false;
  bool executable_is_static_ = false;
  bool executable_is_stripped_ = false;
};

// What the file of an executable lets one assume of processes that will run it.

/// Where an executable's own variables for labels will be in its threads. None when its file has no
/// symbol table, or no such variables. In which version of a format it displays labels is assumed:
/// only the process shows.
std::vector<Definition> assumed_definitions(sandbox::FileMemory& file);

}  // namespace vitrine::observe
