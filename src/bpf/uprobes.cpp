#include "bpf/uprobes.hpp"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <fmt/format.h>
#include <linux/capability.h>
#include <linux/perf_event.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <fstream>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/signals.hpp"
#include "bpf/attachment.hpp"
#include "bpf/kernel_log.hpp"
#include "bpf/wire/trace.h"

namespace vitrine::bpf {
namespace {

constexpr int kernel_enotsupp = 524;  // ENOTSUPP of linux/errno.h, which user space has no name for
constexpr std::size_t max_sites = 1U << 20;  // of one link
/// Parts of sites that may be refused at once and are halved. What is beyond counts as failed.
constexpr std::size_t max_refused = 2048;

/// The start of union bpf_attr for BPF_LINK_CREATE with BPF_TRACE_UPROBE_MULTI, which the headers of
/// Linux 6.1 do not have.
struct LinkCreate {
  std::uint32_t program;
  std::uint32_t target;
  std::uint32_t attach_type;
  std::uint32_t flags;
  std::uint64_t path;
  std::uint64_t offsets;
  std::uint64_t ref_ctr_offsets;
  std::uint64_t cookies;
  std::uint32_t count;
  std::uint32_t multi_flags;
  std::uint32_t pid;
  std::uint32_t padding;
};
static_assert(sizeof(LinkCreate) == 64);

constexpr std::uint32_t multi_return = 1;  // BPF_F_UPROBE_MULTI_RETURN
constexpr int link_create_command = 28;    // BPF_LINK_CREATE

int create_link(LinkCreate& attributes) {
  return static_cast<int>(::syscall(SYS_bpf, link_create_command, &attributes, sizeof attributes));
}

std::uint64_t pointer(const void* address) {
  return reinterpret_cast<std::uint64_t>(address);
}

std::string path_of(int file) {
  return fmt::format("/proc/self/fd/{}", file);
}

/// What the kernel requires of one that attaches.
struct Required {
  int capability;  ///< beside CAP_BPF
  std::string_view text;
};

constexpr Required for_links{CAP_PERFMON, "CAP_BPF and CAP_PERFMON"};
constexpr Required for_perf_events{CAP_SYS_ADMIN, "CAP_SYS_ADMIN and CAP_BPF"};

Error refused(const Required& required, int error) {
  return not_permitted(
      "attach to probes", error, {CAP_BPF, required.capability},
      fmt::format(
          "give vitrine {} (run it as root, or use setcap: vitrine doctor prints the command)",
          required.text));
}

/// What an errno of attaching one site means.
Error explain(int error, const AttachSite& site) {
  const auto at = fmt::format("at file offset {:#x}", site.file_offset);
  switch (error) {
    case EINVAL:
      if (site.semaphore_offset % 2 != 0)
        return {ErrorCode::malformed,
                fmt::format("the semaphore of the probe {} is at an odd offset ({:#x})", at,
                            site.semaphore_offset),
                ""};
      return {
          ErrorCode::failed,
          fmt::format("the kernel refuses to attach {}: another tracer attached there with another "
                      "semaphore or none, or the file ends before it",
                      at),
          "end the other tracer (bpftrace, perf), or see dmesg for \"ref_ctr_offset mismatch\""};
    case kernel_enotsupp:
    case EOPNOTSUPP:
      return {ErrorCode::unsupported,
              fmt::format("the kernel cannot put a uprobe on the instruction {}", at), ""};
    case EIO:
      return {ErrorCode::unsupported,
              fmt::format("the kernel cannot read the file's instruction {}", at), ""};
    default:
      return {ErrorCode::failed, fmt::format("cannot attach {}: {}", at, std::strerror(error)), ""};
  }
}

/// Errors that no other choice of sites would change; nullopt: it may be one site's own.
std::optional<Error> general_error(int error, const Required& required, std::optional<pid_t> pid) {
  switch (error) {
    case EPERM:
    case EACCES:
      return refused(required, error);
    case ESRCH:
      return Error{ErrorCode::not_found, fmt::format("no process {}", pid.value_or(0)), ""};
    case EBADF:
    case EISDIR:
      return Error{ErrorCode::usage, "the file to attach to is not a regular file", ""};
    case EMFILE:
    case ENFILE:
      return Error{ErrorCode::limit, "too many open files to attach to all sites",
                   "raise the limit (ulimit -n), or choose fewer probes"};
    case ENOMEM:
      return Error{ErrorCode::failed, "not enough kernel memory to attach to all sites", ""};
    default:
      return std::nullopt;
  }
}

Error interrupted() {
  return {ErrorCode::interrupted, "interrupted while attaching", ""};
}

/// The sites of one file to attach to, as the kernel takes them.
class MultiFile {
 public:
  explicit MultiFile(const FileSites& file) : path_(path_of(file.file)) {
    for (std::size_t i = 0; i < file.sites.size(); ++i) add(file.sites[i], i);
  }
  /// Those without the refused ones.
  MultiFile(const FileSites& file, const std::set<std::size_t>& refused)
      : path_(path_of(file.file)) {
    for (std::size_t i = 0; i < file.sites.size(); ++i)
      if (!refused.contains(i)) add(file.sites[i], i);
  }

