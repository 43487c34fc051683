#include "publish/key_map.hpp"

#include <atomic>

#include "publish/context_publisher.hpp"

namespace vitrine::publish {
namespace {

std::atomic<void (*)() noexcept> to_retry{nullptr};

}  // namespace

std::optional<std::uint8_t> otel_key_index(std::string_view name, bool* later) noexcept {
  using Answer = context::Publisher::KeyIndex;
  const Answer got = context::Publisher::instance().key_index(name);
  if (later != nullptr) *later = got.answer == Answer::not_now;
  if (got.answer != Answer::assigned) return std::nullopt;
  return got.index;
}

void retry_keys_by(void (*retry)() noexcept) noexcept {
  to_retry.store(retry, std::memory_order_release);
}

void retry_keys() noexcept {
  if (const auto retry = to_retry.load(std::memory_order_acquire)) retry();
}

}  // namespace vitrine::publish
