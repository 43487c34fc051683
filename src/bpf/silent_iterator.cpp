#include "bpf/silent_iterator.hpp"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <unistd.h>

#include <array>
#include <cerrno>

namespace vitrine::bpf {

int run_silently(const bpf_program* program, const bpf_map* elements) {
  bpf_iter_link_info which{};
  bpf_iter_attach_opts options{};
  options.sz = sizeof options;
  if (elements != nullptr) {
    which.map.map_fd = static_cast<__u32>(bpf_map__fd(elements));
    options.link_info = &which;
    options.link_info_len = sizeof which;
  }
  bpf_link* link = bpf_program__attach_iter(program, &options);
  if (link == nullptr) return errno;
  const int fd = bpf_iter_create(bpf_link__fd(link));
  int error = fd < 0 ? errno : 0;
  std::array<char, 64> nothing{};
  while (fd >= 0) {
    const ssize_t got = ::read(fd, nothing.data(), nothing.size());
    if (got == 0) break;
    if (got < 0 && errno != EAGAIN && errno != EINTR) {
      error = errno;
      break;
    }
  }
  if (fd >= 0) ::close(fd);
  bpf_link__destroy(link);
  return error;
}

}  // namespace vitrine::bpf
