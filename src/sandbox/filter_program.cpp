#include "sandbox/filter_program.hpp"

#include <linux/audit.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <sys/ioctl.h>

#include <cerrno>
#include <cstddef>
#include <iterator>
#include <span>
#include <utility>

namespace vitrine::sandbox {
namespace {

#if defined(__x86_64__)
constexpr std::uint32_t our_architecture = AUDIT_ARCH_X86_64;
constexpr std::uint32_t x32_calls = 0x40000000;  // __X32_SYSCALL_BIT
#elif defined(__aarch64__)
constexpr std::uint32_t our_architecture = AUDIT_ARCH_AARCH64;
#else
#error "this architecture has no known number"
#endif

/// Those from `begin` to the next stretch.
struct Stretch {
  std::uint32_t begin;
  std::uint32_t action;
  Ruling ruling;
};

constexpr std::uint32_t low_half_of_argument(std::size_t index) {
  static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__);
  return static_cast<std::uint32_t>(offsetof(seccomp_data, args) + index * sizeof(__u64));
}

class Writer {
 public:
  explicit Writer(std::uint32_t refusal) : refusal_(refusal) { program_.reserve(256); }

  void load(std::uint32_t offset) { add(BPF_LD | BPF_W | BPF_ABS, offset); }
  void check_architecture() {
    load(offsetof(seccomp_data, arch));
    add(BPF_JMP | BPF_JEQ | BPF_K, our_architecture, 1, 0);
    end(SECCOMP_RET_KILL_PROCESS);
  }

  /// A binary search for the loaded number; `stretches` are not empty.
  void search(std::span<const Stretch> stretches) {
    if (stretches.size() == 1) return rule(stretches[0]);
    const std::size_t middle = stretches.size() / 2, at = program_.size();
    add(BPF_JMP | BPF_JGE | BPF_K, stretches[middle].begin);
    search(stretches.first(middle));
    const std::size_t distance = program_.size() - at - 1;
    if (distance <= UINT8_MAX) {
      program_[at].jt = static_cast<__u8>(distance);
    } else {  // what follows jumps by distances within itself: it may move
      program_[at].jf = 1;
      program_.insert(program_.begin() + static_cast<std::ptrdiff_t>(at) + 1,
                      {BPF_JMP | BPF_JA, 0, 0, static_cast<__u32>(distance)});
    }
    search(stretches.subspan(middle));
  }

  std::vector<sock_filter> take() && { return std::move(program_); }

 private:
  void add(int code, std::uint32_t k, std::size_t if_true = 0, std::size_t if_false = 0) {
    program_.push_back(
        {static_cast<__u16>(code), static_cast<__u8>(if_true), static_cast<__u8>(if_false), k});
  }
  void end(std::uint32_t action) { add(BPF_RET | BPF_K, action); }

  void rule(const Stretch& stretch) {
    switch (stretch.ruling) {
      case Ruling::threads:
        return threads();
      case Ruling::descriptors:
        return descriptors();
      default:
        return end(stretch.action);
    }
  }

  /// Threads and processes, but no namespaces: within one of users it would have every capability.
  /// The flags of clone3 are in memory, which no filter sees: it is on no list, and libcs then use
  /// clone.
  void threads() {
    constexpr std::uint32_t namespaces = CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS |
                                         CLONE_NEWIPC | CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNET;
    load(low_half_of_argument(0));
    add(BPF_JMP | BPF_JSET | BPF_K, namespaces, 1, 0);
    end(SECCOMP_RET_ALLOW);
    end(refusal_);
  }

  /// All but what would change the terminal we run on, or type into it (TIOCSTI): of the requests of
  /// terminals, those that ask. The kernel takes 32 bits of the argument, so those are compared.
  void descriptors() {
    constexpr std::uint32_t asks[] = {TCGETS,  TIOCGPGRP, TIOCGWINSZ, FIONREAD,
                                      FIONBIO, FIOCLEX,   0x802c542a /* TCGETS2 */};
    constexpr std::uint32_t type = 0xff00, terminals = 'T' << 8;
    load(low_half_of_argument(1));
    for (std::size_t left = std::size(asks); left > 0; --left)
      add(BPF_JMP | BPF_JEQ | BPF_K, asks[left - 1], left + 1, 0);
    add(BPF_ALU | BPF_AND | BPF_K, type);
    add(BPF_JMP | BPF_JEQ | BPF_K, terminals, 1, 0);
    end(SECCOMP_RET_ALLOW);
    end(refusal_);
  }

  std::uint32_t refusal_;
  std::vector<sock_filter> program_;
};

}  // namespace

std::vector<sock_filter> filter_program(const std::map<std::uint32_t, Ruling>& calls,
                                        std::uint32_t refusal) {
  const auto action_of = [refusal](Ruling ruling) -> std::uint32_t {
    switch (ruling) {
      case Ruling::allowed:
        return SECCOMP_RET_ALLOW;
      case Ruling::trapped:
        return SECCOMP_RET_TRAP;
      case Ruling::absent:
        return SECCOMP_RET_ERRNO | ENOSYS;
      default:
        return refusal;
    }
  };
  std::vector<Stretch> stretches{{0, refusal, Ruling::refused}};
  stretches.reserve(2 * calls.size() + 2);
  const auto begin = [&](std::uint32_t number, Ruling ruling) {
    if (stretches.back().begin == number) stretches.pop_back();
    if (stretches.empty() || stretches.back().ruling != ruling)
      stretches.push_back({number, action_of(ruling), ruling});
  };
  for (const auto& [number, ruling] : calls) {
    begin(number, ruling);
    begin(number + 1, Ruling::refused);
  }
#if defined(__x86_64__)
  stretches.push_back({x32_calls, SECCOMP_RET_KILL_PROCESS, Ruling::refused});
#endif
  Writer writer(refusal);
  writer.check_architecture();
  writer.load(offsetof(seccomp_data, nr));
  writer.search(stretches);
  return std::move(writer).take();
}

}  // namespace vitrine::sandbox
