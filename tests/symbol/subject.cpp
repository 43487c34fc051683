// What is symbolised: functions inlined into each other across two files, lambdas, templates, local
// classes, names without linkage.
#include "subject.hpp"

#include <algorithm>
#include <cstdio>
#include <numeric>
#include <string>
#include <vector>

namespace {

struct Order {
  int key;
  std::string text;
};

template <class T>
inline T squared(T value) {
  return value * value + subject::salted(static_cast<int>(value));
}

__attribute__((noinline)) int total(const std::vector<int>& values) {
  int sum = 0;
  for (const int value : values) sum += squared(value);
  return sum;
}

__attribute__((noinline)) std::vector<Order> sorted(std::vector<Order> orders) {
  struct ByKey {
    bool operator()(const Order& a, const Order& b) const {
      return a.key != b.key ? a.key < b.key : a.text < b.text;
    }
  };
  std::sort(orders.begin(), orders.end(), ByKey());
  return orders;
}

}  // namespace

extern "C" __attribute__((noinline)) int plain_c(int n) {
  return n > 1 ? n * 3 : n;
}

int main(int argc, char** argv) {
  std::vector<int> values(static_cast<std::size_t>(argc) + 8);
  std::iota(values.begin(), values.end(), argc);
  std::vector<Order> orders;
  for (const int value : values) orders.push_back({-value, argv[0]});
  const auto scaled = [&](int by) {
    return total(values) * by + static_cast<int>(sorted(orders).front().text.size());
  };
  const auto shifted = [&](int by) { return total(values) + by; };
  std::printf("%d %d %d\n", scaled(plain_c(argc)), shifted(argc), subject::elsewhere(values));
  return 0;
}
