// Probes in the test's own program: one-byte nops, with the registers and the memory that a test
// wants at them; and how a tracer is told to look there.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <cstdint>
#include <initializer_list>

#include "bpf/tracer.hpp"

extern "C" {
/// At the site rdi, rsi and rdx hold the arguments.
void vitrine_test_fire(std::uint64_t a, std::uint64_t b = 0, std::uint64_t c = 0);
extern const char vitrine_test_site[];

/// At this site all registers hold what `words` has for them (the order of probe/operand.h), rsp
/// included. One thread at a time.
void vitrine_test_fire_with(const std::uint64_t* words);
extern const char vitrine_test_site_with[];

/// Ends a latency that a vitrine_test_fire began.
void vitrine_test_end(std::uint64_t a, std::uint64_t b = 0, std::uint64_t c = 0);
extern const char vitrine_test_end_site[];
}

namespace vitrine::test {

inline constexpr std::uint8_t r15 = 0, r14 = 1, r13 = 2, r12 = 3, rbp = 4, rbx = 5, rax = 10,
                              rcx = 11, rdx = 12, rsi = 13, rdi = 14, rsp = 19;

vitrine_operand in_register(std::uint8_t number, std::uint8_t size = 8, std::uint8_t flags = 0);
vitrine_operand constant(std::uint64_t value, std::uint8_t size = 8, std::uint8_t flags = 0);
vitrine_operand in_memory(std::uint8_t base, std::int64_t displacement, std::uint8_t size,
                          std::uint8_t flags = 0);
vitrine_operand indexed(std::uint8_t base, std::uint8_t index, std::uint8_t scale,
                        std::int64_t displacement, std::uint8_t size, std::uint8_t flags = 0);

vitrine_capture value(const vitrine_operand& operand);
vitrine_capture string(const vitrine_operand& address, std::uint32_t most = 256);
vitrine_capture bytes(const vitrine_operand& address, const vitrine_operand& length,
                      std::uint32_t most = 256);

vitrine_site_program program(vitrine_role role, std::initializer_list<vitrine_capture> captures);

/// A site of this executable.
bpf::AttachSite own_site(const char* address, std::uint32_t program = 0);

/// A tracer with its uprobes on sites of this process.
struct OwnTracer {
  std::unique_ptr<bpf::Tracer> tracer;
  bpf::Attachment attachment;

  /// Opens it. Fails the test when it cannot.
  explicit OwnTracer(const bpf::TracerOptions& options = {});

  /// Has fires at `site` lead to `program`; without `pid`, those of children too. Fails the test
  /// when it cannot.
  void trace(const char* site, const vitrine_site_program& program, std::uint32_t index = 0,
             std::optional<pid_t> pid = ::getpid());

  /// The next `count` fires, copied. Fewer when no more come.
  std::vector<bpf::Fire> take(std::size_t count);

  /// Whether a fire's captured bytes are these. Views of taken fires would dangle, so their bytes
  /// are kept here.
  std::vector<std::vector<std::byte>> kept;
};

std::string text_of(const bpf::Captured& captured);

}  // namespace vitrine::test
