#include "observe/probe_symbols.hpp"

namespace vitrine::observe {

tl::expected<vitrine_operand, probe::ArgumentError> ProbeSymbols::compile(
    const std::string& argument, const probe::Site& site) {
  using Kind = probe::ArgumentError::Kind;
  // Few arguments name a symbol: first without any.
  auto operand = probe::compile_argument(argument, file_.machine, site.address, nullptr);
  if (operand || operand.error().kind != Kind::unresolved || !open()) return operand;
  auto symbols = symbols_->at(site.address);
  operand = probe::compile_argument(argument, file_.machine, site.address, &symbols);
  if (operand || operand.error().kind != Kind::unresolved || !open_debug_file()) return operand;
  return probe::compile_argument(argument, file_.machine, site.address, &symbols);
}

bool ProbeSymbols::open() {
  if (!tried_) {
    tried_ = true;
    if (file_.file == nullptr) return false;
    auto elf = elf::read_file(*file_.file);
    if (!elf) return false;
    elf_ = std::move(*elf);
    symbols_ = std::make_unique<probe::FileSymbols>(*file_.file, elf_);
  }
  return symbols_ != nullptr;
}

bool ProbeSymbols::open_debug_file() {
  if (!tried_debug_) {
    tried_debug_ = true;
    symbol::DebugPlaces places;
    places.path = file_.path;
    debug_ = symbol::find_debug_file(*file_.file, elf_, file_.build_id, places);
    if (debug_ != nullptr) symbols_->add_debug_file(*debug_->memory, debug_->elf);
  }
  return debug_ != nullptr;
}

}  // namespace vitrine::observe
