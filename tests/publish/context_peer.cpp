#include "publish/context_peer.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <fstream>
#include <sstream>

#include "support/child.hpp"

namespace vitrine::test {
namespace {

constexpr std::size_t header_bytes = 32;

std::uint64_t number(const std::string& header, std::size_t offset, std::size_t size) {
  std::uint64_t value = 0;
  std::memcpy(&value, header.data() + offset, size);
  return value;
}

std::uint64_t start_of(const std::string& mapping) {
  return std::stoull(mapping, nullptr, 16);
}

std::vector<std::string> mappings(pid_t pid,
                                  const std::function<bool(const std::string&)>& wanted) {
  std::vector<std::string> found;
  std::ifstream maps("/proc/" + std::to_string(pid) + "/maps");
  for (std::string line; std::getline(maps, line);)
    if (wanted(line)) found.push_back(line);
  return found;
}

}  // namespace

std::string read_bytes(pid_t pid, std::uint64_t address, std::size_t size) {
  // Not process_vm_readv: qemu-user, under which these tests run too, does not have it.
  const int fd = open(("/proc/" + std::to_string(pid) + "/mem").c_str(), O_RDONLY | O_CLOEXEC);
  std::string bytes(size, '\0');
  const ssize_t got = pread(fd, bytes.data(), size, static_cast<off_t>(address));
  close(fd);
  bytes.resize(got > 0 ? static_cast<std::size_t>(got) : 0);
  return bytes;
}

std::vector<std::string> context_mappings(pid_t pid) {
  return mappings(pid, [](const std::string& line) {
    for (const char* name : {"/memfd:OTEL_CTX", "[anon_shmem:OTEL_CTX", "[anon:OTEL_CTX"})
      if (line.find(name) != std::string::npos) return true;
    return false;
  });
}

std::vector<std::string> context_signatures(pid_t pid) {
  return mappings(pid, [pid](const std::string& line) {
    return line.find(" rw-p ") != std::string::npos &&
           read_bytes(pid, start_of(line), 8) == "OTEL_CTX";
  });
}

std::optional<PublishedContext> read_context_at(pid_t pid, const std::string& mapping) {
  PublishedContext context;
  context.mapping = mapping;
  context.address = start_of(mapping);
  context.bytes = std::stoull(mapping.substr(mapping.find('-') + 1), nullptr, 16) - context.address;
  for (int tries = 0; tries < 10'000; ++tries) {
    const std::string header = read_bytes(pid, context.address, header_bytes);
    if (header.size() != header_bytes) return std::nullopt;
    const auto size = static_cast<std::size_t>(number(header, 12, 4));
    context.signature = header.substr(0, 8);
    context.version = static_cast<std::uint32_t>(number(header, 8, 4));
    context.stamp = number(header, 16, 8);
    context.payload_address = number(header, 24, 8);
    context.payload = read_bytes(pid, context.payload_address, size);
    if (context.stamp != 0 && context.payload.size() == size &&
        read_bytes(pid, context.address, header_bytes) == header)
      return context;
  }
  return std::nullopt;
}

std::optional<PublishedContext> read_context(pid_t pid) {
  const auto found = context_mappings(pid);
  if (found.empty()) return std::nullopt;
  EXPECT_EQ(found.size(), 1U) << "more than one process context";
  return read_context_at(pid, found.front());
}

void in_fork(const std::function<void()>& body) {
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    body();
    std::fflush(nullptr);
    _exit(testing::Test::HasFailure() ? 1 : 0);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0) << "in the fork child";
}

std::string decode(const std::string& payload) {
  Child protoc = Child::spawn({"protoc", "--proto_path", VITRINE_TEST_DIR, "--decode",
                               "ProcessContext", "process_context.proto"});
  protoc.write(payload);
  protoc.close_stdin();
  std::istringstream words(protoc.rest_of_output());
  EXPECT_EQ(protoc.wait(), 0) << protoc.rest_of_errors();
  std::string line;
  for (std::string word; words >> word;) line += (line.empty() ? "" : " ") + word;
  return line;
}

std::string value_of(const std::string& decoded, const std::string& key) {
  const std::string before = "key: \"" + key + "\" value { ";
  const auto at = decoded.find(before);
  if (at == std::string::npos) return {};
  const auto from = at + before.size();
  auto end = from;
  for (int depth = 1; end < decoded.size(); ++end) {
    if (decoded[end] == '{') ++depth;
    if (decoded[end] == '}' && --depth == 0) break;
  }
  return decoded.substr(from, end - from - 1);
}

}  // namespace vitrine::test
