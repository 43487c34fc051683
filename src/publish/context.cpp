#include "vitrine/context.hpp"

#include "publish/context_publisher.hpp"

namespace vitrine::context {

// Copies: what the caller's operator new made is not released here, where there may be another operator
// delete (without_libstdcxx.cpp).
Status publish(std::vector<Attribute> resource, Options options) {  // NOLINT
  return Publisher::instance().publish(resource, options);
}

Status update(std::vector<Attribute> resource) {  // NOLINT
  return Publisher::instance().update(resource);
}

void drop() {
  Publisher::instance().drop();
}

}  // namespace vitrine::context
