// A disk that is full.
#pragma once

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <csignal>

namespace vitrine::test {

/// No file can be longer than some bytes while there is one of these: as on a full disk.
class FullDisk {
 public:
  FullDisk() {
    EXPECT_EQ(::getrlimit(RLIMIT_FSIZE, &before_), 0);
    handler_ = std::signal(SIGXFSZ, SIG_IGN);
    const rlimit none{5, before_.rlim_max};  // bytes
    EXPECT_EQ(::setrlimit(RLIMIT_FSIZE, &none), 0);
  }
  FullDisk(const FullDisk&) = delete;
  FullDisk& operator=(const FullDisk&) = delete;
  ~FullDisk() {
    ::setrlimit(RLIMIT_FSIZE, &before_);
    std::signal(SIGXFSZ, handler_);
  }

 private:
  rlimit before_{};
  void (*handler_)(int) = nullptr;
};

}  // namespace vitrine::test
