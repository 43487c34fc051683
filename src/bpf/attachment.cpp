#include <unistd.h>

#include <iterator>
#include <utility>

#include "bpf/side_by_side.hpp"
#include "bpf/tracer.hpp"

namespace vitrine::bpf {

Attachment& Attachment::operator=(Attachment&& other) noexcept {
  if (this == &other) return *this;
  detach();
  links = std::exchange(other.links, {});
  failures = std::exchange(other.failures, {});
  return *this;
}

void Attachment::add(Attachment other) {
  links.insert(links.end(), other.links.begin(), other.links.end());
  other.links.clear();
  failures.insert(failures.end(), std::make_move_iterator(other.failures.begin()),
                  std::make_move_iterator(other.failures.end()));
}

void Attachment::detach() {
  side_by_side(links.size(), [&](std::size_t i) { ::close(links[i]); });
  links.clear();
}

Result<Attachment> Tracer::attach(int file, std::span<const AttachSite> sites,
                                  std::optional<pid_t> pid) {
  const FileSites one{file, "the file", sites};
  return attach(std::span(&one, 1), pid);
}

}  // namespace vitrine::bpf
