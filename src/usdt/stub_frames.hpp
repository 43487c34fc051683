// Call frame information of stubs (.eh_frame): by it debuggers and profilers know who called one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "usdt/machine.hpp"

namespace vitrine::usdt {

/// An .eh_frame section that grows by a function at a time. Sources: the psABIs of the machines
/// (register numbers), the Linux Standard Base, "Exception Frames".
class StubFrames {
 public:
  explicit StubFrames(const ObjectMachine& machine);

  /// A function of `size` bytes that leaves the stack alone. Returns where the word is that must
  /// come to be the function's address, relative to itself: 4 bytes.
  std::uint64_t add(std::uint32_t size);

  [[nodiscard]] std::vector<std::byte> take() { return std::move(bytes_); }
  [[nodiscard]] std::uint32_t alignment() const { return machine_.wide ? 8 : 4; }

 private:
  void begin();
  void end();

  const ObjectMachine& machine_;
  std::vector<std::byte> bytes_;
  std::size_t entry_ = 0;  ///< where the one being written began
};

}  // namespace vitrine::usdt