  [[nodiscard]] std::size_t size() const { return index_.size(); }
  /// Index of a site in the caller's list.
  [[nodiscard]] std::size_t index(std::size_t site) const { return index_[site]; }

  /// Returns a link, or minus an errno.
  [[nodiscard]] int attach(const AttachRequest& request, std::size_t first,
                           std::size_t count) const {
    LinkCreate attributes{};
    attributes.program = static_cast<std::uint32_t>(request.program);
    attributes.attach_type = uprobe_multi_attach_type;
    attributes.path = pointer(path_.c_str());
    attributes.offsets = pointer(offsets_.data() + first);
    attributes.ref_ctr_offsets = any_semaphore_ ? pointer(semaphores_.data() + first) : 0;
    attributes.cookies = pointer(cookies_.data() + first);
    attributes.count = static_cast<std::uint32_t>(count);
    attributes.multi_flags = request.at_return ? multi_return : 0;
    attributes.pid = static_cast<std::uint32_t>(request.pid.value_or(0));
    const int link = create_link(attributes);
    return link >= 0 ? link : -errno;
  }

 private:
  void add(const AttachSite& site, std::size_t index) {
    index_.push_back(index);
    offsets_.push_back(site.file_offset + site.skip);
    semaphores_.push_back(site.semaphore_offset);
    cookies_.push_back(cookie_of(site));
    any_semaphore_ = any_semaphore_ || site.semaphore_offset != 0;
  }

  std::string path_;
  std::vector<std::size_t> index_;
  std::vector<std::uint64_t> offsets_, semaphores_, cookies_;
  bool any_semaphore_ = false;
};

/// Halves what the kernel refuses until it is one site: all parts of one size at once, as each
/// refusal waits. Then those that it did not refuse get one link again: when we are killed, it waits
/// for one after the other.
class MultiAttacher {
 public:
  explicit MultiAttacher(const AttachRequest& request) : request_(request) {}

  Result<Attachment> run() {
    std::vector<File> files;
    for (std::size_t i = 0; i < request_.files.size(); ++i)
      files.push_back({i, MultiFile(request_.files[i]), {}, {}});
    TRY(attach(files));
    std::vector<File> again;
    Attachment in_parts;
    for (File& file : files) {
      (file.refused.empty() ? all_ : in_parts).add(std::move(file.attached));
      if (!file.refused.empty())
        again.push_back(
            {file.number, MultiFile(request_.files[file.number], file.refused), {}, {}});
    }
    in_parts.detach();  // before: what is attached to twice fires twice
    TRY(attach(again));
    for (File& file : again) all_.add(std::move(file.attached));
    return std::move(all_);
  }

 private:
  struct File {
    std::size_t number;  ///< of the request's
    MultiFile sites;
    Attachment attached;
    std::set<std::size_t> refused;  ///< of the request's sites
  };
  struct Part {
    File* file;
    std::size_t first, count;
    std::optional<int> link{};  ///< or minus an errno; nothing: not tried
  };

  /// On an error all that is attached is in `all_`, to be let go at once.
  Result<void> attach(std::vector<File>& files) {
    std::vector<Part> parts;
    for (File& file : files)
      for (std::size_t first = 0; first < file.sites.size(); first += max_sites)
        parts.push_back({&file, first, std::min(max_sites, file.sites.size() - first)});
    while (!parts.empty()) {
      parallel_for(parts.size(), [&](std::size_t i) {
        Part& part = parts[i];
        if (!request_.stopped())
          part.link = part.file->sites.attach(request_, part.first, part.count);
      });
      for (const Part& part : parts)
        if (part.link.value_or(-1) >= 0) part.file->attached.links.push_back(*part.link);
      auto left = halve(parts);
      if (!left) {
        for (File& file : files) all_.add(std::move(file.attached));
        return tl::unexpected(std::move(left.error()));
      }
      parts = std::move(*left);
    }
    return {};
  }

  /// What to try next.
  Result<std::vector<Part>> halve(const std::vector<Part>& tried) {
    std::vector<Part> left;
    for (const Part& part : tried) {
      if (!part.link) return tl::unexpected(interrupted());
      if (*part.link >= 0) continue;
      const int error = -*part.link;
      const FileSites& file = request_.files[part.file->number];
      if (auto general = general_error(error, for_links, request_.pid))
        return fail_while(fmt::format("attaching to {}", file.path), std::move(*general));
      if (part.count > 1 && left.size() < 2 * max_refused) {
        const std::size_t half = part.count / 2;
        left.push_back({part.file, part.first, half});
        left.push_back({part.file, part.first + half, part.count - half});
        continue;
      }
      for (std::size_t i = part.first; i < part.first + part.count; ++i) {
        const std::size_t site = part.file->sites.index(i);
        part.file->refused.insert(site);
        all_.failures.push_back({part.file->number, site, explain(error, file.sites[site])});
      }
    }
    return left;
  }

