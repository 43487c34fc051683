#include "publish/key_map.hpp"

#include "publish/context_publisher.hpp"

namespace vitrine::publish {

std::optional<std::uint8_t> otel_key_index(std::string_view name) noexcept {
  return context::Publisher::instance().key_index(name);
}

}  // namespace vitrine::publish
