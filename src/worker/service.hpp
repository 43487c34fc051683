// Service: what a worker does for who asks it.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "base/file_descriptor.hpp"

namespace vitrine::worker {

/// The exit status of a worker that ran out of memory, for libraries that cannot throw.
inline constexpr int out_of_memory = 70;

class Service {
 public:
  Service() = default;
  Service(const Service&) = delete;
  Service& operator=(const Service&) = delete;
  virtual ~Service() = default;

  /// `file`: what came with the question; often none. May use up its memory and its time, and may
  /// crash: that is what it is in a worker for.
  virtual std::vector<std::byte> answer(std::span<const std::byte> question,
                                        FileDescriptor file) = 0;
};

}  // namespace vitrine::worker
