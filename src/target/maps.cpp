#include "target/maps.hpp"

#include <sys/sysmacros.h>

#include <charconv>

#include "abi/process_context.hpp"

namespace vitrine::target {
namespace {

constexpr std::size_t line_max = 32 * 1024;  // a path of 4,095 bytes, each as \ooo, and the fields

/// Takes the text up to `end` off `text`.
std::optional<std::string_view> take(std::string_view& text, char end) {
  const std::size_t at = text.find(end);
  if (at == text.npos) return std::nullopt;
  const auto taken = text.substr(0, at);
  text.remove_prefix(at + 1);
  return taken;
}

bool number(std::optional<std::string_view> text, int base, std::uint64_t& into) {
  if (!text) return false;
  const char* end = text->data() + text->size();
  const auto [stop, error] = std::from_chars(text->data(), end, into, base);
  return error == std::errc() && stop == end;
}

/// The kernel writes a newline in a path as \012, and nothing else so.
std::string unescaped(std::string_view path) {
  constexpr std::string_view newline = "\\012";
  std::string plain;
  for (std::size_t at; (at = path.find(newline)) != path.npos;) {
    plain.append(path.substr(0, at)).push_back('\n');
    path.remove_prefix(at + newline.size());
  }
  return plain.append(path);
}

}  // namespace

std::optional<Mapping> parse_mapping(std::string_view line) {
  Mapping mapping;
  if (!number(take(line, '-'), 16, mapping.start) || !number(take(line, ' '), 16, mapping.end) ||
      mapping.start >= mapping.end)
    return std::nullopt;
  const auto permissions = take(line, ' ');
  if (!permissions || permissions->size() != 4) return std::nullopt;
  mapping.readable = (*permissions)[0] == 'r';
  mapping.writable = (*permissions)[1] == 'w';
  mapping.executable = (*permissions)[2] == 'x';
  mapping.shared = (*permissions)[3] == 's';
  if (!number(take(line, ' '), 16, mapping.offset)) return std::nullopt;
  std::uint64_t major = 0, minor = 0;
  if (!number(take(line, ':'), 16, major) || !number(take(line, ' '), 16, minor))
    return std::nullopt;
  mapping.device = makedev(static_cast<unsigned>(major), static_cast<unsigned>(minor));
  // The inode ends the line when there is no name; otherwise blanks pad up to the name.
  const std::size_t digits = std::min(line.find(' '), line.size());
  if (!number(line.substr(0, digits), 10, mapping.inode)) return std::nullopt;
  line.remove_prefix(digits);
  line.remove_prefix(std::min(line.find_first_not_of(' '), line.size()));
  mapping.name = unescaped(line);
  return mapping;
}

bool LineCutter::keep(std::string_view part) {
  if (dropping_ || carry_.size() + part.size() > line_max) {
    dropping_ = true;
    carry_.clear();
    return false;
  }
  carry_.append(part);
  return true;
}

bool may_be_context(const Mapping& mapping) {
  using namespace std::string_view_literals;
  if (mapping.executable || !mapping.readable) return false;
  for (const auto form : {"[anon_shmem:"sv, "[anon:"sv, "/memfd:"sv}) {
    const std::string_view name = mapping.name;
    if (name.substr(0, form.size()) == form &&
        name.substr(form.size()).rfind(abi::process_context::mapping_name, 0) == 0)
      return true;
  }
  return false;
}

}  // namespace vitrine::target
