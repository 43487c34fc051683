#include "web/profile_builder.hpp"

#include <algorithm>
#include <charconv>

namespace vitrine::web_test {
namespace {

using namespace profile;

template <class Table, class Known, class Key>
Index once(Table& table, Known& known, const Key& key, typename Table::value_type value) {
  const auto [at, fresh] = known.try_emplace(key, static_cast<Index>(table.size()));
  if (fresh) table.push_back(std::move(value));
  return at->second;
}

/// Removes "#LINE" from the end of a name. Without it: 0.
std::uint32_t take_line(std::string_view& name) {
  const auto at = name.rfind('#');
  if (at == std::string_view::npos) return 0;
  std::uint32_t line = 0;
  const char* const end = name.data() + name.size();
  if (const auto read = std::from_chars(name.data() + at + 1, end, line);
      read.ec != std::errc{} || read.ptr != end)
    return 0;
  name.remove_suffix(name.size() - at);
  return line;
}

}  // namespace

Index ProfileBuilder::mapping(std::string_view module) {
  Mapping mapping;
  mapping.file = module;
  mapping.start = 0x400000 + (Address{mappings_.size()} << 24);
  mapping.limit = mapping.start + 0x1000000;
  return once(profile.mappings, mappings_, std::string(module), mapping);
}

Index ProfileBuilder::function(std::string_view name, std::string_view module, bool has_line) {
  Function function;
  function.name = name;
  if (module == program_ || has_line) {
    function.file = "/src/shop/" + std::string(name.substr(0, name.find_first_of(":<("))) + ".cpp";
    function.start_line = 10 + static_cast<std::uint32_t>(name.size());
  }
  return once(profile.functions, functions_, std::pair{std::string(name), std::string(module)},
              function);
}

Index ProfileBuilder::stack(const Frames& frames, StackEnd end) {
  Stack stack;
  stack.end = end;
  for (std::size_t i = 0; i < frames.size();) {
    // A function and those inlined into it are one place in code.
    std::string key;
    Location location;
    std::string_view module = program_;
    do {
      std::string_view name = frames[i];
      key += name;
      if (name.ends_with('^')) name.remove_suffix(1);
      if (const auto at = name.rfind('@'); at != std::string_view::npos) {
        module = name.substr(at + 1);
        name = name.substr(0, at);
      }
      const std::uint32_t line = take_line(name);
      if (!name.empty())
        location.lines.insert(location.lines.begin(), {function(name, module, line != 0), line});
      ++i;
    } while (i < frames.size() && frames[i].ends_with('^'));
    location.mapping = mapping(module);
    location.address = profile.mappings[location.mapping].start + 16 * profile.locations.size();
    location.kind = module == "[kernel]" ? FrameKind::kernel
                    : module == "[jit]"  ? FrameKind::jit
                                         : FrameKind::native;
    if (location.lines.empty()) location.problem = "the file has no symbols";
    stack.locations.push_back(once(profile.locations, locations_, key, location));
  }
  std::ranges::reverse(stack.locations);
  return once(profile.stacks, stacks_, stack, stack);
}

Index ProfileBuilder::labels(LabelSet set) {
  std::ranges::sort(set);
  return once(profile.label_sets, label_sets_, set, set);
}

Index ProfileBuilder::process(std::uint32_t pid, std::string_view command) {
  Process process;
  process.pid = pid;
  process.command = command;
  process.executable = program_;
  profile.processes.push_back(process);
  return static_cast<Index>(profile.processes.size() - 1);
}

Index ProfileBuilder::link(std::uint64_t trace, std::uint64_t span) {
  Link link;
  for (std::size_t i = 0; i < 8; ++i) {
    link.trace_id[15 - i] = static_cast<std::uint8_t>(trace >> (8 * i));
    link.trace_id[7 - i] = static_cast<std::uint8_t>((trace * 0x9e3779b97f4a7c15U) >> (8 * i));
    link.span_id[7 - i] = static_cast<std::uint8_t>(span >> (8 * i));
  }
  return once(profile.links, links_, link, link);
}

}  // namespace vitrine::web_test
