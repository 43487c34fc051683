#include "observe/process/facts.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <climits>
#include <optional>

#include "observe/process/context.hpp"
#include "target/maps.hpp"
#include "target/proc_file.hpp"

namespace vitrine::observe {
namespace {

std::string executable_path(int proc_dir) {
  std::string path(PATH_MAX, '\0');
  const ssize_t length = ::readlinkat(proc_dir, "exe", path.data(), path.size());
  path.resize(length > 0 ? static_cast<std::size_t>(length) : 0);
  return target::without_deleted(std::move(path));
}

/// As profiles have attributes; nothing: lists of lists, bytes, no value.
std::optional<std::string> text_of(const format::AnyValue& value) {
  if (const auto* text = std::get_if<std::string>(&value.data)) return *text;
  if (const auto* flag = std::get_if<bool>(&value.data)) return *flag ? "true" : "false";
  if (const auto* number = std::get_if<std::int64_t>(&value.data)) return std::to_string(*number);
  if (const auto* number = std::get_if<double>(&value.data)) return fmt::format("{}", *number);
  return std::nullopt;
}

std::vector<profile::Attribute> read_context(pid_t pid) {
  std::vector<profile::Attribute> attributes;
  auto reader = ContextReader::open(pid);
  if (!reader) return attributes;
  const auto state = (*reader)->refresh();
  if (!state || *state == nullptr) return attributes;
  for (const format::KeyValue& attribute : (*state)->context.resource) {
    auto text = text_of(attribute.value);
    if (!text) continue;
    // Of several the last counts, as for protobuf readers.
    std::erase_if(attributes, [&](const auto& other) { return other.key == attribute.key; });
    attributes.push_back({attribute.key, std::move(*text)});
  }
  return attributes;
}

std::string host_name() {
  std::array<char, HOST_NAME_MAX + 1> name{};
  return ::gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "";
}

}  // namespace

std::string container_id(std::string_view cgroup) {
  constexpr std::size_t digits = 64;
  std::size_t run = 0;
  std::string id;
  for (std::size_t at = 0; at <= cgroup.size(); ++at) {
    const char c = at < cgroup.size() ? cgroup[at] : '\n';
    if ((c >= '0' && c <= '9') || (c >= 'a' && c <= 'f')) {
      ++run;
      continue;
    }
    if (run == digits) id = cgroup.substr(at - digits, digits);  // the innermost is the last
    run = 0;
  }
  return id;
}

ProcessFacts read_facts(pid_t pid, int proc_dir) {
  ProcessFacts facts;
  facts.inner = target::read_inner_identity(proc_dir);
  if (const auto line = target::read_file_at(proc_dir, "stat", target::proc_file_bytes))
    if (const auto stat = target::parse_stat(*line)) facts.command = stat->comm;
  facts.executable = executable_path(proc_dir);
  if (const auto cgroup = target::read_file_at(proc_dir, "cgroup", target::proc_file_bytes))
    facts.container = container_id(*cgroup);
  facts.context = read_context(pid);
  // That was asked for by number: if this process has ended, it may be another's.
  if (::faccessat(proc_dir, "stat", F_OK, 0) != 0) facts.context.clear();
  return facts;
}

std::vector<profile::Attribute> resource_of(pid_t pid, const ProcessFacts& facts) {
  static const std::string host = host_name();
  std::vector<profile::Attribute> resource = facts.context;
  const auto add = [&](std::string key, std::string value) {
    const bool there = std::any_of(resource.begin(), resource.end(),
                                   [&](const auto& other) { return other.key == key; });
    if (!there && !value.empty()) resource.push_back({std::move(key), std::move(value)});
  };
  add("process.pid", std::to_string(pid));
  add("process.executable.name", facts.executable.empty()
                                     ? facts.command
                                     : facts.executable.substr(facts.executable.rfind('/') + 1));
  add("process.executable.path", facts.executable);
  add("container.id", facts.container);
  add("host.name", host);
  return resource;
}

}  // namespace vitrine::observe
