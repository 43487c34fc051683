#include "subject.hpp"

namespace subject {
namespace {

struct Shape {
  virtual ~Shape() = default;
  virtual int area(int side) const { return salted(side) * side; }
};
struct Cube : Shape {
  int area(int side) const override { return 6 * Shape::area(side); }
};

}  // namespace

__attribute__((noinline)) int elsewhere(const std::vector<int>& values) {
  static const Cube cube;
  const Shape& shape = cube;
  int sum = 0;
  for (const int value : values) sum += shape.area(value) + salted(sum);
  return sum;
}

}  // namespace subject
