// Probes in the test's own program: a one-byte nop with registers as its caller wants them.
#pragma once

#include <fcntl.h>
#include <link.h>
#include <unistd.h>

#include <cstdint>

namespace vitrine::test {

/// Where an address of this executable lies in its file.
inline std::uint64_t file_offset_of(const void* address) {
  struct Search {
    std::uint64_t address;
    std::uint64_t offset;
  } search{reinterpret_cast<std::uint64_t>(address), 0};
  ::dl_iterate_phdr(
      [](dl_phdr_info* module, std::size_t, void* context) {
        auto& wanted = *static_cast<Search*>(context);
        for (int i = 0; i < module->dlpi_phnum; ++i) {
          const auto& segment = module->dlpi_phdr[i];
          const std::uint64_t begin = module->dlpi_addr + segment.p_vaddr;
          if (segment.p_type == PT_LOAD && wanted.address >= begin &&
              wanted.address < begin + segment.p_filesz)
            wanted.offset = wanted.address - begin + segment.p_offset;
        }
        return 1;  // the first is the executable
      },
      &search);
  return search.offset;
}

/// A file descriptor, closed with it.
class File {
 public:
  explicit File(const char* path) : fd_(::open(path, O_RDONLY | O_CLOEXEC)) {}
  ~File() { ::close(fd_); }
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  [[nodiscard]] int fd() const { return fd_; }

 private:
  int fd_;
};

}  // namespace vitrine::test
