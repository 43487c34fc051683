#include "target/program_image.hpp"

#include <charconv>
#include <string_view>

#include "bpf/wire.h"
#include "target/proc_file.hpp"

namespace vitrine::target {
namespace {

/// The last number of a field of status (of Uid: that of the file system; of NSpid: the innermost),
/// or `otherwise`.
template <class Number>
Number last_number(std::string_view status, std::string_view name, Number otherwise) {
  const auto field = status_field(status, name);
  if (!field) return otherwise;
  const std::string_view line = field->substr(0, field->find('\n'));
  const std::string_view last = line.substr(line.find_last_of(" \t") + 1);
  Number number{};
  const auto [end, error] = std::from_chars(last.data(), last.data() + last.size(), number);
  return error == std::errc() ? number : otherwise;
}

}  // namespace

std::uint64_t program_image(int proc_dir) {
  constexpr std::size_t stat_bytes = 4096;
  const auto line = read_file_at(proc_dir, "stat", stat_bytes);
  if (!line) return 0;
  const auto stat = parse_stat(*line);
  if (!stat || stat->stack_start == 0) return 0;
  return vitrine_image_of(stat->code_start, stat->code_end, stat->stack_start);
}

InnerIdentity read_inner_identity(int proc_dir) {
  InnerIdentity found;
  if (const auto status = read_file_at(proc_dir, "status", proc_file_bytes)) {
    found.owner = last_number(*status, "Uid", found.owner);
    found.pid = last_number(*status, "NSpid", found.pid);
  }
  return found;
}

}  // namespace vitrine::target
