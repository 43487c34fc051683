#include "vitrine/context.hpp"

#include "publish/context_publisher.hpp"

namespace vitrine::context {

Status publish(std::vector<Attribute> resource, Options options) {
  return Publisher::instance().publish(std::move(resource), std::move(options));
}

Status update(std::vector<Attribute> resource) {
  return Publisher::instance().update(std::move(resource));
}

void drop() {
  Publisher::instance().drop();
}

}  // namespace vitrine::context
