#include "sandbox/capabilities.hpp"

#include <fmt/format.h>
#include <sys/capability.h>
#include <sys/prctl.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <memory>

namespace vitrine::sandbox {
namespace {

struct Freed {
  void operator()(void* memory) const { ::cap_free(memory); }
};
using State = std::unique_ptr<std::remove_pointer_t<cap_t>, Freed>;

constexpr cap_flag_t every_set[] = {CAP_EFFECTIVE, CAP_PERMITTED, CAP_INHERITABLE};

/// The running kernel's may be more than those that we were built with.
int count() {
  return std::min<int>(cap_max_bits(), 64);
}

bool is_set(const State& state, int number, cap_flag_t set) {
  cap_flag_value_t value = CAP_CLEAR;
  return cap_get_flag(state.get(), number, set, &value) == 0 && value == CAP_SET;
}

tl::unexpected<Error> failed(const char* doing) {
  return fail(ErrorCode::failed, fmt::format("cannot {}: {}", doing, std::strerror(errno)));
}

/// Needs CAP_SETPCAP, so it comes first. Without it the set stays as it is, which gives us nothing:
/// it only bounds what executing a program could add.
Result<void> narrow_bounds(Capabilities keep) {
  if (!effective_capabilities().has(CAP_SETPCAP)) return {};
  for (int number = 0; number < count(); ++number)
    if (!keep.has(number) && cap_get_bound(number) == 1 && cap_drop_bound(number) != 0)
      return failed("reduce the bounding set of capabilities");
  return {};
}

/// Only what is inheritable can be ambient (capabilities(7)).
Result<void> lower_ambient(Capabilities keep, const State& state) {
  for (int number = 0; number < count(); ++number)
    if (!keep.has(number) && is_set(state, number, CAP_INHERITABLE) &&
        cap_get_ambient(number) == 1 && cap_set_ambient(number, CAP_CLEAR) != 0)
      return failed("drop ambient capabilities");
  return {};
}

}  // namespace

std::vector<std::string> Capabilities::names() const {
  std::vector<std::string> names;
  for (int number = 0; number < 64; ++number) {
    if (!has(number)) continue;
    const std::unique_ptr<char, Freed> name(::cap_to_name(number));
    std::string text = name ? name.get() : fmt::format("cap_{}", number);
    for (char& c : text)
      if (c >= 'a' && c <= 'z') c = static_cast<char>(c - 'a' + 'A');
    names.push_back(std::move(text));
  }
  return names;
}

std::string Capabilities::text() const {
  const std::vector<std::string> all = names();
  if (all.empty()) return "no capability";
  std::string text = all.front();
  for (std::size_t i = 1; i < all.size(); ++i)
    text += (i + 1 == all.size() ? " and " : ", ") + all[i];
  return text;
}

std::string Capabilities::setcap_text() const {
  std::string text;
  for (const std::string& name : names()) {
    if (!text.empty()) text += ',';
    for (const char c : name) text += c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  }
  return text;
}

Capabilities effective_capabilities() {
  const State state(cap_get_proc());
  if (!state) return {};
  std::uint64_t bits = 0;
  for (int number = 0; number < count(); ++number)
    if (is_set(state, number, CAP_EFFECTIVE)) bits |= std::uint64_t{1} << number;
  return Capabilities::of_bits(bits);
}

Capabilities added_for_perf_events() {
  std::ifstream setting("/proc/sys/kernel/perf_event_paranoid");
  int level = 0;
  return setting >> level && level > 2 ? Capabilities{CAP_SYS_ADMIN} : Capabilities{};
}

Result<void> keep_only(Capabilities keep, Capabilities bounds) {
  TRY(narrow_bounds(bounds));
  const State state(cap_get_proc());
  if (!state) return failed("read the capabilities of vitrine");
  TRY(lower_ambient(keep, state));
  for (const cap_flag_t set : every_set)
    for (cap_value_t number = 0; number < count(); ++number)
      if (!keep.has(number) && is_set(state, number, set) &&
          cap_set_flag(state.get(), set, 1, &number, CAP_CLEAR) != 0)
        return failed("drop capabilities");
  if (cap_set_proc(state.get()) != 0) return failed("drop capabilities");
  return {};
}

Result<void> put_into_effect(Capabilities those, bool in_effect) {
  const State state(cap_get_proc());
  if (!state) return failed("read the capabilities of vitrine");
  for (cap_value_t number = 0; number < count(); ++number)
    if (those.has(number) &&
        cap_set_flag(state.get(), CAP_EFFECTIVE, 1, &number, in_effect ? CAP_SET : CAP_CLEAR) != 0)
      return failed("change capabilities");
  if (cap_set_proc(state.get()) != 0) return failed("change capabilities");
  return {};
}

Result<void> set_no_new_privs() {
  if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) return failed("set no_new_privs");
  return {};
}

}  // namespace vitrine::sandbox
