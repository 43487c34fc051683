#include "observe/probes/probe_symbols.hpp"

#include <algorithm>
#include <memory>

#include "base/limits.hpp"
#include "elf/notes.hpp"
#include "probe/file_symbols.hpp"
#include "probe/packed.hpp"
#include "sandbox/worker.hpp"
#include "symbol/debug_file.hpp"

namespace vitrine::observe {
namespace {

struct Named {
  Address site = 0;
  std::string argument;
};

template <pack::Of<Named> T>
auto fields(T& named) {
  auto& [site, argument] = named;
  return std::tie(site, argument);
}

struct ArgumentsRequest {
  Machine machine{};
  symbol::DebugSearch debug;
  std::vector<Named> arguments;
};

template <pack::Of<ArgumentsRequest> T>
auto fields(T& request) {
  auto& [machine, debug, arguments] = request;
  return std::tie(machine, debug, arguments);
}

using Compiled = ProbeSymbols::Compiled;

bool is_unresolved(const Compiled& operand) {
  return !operand && operand.error().kind == probe::ArgumentError::Kind::unresolved;
}

/// In a worker.
Result<std::vector<Compiled>> parse_arguments(const ArgumentsRequest& request,
                                              FileDescriptor descriptor) {
  const auto file = TRY(sandbox::FileMemory::from(std::move(descriptor)));
  const auto elf = TRY(elf::read_file(*file));
  std::unique_ptr<symbol::DebugFile> debug;
  probe::FileSymbols symbols(*file, elf);
  std::vector<Compiled> all;
  const auto compile = [&](const Named& named) {
    auto at = symbols.at(named.site);
    return probe::compile_argument(named.argument, request.machine, named.site, &at);
  };
  for (const Named& named : request.arguments) all.push_back(compile(named));
  if (std::ranges::none_of(all, is_unresolved)) return all;
  debug = symbol::find_debug_file(*file, elf, elf::hex_build_id(*file, elf), request.debug);
  if (debug == nullptr) return all;
  symbols.add_debug_file(*debug->memory, debug->elf);
  for (std::size_t i = 0; i < all.size(); ++i)
    if (is_unresolved(all[i])) all[i] = compile(request.arguments[i]);
  return all;
}

/// What operand.h permits, so that it can be evaluated.
bool is_valid(const vitrine_operand& operand) {
  return operand.kind <= VITRINE_MEMORY && operand.size >= 1 &&
         operand.size <= VITRINE_OPERAND_BYTES && operand.shift < 64 &&
         operand.base <= VITRINE_NO_REGISTER && operand.index <= VITRINE_NO_REGISTER &&
         operand.scale <= 4 && operand.extend <= VITRINE_EXTEND_S32;
}

}  // namespace

ProbeSymbols::Compiled ProbeSymbols::compile(const std::string& argument, const probe::Site& site) {
  // Few arguments name a symbol: first without any.
  auto operand = probe::compile_argument(argument, file_.machine, site.address, nullptr);
  if (!is_unresolved(operand) || file_.file == nullptr) return operand;
  if (!asked_) ask();
  if (const auto known = with_symbols_.find({site.address, argument}); known != with_symbols_.end())
    return known->second;
  if (!problem_.empty()) operand.error().message = problem_;
  return operand;
}

void ProbeSymbols::ask() {
  asked_ = true;
  const symbol::DebugPlaces places{{}, file_.path};
  ArgumentsRequest request{file_.machine, places.search(), {}};
  std::size_t bytes = 0;
  for (const probe::Probe& probe : file_.probes)
    for (const auto* sites : {&probe.sites, &probe.enabled_sites})
      for (const probe::Site& site : *sites)
        for (const std::string& argument : site.arguments) {
          if (bytes > sandbox::request_bytes / 2 ||
              !is_unresolved(
                  probe::compile_argument(argument, file_.machine, site.address, nullptr)))
            continue;
          bytes += sizeof(Named) + argument.size();
          request.arguments.push_back({site.address, argument});
        }
  auto response = sandbox::Parser::of_this_thread().ask<&parse_arguments>(
      request, file_.file->descriptor(), places.open());
  if (!response) {
    problem_ = response.error().message;
    return;
  }
  if (response->size() != request.arguments.size()) return;
  for (std::size_t i = 0; i < response->size(); ++i) {
    Compiled& operand = (*response)[i];
    if (operand && !is_valid(*operand)) continue;
    Named& named = request.arguments[i];
    with_symbols_.emplace(Key(named.site, std::move(named.argument)), std::move(operand));
  }
}

std::vector<std::optional<probe::ArgumentError>> ArgumentErrors::of(const probe::Site& site) {
  std::vector<std::optional<probe::ArgumentError>> errors;
  for (const std::string& argument : site.arguments) {
    auto operand = symbols_.compile(argument, site);
    errors.push_back(operand ? std::nullopt : std::optional(std::move(operand.error())));
  }
  const bool any = std::any_of(errors.begin(), errors.end(),
                               [](const auto& error) { return error.has_value(); });
  return any ? std::move(errors) : decltype(errors)();
}

}  // namespace vitrine::observe
