#include "symbol/executable_symbols.hpp"

#include <algorithm>
#include <vector>

#include "base/redaction.hpp"
#include "base/text.hpp"
#include "elf/packed.hpp"
#include "elf/symbols.hpp"
#include "sandbox/worker.hpp"

namespace vitrine::observe {

std::string content_hash(Memory& file, std::uint64_t size) {
  constexpr std::uint64_t end_bytes = 4096;
  constexpr std::size_t hash_bytes = 16;
  const std::uint64_t part = std::min(size, end_bytes);
  std::vector<std::byte> bytes(static_cast<std::size_t>(2 * part + sizeof size));
  const auto first = std::span(bytes).first(static_cast<std::size_t>(part));
  const auto last = std::span(bytes).subspan(first.size(), first.size());
  if (file.read_some(0, first) != first.size() || file.read_some(size - part, last) != last.size())
    return {};
  for (std::size_t i = 0; i < sizeof size; ++i)
    bytes[bytes.size() - 1 - i] = static_cast<std::byte>(size >> 8 * i & 0xff);
  const auto digest = sha256(bytes);
  return hex_text(std::span(digest).first(hash_bytes));
}

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
