// What tests of hostile files share: files as bytes, and a file that is named as ever whatever another has cost.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <malloc.h>
#include <sys/mman.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "elf/file.hpp"
#include "elf/symbol_table.hpp"
#include "sandbox/files.hpp"
#include "symbol/symboliser.hpp"

namespace vitrine::symbol {

inline const std::string honest = SUBJECT_DIR "/gcc-dwarf5";

inline std::string content(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

inline FileDescriptor opened(const std::string& path) {
  return sandbox::open_regular_at(AT_FDCWD, path).value();
}

inline FileDescriptor in_memory(const std::string& bytes) {
  FileDescriptor fd(::memfd_create("subject", MFD_CLOEXEC));
  EXPECT_EQ(::write(fd.get(), bytes.data(), bytes.size()), static_cast<ssize_t>(bytes.size()));
  return fd;
}

/// The address of a function by its symbol.
inline Address address_of(const std::string& path, const std::string& name) {
  auto memory = sandbox::FileMemory::from(opened(path)).value();
  const auto elf = elf::read_file(*memory).value();
  const auto table = elf::SymbolTable::read(*memory, elf, 2 /* SHT_SYMTAB */).value();
  const auto found = table.find(name);
  EXPECT_FALSE(found.empty()) << name;
  return found.empty() ? 0 : table.at(found[0]).value;
}

inline std::size_t children() {
  std::size_t count = 0;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    std::ifstream in(task.path() / "children");
    for (pid_t pid; in >> pid;) ++count;
  }
  return count;
}

class Hostile : public testing::Test {
 protected:
  // What a test has freed, and arenas of its threads, would be the parsers' to use, beyond their limits.
  Hostile() {
    ::mallopt(M_MMAP_THRESHOLD, 128 * 1024);
    ::mallopt(M_ARENA_MAX, 1);
  }

  /// The honest file is named as ever.
  void expect_unharmed(Symboliser& symboliser) {
    const auto file = opened(honest);
    const Address main = address_of(honest, "main");
    const Resolved answer = symboliser.resolve({honest, file.get(), {}}, std::vector{main});
    EXPECT_EQ(answer.problem, "");
    ASSERT_EQ(answer.frames.size(), 1U);
    ASSERT_FALSE(answer.frames[0].empty());
    EXPECT_EQ(answer.frames[0].back().name, "main");
    EXPECT_TRUE(answer.frames[0].back().file.ends_with("/tests/symbol/subject.cpp"));
  }
};

}  // namespace vitrine::symbol
