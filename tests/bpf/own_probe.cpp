#include "bpf/own_probe.hpp"

#include <fcntl.h>
#include <link.h>
#include <unistd.h>

// Registers are numbered as the words of pt_regs: r15 r14 r13 r12 rbp rbx r11 r10 r9 r8 rax rcx rdx
// rsi rdi, and rsp is 19.
asm(R"(
  .pushsection .text
  .globl vitrine_test_fire, vitrine_test_site, vitrine_test_end, vitrine_test_end_site
  .type vitrine_test_fire, @function
vitrine_test_fire:
vitrine_test_site:
  nop
  ret
  .type vitrine_test_end, @function
vitrine_test_end:
vitrine_test_end_site:
  nop
  ret
  .globl vitrine_test_fire_with, vitrine_test_site_with
  .type vitrine_test_fire_with, @function
vitrine_test_fire_with:
  push %rbx
  push %rbp
  push %r12
  push %r13
  push %r14
  push %r15
  mov %rsp, vitrine_test_stack(%rip)
  mov 0(%rdi), %r15
  mov 8(%rdi), %r14
  mov 16(%rdi), %r13
  mov 24(%rdi), %r12
  mov 32(%rdi), %rbp
  mov 40(%rdi), %rbx
  mov 48(%rdi), %r11
  mov 56(%rdi), %r10
  mov 64(%rdi), %r9
  mov 72(%rdi), %r8
  mov 80(%rdi), %rax
  mov 88(%rdi), %rcx
  mov 96(%rdi), %rdx
  mov 104(%rdi), %rsi
  mov 152(%rdi), %rsp
  mov 112(%rdi), %rdi
vitrine_test_site_with:
  nop
  mov vitrine_test_stack(%rip), %rsp
  pop %r15
  pop %r14
  pop %r13
  pop %r12
  pop %rbp
  pop %rbx
  ret
  .popsection
  .local vitrine_test_stack
  .comm vitrine_test_stack, 8, 8
)");

namespace vitrine::test {
namespace {

using namespace std::chrono_literals;

/// Where an address of this executable lies in its file.
std::uint64_t file_offset_of(const void* address) {
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

}  // namespace

vitrine_operand indexed(std::uint8_t base, std::uint8_t index, std::uint8_t scale,
                        std::int64_t displacement, std::uint8_t size, std::uint8_t flags) {
  vitrine_operand operand{};
  operand.kind = VITRINE_MEMORY;
  operand.flags = flags;
  operand.size = size;
  operand.base = base;
  operand.index = index;
  operand.scale = scale;
  operand.displacement = static_cast<std::uint64_t>(displacement);
  return operand;
}

vitrine_operand in_memory(std::uint8_t base, std::int64_t displacement, std::uint8_t size,
                          std::uint8_t flags) {
  return indexed(base, VITRINE_NO_REGISTER, 0, displacement, size, flags);
}

vitrine_operand in_register(std::uint8_t number, std::uint8_t size, std::uint8_t flags) {
  vitrine_operand operand = in_memory(number, 0, size, flags);
  operand.kind = VITRINE_REGISTER;
  return operand;
}

vitrine_operand constant(std::uint64_t value, std::uint8_t size, std::uint8_t flags) {
  vitrine_operand operand =
      in_memory(VITRINE_NO_REGISTER, static_cast<std::int64_t>(value), size, flags);
  operand.kind = VITRINE_CONSTANT;
  return operand;
}

vitrine_capture value(const vitrine_operand& operand) {
  vitrine_capture capture{};
  capture.operand = operand;
  return capture;
}

vitrine_capture string(const vitrine_operand& address, std::uint32_t most) {
  vitrine_capture capture = value(address);
  capture.form = VITRINE_CAPTURE_STRING;
  capture.most = most;
  return capture;
}

vitrine_capture bytes(const vitrine_operand& address, const vitrine_operand& length,
                      std::uint32_t most) {
  vitrine_capture capture = string(address, most);
  capture.form = VITRINE_CAPTURE_BYTES_AT;
  capture.length = length;
  return capture;
}

vitrine_site_program program(vitrine_role role, std::initializer_list<vitrine_capture> captures) {
  vitrine_site_program made{};
  made.role = role;
  made.value = made.match = VITRINE_NO_CAPTURE;
  for (const vitrine_capture& capture : captures) made.capture[made.captures++] = capture;
  return made;
}

bpf::AttachSite own_site(const char* address, std::uint32_t program) {
  bpf::AttachSite site;
  site.file_offset = file_offset_of(address);
  site.program = program;
  return site;
}

OwnTracer::OwnTracer(const bpf::TracerOptions& options) {
  auto opened = bpf::Tracer::open(options);
  EXPECT_TRUE(opened) << opened.error().message;
  if (opened) tracer = std::move(*opened);
}

void OwnTracer::trace(const char* site, const vitrine_site_program& program, std::uint32_t index,
                      std::optional<pid_t> pid) {
  ASSERT_TRUE(tracer);
  auto told = tracer->set_program(index, program);
  ASSERT_TRUE(told) << told.error().message;
  const bpf::AttachSite where = own_site(site, index);
  const int self = ::open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
  auto attached = tracer->attach(self, std::span(&where, 1), pid);
  ::close(self);
  ASSERT_TRUE(attached) << attached.error().message;
  ASSERT_TRUE(attached->failures.empty()) << attached->failures.front().error.message;
  attachment.add(std::move(*attached));
}

std::vector<bpf::Fire> OwnTracer::take(std::size_t count) {
  std::vector<bpf::Fire> fires;
  for (int empty = 0; fires.size() < count && empty < 3;) {
    auto polled = tracer->poll(1s, [&](const bpf::Fire& fire) {
      fires.push_back(fire);
      const auto keep = [&](std::span<const std::byte>& view) {
        kept.emplace_back(view.begin(), view.end());
        view = kept.back();
      };
      for (bpf::Captured& captured : fires.back().captures) keep(captured.bytes);
      for (bpf::FireSet& set : fires.back().sets)
        for (auto& chunk : set.chunks) keep(chunk.bytes);
    });
    EXPECT_TRUE(polled) << polled.error().message;
    if (!polled) break;
    if (*polled == 0) ++empty;
  }
  return fires;
}

std::string text_of(const bpf::Captured& captured) {
  return {reinterpret_cast<const char*>(captured.bytes.data()), captured.bytes.size()};
}

}  // namespace vitrine::test
