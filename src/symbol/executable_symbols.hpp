// The name of a file by what it holds: `process.executable.build_id.htlhash`.
#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/memory.hpp"
#include "elf/image.hpp"
#include "elf/symbols.hpp"
#include "sandbox/files.hpp"

namespace vitrine::observe {

/// Lower-case hex of the first 16 bytes of the SHA-256 of: the first 4,096 bytes, the last 4,096,
/// and the size as 8 bytes, big-endian (docs/formats/profiles.md, "Content hash"). Empty: it could
/// not be read.
std::string content_hash(Memory& file, std::uint64_t size);

// ExecutableSymbols: what the .symtab of executables defines, searched once a file.

struct ExecutableFacts {
  std::vector<std::byte> program_headers;  ///< Elf64_Phdr after Elf64_Phdr
  std::optional<elf::TlsSegment> tls;      ///< none, too, when it makes no sense
  /// Where it is what the names that were asked for stand for: see elf::find_file_symbols.
  Result<std::vector<std::optional<elf::Symbol>>> symbols;
};

/// What a file has to say of `names`. A worker finds it. Errors: malformed, unsupported (see
/// elf::read_image); failed, limit (more than its parser could stand).
Result<ExecutableFacts> read_executable(file::FileMemory& file,
                                        std::span<const std::string_view> names);

/// Many processes run the same few programs, and a large program's table takes tens of
/// milliseconds to search: whoever looks at many processes shares one of these.
class ExecutableSymbols {
 public:
  /// As read_executable(). `names` must be the same in each call.
  const Result<ExecutableFacts>& find(file::FileMemory& file,
                                      std::span<const std::string_view> names);

 private:
  std::map<file::FileIdentity, Result<ExecutableFacts>> known_;
};

}  // namespace vitrine::observe
