#include "observe/labels/definitions.hpp"

#include <elf.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <string_view>
#include <utility>

#include "abi/custom_labels.hpp"
#include "abi/elastic.hpp"
#include "abi/thread_context.hpp"
#include "base/limits.hpp"
#include "base/memory.hpp"
#include "elf/symbols.hpp"
#include "sandbox/files.hpp"
#include "sandbox/worker.hpp"
#include "symbol/function_symbols.hpp"
#include "target/mapped_files.hpp"
#include "target/tls_location.hpp"

namespace vitrine::observe {
namespace {

using format::Format;

enum Name : std::size_t {
  version,
  v0_slot,
  v1_slot,
  v2_slot,
  v2_reference,
  otel_slot,
  elastic_slot,
  name_count,
};

constexpr std::array<std::string_view, name_count> names{
    abi::custom_labels::version_symbol,
    abi::custom_labels::v0_slot_symbol,
    abi::custom_labels::v1_slot_symbol,
    abi::thread_context::draft_slot_symbol,
    abi::thread_context::draft_a_ref_symbol,
    abi::thread_context::slot_symbol,
    abi::elastic::slot_symbol,
};

bool is_slot(const std::optional<elf::Symbol>& symbol) {
  return symbol && symbol->type == STT_TLS;
}

}  // namespace

/// By Name. What a module defines of the symbols we know.
struct DefinitionFinder::Symbols {
  std::vector<std::optional<elf::Symbol>> by_name =
      std::vector<std::optional<elf::Symbol>>(name_count);

