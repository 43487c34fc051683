#include <unistd.h>

#include <utility>

#include "bpf/tracer.hpp"

namespace vitrine::bpf {

Attachment& Attachment::operator=(Attachment&& other) noexcept {
  if (this == &other) return *this;
  detach();
  links = std::exchange(other.links, {});
  failures = std::exchange(other.failures, {});
  return *this;
}

void Attachment::detach() noexcept {
  for (const int link : links) ::close(link);
  links.clear();
}

}  // namespace vitrine::bpf
