#include "observe/executable_symbols.hpp"

#include "elf/file_symbols.hpp"
#include "elf/packed.hpp"
#include "worker/parser.hpp"

namespace vitrine::observe {

template <pack::Of<ExecutableFacts> T>
auto fields(T& facts) {
  auto& [program_headers, tls, symbols] = facts;
  return std::tie(program_headers, tls, symbols);
}

namespace {

using SlotNames = std::vector<std::string>;

/// In a worker.
Result<ExecutableFacts> parse_executable(const SlotNames& names, FileDescriptor descriptor) {
  const auto file = TRY(file::FileMemory::from(std::move(descriptor)));
  const auto image = TRY(elf::read_image(*file, 0));
  const auto headers = std::as_bytes(std::span(image.segments));
  const auto tls = elf::tls_segment(image);
  const std::vector<std::string_view> wanted(names.begin(), names.end());
  return ExecutableFacts{{headers.begin(), headers.end()},
                         tls ? *tls : std::nullopt,
                         elf::find_file_symbols(*file, wanted)};
}

}  // namespace

Result<ExecutableFacts> read_executable(file::FileMemory& file,
                                        std::span<const std::string_view> names) {
  auto facts = worker::Parser::of_this_thread().ask<&parse_executable>(
      SlotNames(names.begin(), names.end()), file.descriptor());
  // One definition a name, or none: who asks counts on it.
  if (facts && facts->symbols && facts->symbols->size() != names.size())
    return fail(ErrorCode::failed, "its parser returned an invalid response");
  return facts;
}

const Result<ExecutableFacts>& ExecutableSymbols::find(file::FileMemory& file,
                                                       std::span<const std::string_view> names) {
  const auto known = known_.find(file.identity());
  if (known != known_.end()) return known->second;
  return known_.emplace(file.identity(), read_executable(file, names)).first->second;
}

}  // namespace vitrine::observe
