#include "vitrine/context.hpp"

#include "publish/context_publisher.hpp"
#include "publish/key_map.hpp"

namespace vitrine::context {
inline namespace VITRINE_DETAIL_ABI_NAMESPACE {
namespace {

/// The context is on display: so may be keys that could not be before.
Status then_keys(const Status& status) noexcept {
  if (status) publish::retry_keys();
  return status;
}

}  // namespace

Status publish(std::vector<Attribute> resource, Options options) noexcept {
  return then_keys(Publisher::instance().publish(resource, options));
}

Status update(std::vector<Attribute> resource) noexcept {
  return then_keys(Publisher::instance().update(resource));
}

void drop() noexcept {
  Publisher::instance().drop();
}

}  // namespace VITRINE_DETAIL_ABI_NAMESPACE
}  // namespace vitrine::context
