// Tests of what works without the rights to load BPF programs. Needs libcap.
#pragma once

#include <gtest/gtest.h>
#include <sys/capability.h>

#include <array>

namespace vitrine::test {

/// Takes those rights away for as long as it lives.
class WithoutBpf {
 public:
  WithoutBpf() : before_(cap_get_proc()) {
    cap_t less = cap_dup(before_);
    const std::array<cap_value_t, 3> gone{CAP_BPF, CAP_PERFMON, CAP_SYS_ADMIN};
    cap_set_flag(less, CAP_EFFECTIVE, gone.size(), gone.data(), CAP_CLEAR);
    EXPECT_EQ(cap_set_proc(less), 0);
    cap_free(less);
  }
  ~WithoutBpf() {
    EXPECT_EQ(cap_set_proc(before_), 0);
    cap_free(before_);
  }
  WithoutBpf(const WithoutBpf&) = delete;
  WithoutBpf& operator=(const WithoutBpf&) = delete;

 private:
  cap_t before_;
};

}  // namespace vitrine::test
