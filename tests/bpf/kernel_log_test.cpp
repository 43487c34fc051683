// What libbpf prints, as errors.
#include "bpf/kernel_log.hpp"

#include <gmock/gmock.h>

#include <cerrno>

namespace vitrine::bpf {
namespace {

constexpr char statistics[] =
    "processed 0 insns (limit 1000000) max_states_per_insn 0 total_states 0\n"
    "-- END PROG LOAD LOG --\n";

Error error_of(const std::string& text, int error) {
  KernelLog log;
  log.add(text.c_str());
  return log.error("load the profiler", error);
}

TEST(KernelLog, HasTheReasonOfTheVerifier) {
  const Error error = error_of(
      std::string("libbpf: prog 'tick': -- BEGIN PROG LOAD LOG --\n0: R1=ctx()\nR3 !read_ok\n") +
          statistics,
      EACCES);
  EXPECT_EQ(error.code, ErrorCode::unsupported);
  EXPECT_THAT(error.message, testing::EndsWith("rejects the program: R3 !read_ok"));
}

// A kernel that was built without a kind of program refuses it before the verifier has read any of it.
TEST(KernelLog, DoesNotBlameAVerifierThatSaysNothing) {
  const Error error =
      error_of(std::string("libbpf: prog 'cut': -- BEGIN PROG LOAD LOG --\n") + statistics, EPERM);
  EXPECT_EQ(error.code, ErrorCode::not_permitted);
  EXPECT_THAT(error.message, testing::Not(testing::HasSubstr("verifier")));
}

}  // namespace
}  // namespace vitrine::bpf