  const AttachRequest& request_;
  Attachment all_;
};

Result<std::uint32_t> perf_type_of_uprobes() {
  std::ifstream file("/sys/bus/event_source/devices/uprobe/type");
  std::uint32_t type = 0;
  if (file >> type) return type;
  return fail(ErrorCode::unsupported, "this kernel has no uprobes (no perf event source for them)",
              "run a kernel built with CONFIG_UPROBE_EVENTS");
}

/// Returns the link's descriptor, or minus an errno.
int attach_perf_uprobe(const AttachRequest& request, std::uint32_t type, const char* path,
                       const AttachSite& site) {
  const std::optional<pid_t> pid = request.pid;
  constexpr std::uint64_t at_return = 1;  // config:0 of the event source, "retprobe"
  perf_event_attr attributes{};
  attributes.size = sizeof attributes;
  attributes.type = type;
  attributes.config = site.semaphore_offset << 32 | (request.at_return ? at_return : 0);
  attributes.config1 = pointer(path);
  attributes.config2 = site.file_offset + site.skip;
  const int event = static_cast<int>(::syscall(SYS_perf_event_open, &attributes, pid.value_or(-1),
                                               pid ? -1 : 0, -1, PERF_FLAG_FD_CLOEXEC));
  if (event < 0) return -errno;
  bpf_link_create_opts options{};
  options.sz = sizeof options;
  options.perf_event.bpf_cookie = cookie_of(site);
  const int link = bpf_link_create(request.program, event, BPF_PERF_EVENT, &options);
  const int error = errno;
  ::close(event);  // the link has it
  return link >= 0 ? link : -error;
}

}  // namespace

std::uint64_t cookie_of(const AttachSite& site) {
  if (site.use == probe::SiteUse::enabled_pointer)
    return site.pointer_on_stack ? VITRINE_ENABLED_ON_STACK | *site.pointer_on_stack : 0;
  return (site.skip != 0 ? VITRINE_COOKIE_SECOND_BYTE : 0) |
         static_cast<std::uint64_t>(site.program) << 32 | site.site;
}

Result<bool> has_uprobe_multi() {
  const std::array<bpf_insn, 2> nothing{
      {{BPF_ALU64 | BPF_MOV | BPF_K, 0, 0, 0, 0}, {BPF_JMP | BPF_EXIT, 0, 0, 0, 0}}};
  const SignalsBlocked blocked;  // an interrupted verifier is no response
  bpf_prog_load_opts options{};
  options.sz = sizeof options;
  options.expected_attach_type = static_cast<bpf_attach_type>(uprobe_multi_attach_type);
  const int program = bpf_prog_load(BPF_PROG_TYPE_KPROBE, "vitrine_probe", "GPL", nothing.data(),
                                    nothing.size(), &options);
  if (program < 0) {
    if (errno == EPERM || errno == EACCES) return tl::unexpected(refused(for_links, errno));
    return false;
  }
  // A directory is refused by name of what it is, if the kernel looks that far.
  const std::uint64_t offset = 0;
  LinkCreate attributes{};
  attributes.program = static_cast<std::uint32_t>(program);
  attributes.attach_type = uprobe_multi_attach_type;
  attributes.path = pointer("/");
  attributes.offsets = pointer(&offset);
  attributes.count = 1;
  const int link = create_link(attributes);
  const int error = errno;
  if (link >= 0) ::close(link);
  ::close(program);
  return link < 0 && error == EBADF;
}

bool pid_filter_is_of_threads(std::string_view kernel_release) {
  int major = 0, minor = 0;
  const char* end = kernel_release.data() + kernel_release.size();
  const auto first = std::from_chars(kernel_release.data(), end, major);
  if (first.ec != std::errc{} || first.ptr == end || *first.ptr != '.') return false;
  if (std::from_chars(first.ptr + 1, end, minor).ec != std::errc{}) return false;
  return major == 6 && minor >= 6 && minor <= 9;
}

Result<Attachment> attach_uprobe_multi(const AttachRequest& request) {
  return MultiAttacher(request).run();
}

Result<Attachment> attach_perf_uprobes(const AttachRequest& request) {
  const auto type = TRY(perf_type_of_uprobes());
  Attachment attachment;
  for (std::size_t number = 0; number < request.files.size(); ++number) {
    const FileSites& file = request.files[number];
    const std::string path = path_of(file.file);
    for (std::size_t i = 0; i < file.sites.size(); ++i) {
      if (request.stopped()) return tl::unexpected(interrupted());
      const AttachSite& site = file.sites[i];
      if (site.semaphore_offset >> 32 != 0) {
        attachment.failures.push_back(
            {number,
             i,
             {ErrorCode::unsupported, "its semaphore is too far into the file for a perf event",
              ""}});
        continue;
      }
      const int link = attach_perf_uprobe(request, type, path.c_str(), site);
      if (link >= 0) {
        attachment.links.push_back(link);
        continue;
      }
      if (auto general = general_error(-link, for_perf_events, request.pid))
        return fail_while(fmt::format("attaching to {}", file.path), std::move(*general));
      attachment.failures.push_back({number, i, explain(-link, site)});
    }
  }
  return attachment;
}

}  // namespace vitrine::bpf
