// FileMemory: a file's bytes as a Memory; the address is the offset.
#pragma once

#include <memory>
#include <utility>

#include "base/memory.hpp"
#include "target/proc_file.hpp"

namespace vitrine::target {

class FileMemory final : public Memory {
 public:
  /// Takes an open file. Errors: unsupported (not a regular file: a pipe or device would make us
  /// wait), failed.
  static Result<std::unique_ptr<FileMemory>> from(FileDescriptor file);

  void read(std::span<ReadRequest> requests) override;

 private:
  explicit FileMemory(FileDescriptor file) : file_(std::move(file)) {}

  FileDescriptor file_;
};

}  // namespace vitrine::target
