// Opening files that others name, and reading them as a Memory.
#pragma once

#include <sys/types.h>

#include <compare>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "base/file_descriptor.hpp"
#include "base/memory.hpp"
#include "base/result.hpp"

namespace vitrine::file {

// Opening files.

/// Opens `path` below the directory `dir`, close-on-exec. Errors: not_found (also when the process
/// behind a file of /proc is gone), not_permitted, failed.
Result<FileDescriptor> open_at(int dir, const std::string& path, int flags);

/// What an error of open(2) or read(2) means.
ErrorCode code_of(int error);

// Opening files that others name: regular ones alone, so that no pipe makes us wait and no device
// does anything for having been opened.

/// Opens a regular file for reading. Errors: not_found, not_permitted, unsupported (it is something
/// else: the message says what), failed.
Result<FileDescriptor> open_regular_at(int dir, const std::string& path);

/// The same for a path as a process with the root directory `root` (a descriptor) would take it:
/// links in it do not lead out. Errors as above; unsupported too where the kernel cannot do it
/// (before Linux 5.6).
Result<FileDescriptor> open_regular_below(int root, const std::string& path);

/// The same for a file in a place where anybody may make one: `path` itself is no link, and the
/// file belongs to `owner`. Errors as above; not_permitted names the owner that it has.
Result<FileDescriptor> open_owned_below(int root, const std::string& path, uid_t owner);

// FileMemory: a file's bytes as a Memory; the address is the offset.

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
