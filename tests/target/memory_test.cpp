// Reading a live process: order, prefixes, bad addresses in a batch, batches of any size.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <vector>

#include "sandbox/files.hpp"
#include "target/process.hpp"
#include "target_subject.hpp"

namespace vitrine::target {
namespace {

class ProcessMemoryTest : public testing::Test {
 protected:
  ProcessMemory& memory() { return process.memory(); }

  Subject subject;
  Address page = std::stoull(subject.ask("memory"), nullptr, 16);
  Process process = *Process::open(subject.child.pid());
};

TEST_F(ProcessMemoryTest, ReadsWhatIsThere) {
  std::vector<std::byte> bytes(4096);
  ASSERT_EQ(memory().read_some(page, bytes), bytes.size());
  for (std::size_t i = 0; i < bytes.size(); ++i) ASSERT_EQ(bytes[i], static_cast<std::byte>(i));
}

TEST_F(ProcessMemoryTest, GivesThePrefixBeforeAnUnmappedPage) {
  std::vector<std::byte> bytes(512);
  EXPECT_EQ(memory().read_some(page + 4096 - 100, bytes), 100U);
  EXPECT_EQ(memory().read_some(page + 4096, bytes), 0U);
}

TEST_F(ProcessMemoryTest, ServesWhatComesAfterABadAddress) {
  std::vector<std::uint64_t> words(5);
  std::vector<ReadRequest> requests;
  const Address addresses[] = {page, page + 4092, ~Address{0} - 3, page + 4096, page + 8};
  for (std::size_t i = 0; i < words.size(); ++i)
    requests.push_back({addresses[i], std::as_writable_bytes(std::span(&words[i], 1)), 99});
  memory().read(requests);
  EXPECT_EQ(requests[0].got, 8U);
  EXPECT_EQ(requests[1].got, 4U);
  EXPECT_EQ(requests[2].got, 0U);
  EXPECT_EQ(requests[3].got, 0U);
  EXPECT_EQ(requests[4].got, 8U);
  EXPECT_EQ(words[4], 0x0f0e0d0c0b0a0908U);
}

TEST_F(ProcessMemoryTest, AnEmptyRequestIsComplete) {
  std::byte byte{};
  ReadRequest requests[] = {{0, {}, 7}, {page + 5, std::span(&byte, 1), 0}, {0, {}, 7}};
  memory().read(requests);
  EXPECT_TRUE(requests[0].complete());
  EXPECT_TRUE(requests[2].complete());
  EXPECT_EQ(byte, std::byte{5});
}

// More than one system call's worth, with more bad ones than a batch tolerates.
TEST_F(ProcessMemoryTest, ServesBatchesOfAnySizeWithManyBadAddresses) {
  constexpr std::size_t count = 5000;
  std::vector<std::uint8_t> bytes(count);
  std::vector<ReadRequest> requests;
  for (std::size_t i = 0; i < count; ++i)
    requests.push_back({i % 7 == 0 ? Address{16} : page + i % 4096,
                        std::as_writable_bytes(std::span(&bytes[i], 1)), 0});
  memory().read(requests);
  for (std::size_t i = 0; i < count; ++i) {
    ASSERT_EQ(requests[i].got, i % 7 == 0 ? 0U : 1U) << i;
    if (i % 7 != 0) {
      ASSERT_EQ(bytes[i], static_cast<std::uint8_t>(i % 4096)) << i;
    }
  }
}

TEST_F(ProcessMemoryTest, RejectedAddressesAreNotRefusals) {
  std::byte byte{};
  EXPECT_EQ(memory().read_some(0xffff'8000'0000'0000, std::span(&byte, 1)), 0U);
  EXPECT_EQ(memory().read_some(0x0041'4141'4141'4141, std::span(&byte, 1)), 0U);
  EXPECT_EQ(memory().refusal(), 0);
}

TEST_F(ProcessMemoryTest, ReadsNothingOfAnEndedProcess) {
  subject.child.close_stdin();
  ASSERT_EQ(subject.child.wait(), 0);
  std::byte byte{};
  EXPECT_EQ(memory().read_some(page, std::span(&byte, 1)), 0U);
  EXPECT_EQ(memory().refusal(), ESRCH);
}

TEST(ProcessMemoryTags, AreStrippedByTheMaskOfTheProcess) {
  Subject subject;
  const Address page = std::stoull(subject.ask("memory"), nullptr, 16);
  const Process process = *Process::open(subject.child.pid());
  // As on a machine with LAM_U57, or aarch64's top byte: bits that are no part of the address.
  ProcessMemory tagged(process.pid(), process.proc_dir(), ~(Address{0x3f} << 57));
  const auto value = tagged.read_value<std::uint8_t>((page + 3) | Address{0x2a} << 57, "tagged");
  ASSERT_TRUE(value) << value.error().message;
  EXPECT_EQ(*value, 3);
  EXPECT_EQ(tagged.untag(page | Address{1} << 60), page);
}

TEST(FileMemory, RefusesWhatCouldMakeUsWait) {
  int pipes[2];
  ASSERT_EQ(::pipe(pipes), 0);
  const FileDescriptor writing(pipes[1]);
  const auto memory = sandbox::FileMemory::from(FileDescriptor(pipes[0]));
  ASSERT_FALSE(memory);
  EXPECT_EQ(memory.error().code, ErrorCode::unsupported);
}

TEST(FileMemory, ReadsByOffset) {
  const auto memory = sandbox::FileMemory::from(*open_at(AT_FDCWD, "/proc/self/exe", O_RDONLY));
  ASSERT_TRUE(memory);
  EXPECT_EQ(*(*memory)->read_value<std::uint32_t>(0, "the magic"), 0x464c'457fU);
  std::byte byte{};
  EXPECT_EQ((*memory)->read_some(~Address{0} - 8, std::span(&byte, 1)), 0U);
}

}  // namespace
}  // namespace vitrine::target
