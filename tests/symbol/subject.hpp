#pragma once

#include <vector>

namespace subject {

inline int salted(int value) {
  if (value % 7 == 3) return value ^ 0x55;
  return value + 11;
}

int elsewhere(const std::vector<int>& values);

}  // namespace subject
