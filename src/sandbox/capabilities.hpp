// Capabilities: what the kernel lets a thread do beyond what everybody may (capabilities(7)), as
// values, and how to give them up.
#pragma once

#include <linux/capability.h>

#include <cstdint>
#include <initializer_list>
#include <string>
#include <vector>

#include "base/result.hpp"

namespace vitrine::sandbox {

/// A set of capabilities, each a number CAP_* of linux/capability.h.
class Capabilities {
 public:
  constexpr Capabilities() = default;
  constexpr Capabilities(std::initializer_list<int> numbers) {
    for (const int number : numbers) bits_ |= std::uint64_t{1} << number;
  }

  [[nodiscard]] constexpr bool empty() const { return bits_ == 0; }
  [[nodiscard]] constexpr bool has(int number) const { return (bits_ >> number & 1) != 0; }
  [[nodiscard]] constexpr bool has_all(Capabilities others) const {
    return (others.bits_ & ~bits_) == 0;
  }
  /// Those that `others` have not.
  [[nodiscard]] constexpr Capabilities without(Capabilities others) const {
    return of_bits(bits_ & ~others.bits_);
  }

  /// As the masks of /proc/PID/status ("CapEff"): bit n is capability n.
  [[nodiscard]] constexpr std::uint64_t bits() const { return bits_; }
  static constexpr Capabilities of_bits(std::uint64_t bits) {
    Capabilities set;
    set.bits_ = bits;
    return set;
  }

  friend constexpr Capabilities operator|(Capabilities a, Capabilities b) {
    return of_bits(a.bits_ | b.bits_);
  }
  friend constexpr Capabilities operator&(Capabilities a, Capabilities b) {
    return of_bits(a.bits_ & b.bits_);
  }
  friend constexpr bool operator==(Capabilities, Capabilities) = default;

  /// Their names, by number: "CAP_SYS_PTRACE".
  [[nodiscard]] std::vector<std::string> names() const;
  /// "CAP_SYS_PTRACE, CAP_PERFMON and CAP_BPF"; "no capability" when there is none.
  [[nodiscard]] std::string text() const;
  /// As setcap(8) takes them: "cap_sys_ptrace,cap_perfmon,cap_bpf"; empty when there is none.
  [[nodiscard]] std::string setcap_text() const;

 private:
  std::uint64_t bits_ = 0;
};

/// Those that the calling thread has in effect.
Capabilities effective_capabilities();

/// Those that perf events take beside CAP_PERFMON: CAP_SYS_ADMIN from level 3 of
/// kernel.perf_event_paranoid on, which kernels of Debian and Ubuntu have, and set, beyond Linux's own
/// levels; else none.
Capabilities added_for_perf_events();

/// Drops, for good, all of the calling thread's capabilities that are not in `keep`: effective,
/// permitted, inheritable and ambient, and, as far as we may (CAP_SETPCAP), of the bounding set.
/// Threads that it starts from now on have no more; those that run keep theirs. `bounds`: what the
/// bounding set keeps, as CAP_SETPCAP may be gone when more is dropped. Errors: failed.
Result<void> keep_only(Capabilities keep, Capabilities bounds);
inline Result<void> keep_only(Capabilities keep) {
  return keep_only(keep, keep);
}

/// Takes `those` out of effect in the calling thread, or puts them into effect again. They are kept: what
/// is needed only now and then need not be in effect between. Errors: failed (one was dropped).
Result<void> put_into_effect(Capabilities those, bool in_effect);

/// That no program we execute has more rights than we have: no setuid, no file capabilities.
/// Errors: failed.
Result<void> set_no_new_privs();

}  // namespace vitrine::sandbox
