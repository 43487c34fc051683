// FileMemory: a file's bytes as a Memory; the address is the offset.
#pragma once

#include <compare>
#include <cstdint>
#include <memory>
#include <utility>

#include "base/memory.hpp"
#include "file/open.hpp"

namespace vitrine::file {

/// Tells a file from every other, and from what it was before it changed.
struct FileIdentity {
  std::uint64_t device = 0;
  std::uint64_t inode = 0;
  std::int64_t size = 0;
  std::int64_t changed_ns = 0;

  auto operator<=>(const FileIdentity&) const = default;
};

class FileMemory final : public Memory {
 public:
  /// Takes an open file. Errors: unsupported (not a regular file: a pipe or device would make us
  /// wait), failed.
  static Result<std::unique_ptr<FileMemory>> from(FileDescriptor file);

  void read(std::span<ReadRequest> requests) override;

  /// As it was when it was opened.
  [[nodiscard]] const FileIdentity& identity() const { return identity_; }

  /// Whether it is another file by now than its identity says: it was written to, renamed, deleted.
  [[nodiscard]] bool has_changed() const;

  /// The same file as it is now. Errors: failed.
  [[nodiscard]] Result<std::unique_ptr<FileMemory>> reopened() const;

  [[nodiscard]] int descriptor() const { return file_.get(); }

 private:
  FileMemory(FileDescriptor file, const FileIdentity& identity)
      : file_(std::move(file)), identity_(identity) {}

  FileDescriptor file_;
  FileIdentity identity_;
};

}  // namespace vitrine::file
