// SeenThread: a thread of the target as one reading found it.
#pragma once

#include <array>
#include <cstring>
#include <string>
#include <string_view>

#include "base/memory.hpp"
#include "target/threads.hpp"

namespace vitrine::observe {

struct SeenThread {
  target::ThreadId id;
  std::array<char, 16> comm{};
  Address thread_pointer = 0;  ///< 0: not known
  bool at_rest = false;        ///< it was on no CPU
  std::uint64_t runs = 0;      ///< how often it has run: equal at two rests, it ran nothing between

  [[nodiscard]] std::string name() const {
    return {comm.data(), ::strnlen(comm.data(), comm.size())};
  }
  void set_name(std::string_view name) { name.copy(comm.data(), comm.size() - 1); }
};

}  // namespace vitrine::observe
