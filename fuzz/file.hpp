// The input as an open file, for what reads files by their descriptors.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include "base/file_descriptor.hpp"
#include "input.hpp"

namespace vitrine::fuzz {

inline FileDescriptor file(std::span<const std::byte> bytes) {
  FileDescriptor made(::memfd_create("fuzzed", MFD_CLOEXEC));
  require(made &&
          ::write(made.get(), bytes.data(), bytes.size()) == static_cast<ssize_t>(bytes.size()));
  return made;
}

}  // namespace vitrine::fuzz
