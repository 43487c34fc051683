#include "observe/argument_errors.hpp"

#include <algorithm>

#include "probe/file_symbols.hpp"
#include "symbol/debug_file.hpp"

namespace vitrine::observe {

struct ArgumentErrors::Symbols {
  Symbols(const ProbeFile& probes, elf::File&& headers)
      : elf(std::move(headers)),
        debug(symbol::find_debug_file(*probes.file, elf, probes.build_id, {{}, probes.path})),
        table(*probes.file, elf) {
    if (debug) table.add_debug_file(*debug->memory, debug->elf);
  }

  elf::File elf;
  std::unique_ptr<symbol::DebugFile> debug;
  probe::FileSymbols table;
};

ArgumentErrors::ArgumentErrors(const ProbeFile& file) : file_(file) {
  if (auto elf = elf::read_file(*file.file))
    symbols_ = std::make_unique<Symbols>(file, std::move(*elf));
}

ArgumentErrors::~ArgumentErrors() = default;

std::vector<std::optional<probe::ArgumentError>> ArgumentErrors::of(const probe::Site& site) {
  std::optional<probe::FileSymbols::AtSite> symbols;
  if (symbols_) symbols.emplace(symbols_->table.at(site.address));
  std::vector<std::optional<probe::ArgumentError>> errors;
  for (const std::string& argument : site.arguments) {
    auto operand = probe::compile_argument(argument, file_.machine, site.address,
                                           symbols ? &*symbols : nullptr);
    errors.push_back(operand ? std::nullopt : std::optional(std::move(operand.error())));
  }
  const bool any = std::any_of(errors.begin(), errors.end(),
                               [](const auto& error) { return error.has_value(); });
  return any ? std::move(errors) : decltype(errors)();
}

}  // namespace vitrine::observe