  const std::optional<elf::Symbol>& operator[](Name name) const { return by_name[name]; }
};

DefinitionFinder::DefinitionFinder(target::Process& process, symbol::ExecutableSymbols* executables)
    : process_(process),
      executables_(executables != nullptr ? *executables : own_executable_),
      modules_(process.program_headers(), process.executable_path()) {}

Result<bool> DefinitionFinder::refresh(const std::optional<format::ThreadSchema>& schema,
                                       const sandbox::WorkBudget& budget) {
  BoundedMemory memory(process_.memory(), limits::search_requests, limits::search_bytes,
                       [&] { return budget.spent(); });
  if (std::exchange(unfinished_, false)) modules_.forget();
  std::optional<sandbox::Parser::ShortTime> short_time;
  if (budget.is_limited())
    short_time.emplace(sandbox::Parser::of_this_thread(),
                       std::chrono::ceil<std::chrono::milliseconds>(budget.left()));
  auto changed = refresh(memory, schema);
  if (memory.exhausted() && budget.stopped()) {
    unfinished_ = true;
    return fail(ErrorCode::interrupted, "the search of its modules was stopped");
  }
  if (memory.exhausted() || (changed && *changed)) unfinished_ = budget.spent();
  if (unfinished_ && !changed && changed.error().code == ErrorCode::malformed)
    return fail(ErrorCode::limit, "its modules cannot be searched within the time limit");
  if (memory.exhausted() && changed && !unfinished_)
    notes_.add("the search of its modules was stopped at a limit");
  return changed;
}

Result<bool> DefinitionFinder::refresh(Memory& memory,
                                       const std::optional<format::ThreadSchema>& schema) {
  const auto list_changed = TRY(modules_.refresh(memory));
  if (list_changed && modules_.has_relative())
    if (const auto mappings = target::executable_mappings(process_.proc_dir()))
      modules_.name_relative(*mappings);
  if (!list_changed && schema == schema_ && !watched_.changed(memory)) return false;
  // Symbol tables are read a few bytes here and there, which windows make half the system calls.
  WindowMemory windows(memory, limits::search_windows);
  auto before = definitions_;
  search(windows, schema);
  // Memory that went away with its process does not prove where its variables were.
  if (auto same = process_.verify(); !same && same.error().code == ErrorCode::not_found) {
    definitions_ = std::move(before);
    return tl::unexpected<Error>(std::move(same.error()));
  }
  schema_ = schema;
  return true;
}

void DefinitionFinder::search(Memory& memory, const std::optional<format::ThreadSchema>& schema) {
  definitions_.clear();
  watched_.clear();
  notes_.clear();
  notes_.add(modules_.notes());
  executable_is_static_ = !modules_.all().front().dynamic;
  executable_is_stripped_ = false;
  target::TlsResolver resolver(memory, process_.machine(), modules_.all());
  thread_layout_ =
      target::thread_layout(modules_.all(), resolver.glibc() ? &*resolver.glibc() : nullptr);
  for (const target::Module& module : modules_.all())
    if (module.image.find(PT_TLS) != nullptr)  // else it has no thread-local variable at all
      define({memory, resolver, schema}, module, symbols_of(memory, module));
}

DefinitionFinder::Symbols DefinitionFinder::symbols_of(Memory& memory,
                                                       const target::Module& module) {
  Symbols symbols;
  if (module.dynamic) {
    auto found = elf::find_symbols(memory, *module.dynamic, names);
    if (found)
      symbols.by_name = std::move(*found);
    else if (found.error().code != ErrorCode::not_found)
      notes_.add(fmt::format("{}: {}", module.path, found.error().message));
  }
  if (module.executable) complete_from_file(module, symbols);
  return symbols;
}

// An executable need not export its symbols to have them: its file may still have .symtab.
void DefinitionFinder::complete_from_file(const target::Module& module, Symbols& symbols) {
  auto file = process_.open_executable().and_then(
      [](sandbox::OpenedFile opened) { return sandbox::FileMemory::from(std::move(opened)); });
  if (!file) {
    // That the process has ended is for refresh() to report.
    if (file.error().code != ErrorCode::not_found)
      notes_.add(fmt::format("{}: {}", module.path, file.error().message));
    return;
  }
  const auto& facts = executables_.find(**file, names);
  if (!facts) {
    // Of another kind than the program in memory: see below.
    const ErrorCode code = facts.error().code;
    if (code != ErrorCode::malformed && code != ErrorCode::unsupported)
      notes_.add(fmt::format("{}: {}", module.path, facts.error().message));
    return;
  }
  // Not the program itself when it was started through the dynamic linker as a command.
  if (!std::ranges::equal(facts->program_headers, std::as_bytes(std::span(module.image.segments))))
    return;
  const auto& found = facts->symbols;
  if (!found) {
    executable_is_stripped_ = found.error().code == ErrorCode::not_found;
    if (!executable_is_stripped_)
      notes_.add(fmt::format("{}: {}", module.path, found.error().message));
    return;
  }
  for (std::size_t i = 0; i < name_count; ++i) {
    if (symbols.by_name[i] || !(*found)[i]) continue;
    symbols.by_name[i] = (*found)[i];
    symbols.by_name[i]->index = 0;  // an index of .symtab means nothing to dynamic relocations
  }
}

void DefinitionFinder::define(const Search& search, const target::Module& module,
                              const Symbols& symbols) {
  using namespace abi;
  if (is_slot(symbols[v0_slot]) &&
      version_is(search.memory, module, symbols, 0, custom_labels::v0_slot_symbol))
    add(search, module, Format::custom_labels_v0, *symbols[v0_slot], custom_labels::v0_slot_symbol);
  if (is_slot(symbols[v1_slot]) &&
      version_is(search.memory, module, symbols, 1, custom_labels::v1_slot_symbol))
    add(search, module, Format::custom_labels_v1, *symbols[v1_slot], custom_labels::v1_slot_symbol);
  if (is_slot(symbols[v2_slot])) define_draft(search, module, symbols);
  if (is_slot(symbols[otel_slot]))
    add(search, module, Format::otel_thread_ctx_v1, *symbols[otel_slot],
        thread_context::slot_symbol);
  if (is_slot(symbols[elastic_slot]))
    add(search, module, Format::elastic_v1, *symbols[elastic_slot], elastic::slot_symbol);
}

void DefinitionFinder::define_draft(const Search& search, const target::Module& module,
                                    const Symbols& symbols) {
  using namespace abi;
  std::optional<target::TlsLocation> reference;
  if (is_slot(symbols[v2_reference]))
    if (const auto place = search.resolver.resolve(module, *symbols[v2_reference],
                                                   thread_context::draft_a_ref_symbol))
      reference = place->location;
  const auto draft = format::draft_behind_v2_symbol(search.schema, reference.has_value());
  if (draft)
    add(search, module, *draft, *symbols[v2_slot], thread_context::draft_slot_symbol, reference);
  else
    notes_.add(
        fmt::format("{}: {} exists in two layouts, and neither {} nor a process context with {} "
                    "identifies this one: ignored",
                    module.path, thread_context::draft_slot_symbol,
                    thread_context::draft_a_ref_symbol, thread_context::schema_version_key));
}

// The version is read from memory: it may lie in .data, where the file's offset is not its address,
// or in .bss, of which the file has nothing.
bool DefinitionFinder::version_is(Memory& memory, const target::Module& module,
                                  const Symbols& symbols, std::uint32_t wanted, const char* slot) {
  const auto refuse = [&](const std::string& reason) {
    notes_.add(fmt::format("{}: {} is defined, but {} {}: ignored", module.path, slot,
                           names[version], reason));
    return false;
  };
  const auto& symbol = symbols[version];
  if (!symbol) return refuse("is not");
  if (symbol->type != STT_OBJECT || symbol->size != abi::custom_labels::version_size)
    return refuse(fmt::format("is not an object of {} bytes", abi::custom_labels::version_size));
  const auto value = memory.read_value<std::uint32_t>(module.image.bias + symbol->value,
                                                      abi::custom_labels::version_symbol);
  if (!value) return refuse("is not readable");
  if (*value != wanted) return refuse(fmt::format("is {} and not {}", *value, wanted));
  return true;
}

void DefinitionFinder::add(const Search& search, const target::Module& module, Format format,
                           const elf::Symbol& slot, const char* slot_name,
                           std::optional<target::TlsLocation> reference) {
  auto resolved = search.resolver.resolve(module, slot, slot_name);
  if (!resolved) {
    notes_.add(fmt::format("{}: {}: {}", module.path, slot_name, resolved.error().message));
    return;
  }
  watched_.add_all(resolved->watched);
  const auto known = std::ranges::find_if(definitions_, [&](const Definition& other) {
    return other.format == format && other.location == resolved->location;
  });
  const auto index = static_cast<std::size_t>(&module - modules_.all().data());
  if (known == definitions_.end())
    definitions_.push_back(
        {format, module.path, resolved->location, resolved->evidence, reference, {index}});
  else
    known->modules.push_back(index);
}

Error DefinitionFinder::why_none() const {
  std::string message = fmt::format(
      "process {} publishes no labels: none of its {} modules defines {}, {}, {}, {} or {}",
      process_.pid(), modules_.all().size(), names[v1_slot], names[otel_slot], names[v0_slot],
      names[v2_slot], names[elastic_slot]);
  if (!notes().empty()) message += fmt::format("; {}", fmt::join(notes(), "; "));
  std::string remedy;
  if (executable_is_static_ && executable_is_stripped_)
    remedy =
        "the executable is static and stripped, so it has no symbol table at all: link it with "
        "-static-pie and --export-dynamic-symbol, or do not strip it";
  else if (executable_is_stripped_)
    remedy =
        "if the labels are compiled into the executable, its slots must be exported "
        "(-Wl,--export-dynamic-symbol=" +
        std::string(names[v1_slot]) + "), because it is stripped";
  else
    remedy =
        "the process may not have loaded its label library yet (use --watch), or not link it at "
        "all";
  return {ErrorCode::failed, std::move(message), std::move(remedy)};
}

namespace {

struct Slot {
  std::string_view symbol;
  format::Format format;
};

constexpr std::array<Slot, 3> slots{{
    {abi::custom_labels::v1_slot_symbol, format::Format::custom_labels_v1},
    {abi::custom_labels::v0_slot_symbol, format::Format::custom_labels_v0},
    {abi::thread_context::slot_symbol, format::Format::otel_thread_ctx_v1},
}};

}  // namespace

std::vector<Definition> assumed_definitions(sandbox::FileMemory& file) {
  std::array<std::string_view, slots.size()> symbols;
  for (std::size_t i = 0; i < slots.size(); ++i) symbols[i] = slots[i].symbol;
  const auto facts = symbol::read_executable(file, symbols);
  if (!facts || !facts->tls || !facts->symbols) return {};
  std::vector<Definition> definitions;
  for (std::size_t i = 0; i < slots.size(); ++i) {
    const auto& symbol = (*facts->symbols)[i];
    if (!symbol || symbol->type != STT_TLS) continue;
    Definition definition;
    definition.format = slots[i].format;
    definition.location = target::StaticTls{
        target::executable_tls_offset(native_machine, *facts->tls, symbol->value)};
    definitions.push_back(std::move(definition));
  }
  return definitions;
}

}  // namespace vitrine::observe
