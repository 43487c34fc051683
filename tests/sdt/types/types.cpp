// What only C++ has, and the rest of types.h in a namespace, templates and lambdas.
#include <string>
#include <vector>
#if __cplusplus >= 201703L
#include <string_view>
#endif
#include "types.h"

namespace shop {
enum class Status : signed char { bad = -2, good = 1 };
namespace {
VITRINE_ENUMERATORS(shop::Status, bad, good);
}

struct Order {
  int id;
  std::string item;
  const std::string& name() const { return item; }
};

static int made;
static std::string make(const char* text) {
  ++made;
  return text;
}

template <class T>
int work(const Order& order, const std::vector<unsigned char>& bytes, T number) {
  VITRINE_PROBE(types, scoped, Status::bad, nullptr, number);
  VITRINE_TYPED_PROBE(types, containers, (id, order.id), (item, order.item), (name, order.name()),
                      (bytes));
  VITRINE_TYPED_PROBE(types, temporary, (text, make("temporary")));
  VITRINE_TYPED_PROBE(types, typed_scoped, VITRINE_ENUM(status, Status::good, shop::Status),
                      (bare, Status::bad), (null, nullptr), (number));
  const auto in_lambda = [&] {
    VITRINE_LAZY_TYPED_PROBE(types, in_lambda, (item, make("lambda")));
  };
  in_lambda();
#if __cplusplus >= 201703L
  VITRINE_TYPED_PROBE(types, view, (view, std::string_view(order.item).substr(1)));
#else
  VITRINE_TYPED_PROBE(types, view, (view, order.item));
#endif
  return made == 1 ? 0 : 5;  // the temporary once, the lambda's not at all
}
}  // namespace shop

int main(int argc, char**) {
  const shop::Order order{argc, "kettle"};
  if (const int status = shop::work(order, {1, 2, 3}, 2.5f)) return status;
  return all(argc);
}
