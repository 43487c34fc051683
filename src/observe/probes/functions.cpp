#include "observe/probes/functions.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/stat.h>

#include <algorithm>
#include <filesystem>

#include "base/text.hpp"
#include "probe/argument.hpp"
#include "probe/function_call.hpp"
#include "probe/site_address.hpp"
#include "sandbox/files.hpp"
#include "symbol/functions.hpp"

namespace vitrine::observe {
namespace {

namespace fs = std::filesystem;
using probe::FunctionPattern;
using symbol::FoundFunction;
using symbol::FunctionParameter;
using symbol::ParameterKind;

constexpr std::string_view go_returns =
    "a return probe breaks Go programs: their stacks move, and the address that the kernel has put "
    "on one is then another's; and the instructions that leave the function are not known";
constexpr std::string_view returning_twice =
    "a return probe breaks it: it returns twice, or saves where it returns to";
constexpr std::string_view throwing =
    "the instructions that leave the function are not known, and with a return probe of the kernel "
    "an exception (or panic) that leaves it ends the program. Use --force if none leaves it";
constexpr std::string_view replacing =
    "the instructions that leave the function are not known, and the kernel replaces its return "
    "address: the program ends where an exception, a fibre or the end of a thread leaves it";
constexpr std::string_view unverified =
    "no function is known to begin there; a breakpoint in the middle of an instruction breaks the "
    "program. Use --force if an instruction begins there";

/// Functions that save the address that they return to, or return more than once.
bool returns_oddly(std::string_view name) {
  while (name.starts_with('_')) name.remove_prefix(1);
  if (name.starts_with("libc_")) name.remove_prefix(5);
  constexpr std::array<std::string_view, 10> names{
      "setjmp",      "sigsetjmp", "vfork",   "getcontext", "swapcontext",
      "makecontext", "savectx",   "longjmp", "siglongjmp", "setcontext"};
  return std::find(names.begin(), names.end(), name) != names.end() || name.starts_with("Unwind_");
}

probe::PassedValue passed(const FunctionParameter& from, Machine machine) {
  probe::PassedValue value;
  const bool is_scalar = from.kind != ParameterKind::aggregate && from.kind != ParameterKind::text;
  const std::uint8_t word = machine == Machine::i386 ? 4 : 8;
  value.bytes = word;
  if (is_scalar && (from.size == 1 || from.size == 2 || from.size == 4 || from.size == 8))
    value.bytes = static_cast<std::uint8_t>(from.size);
  value.is_signed = from.is_signed;
  value.words = from.words;
  value.vectors = from.vectors;
  value.in_memory = from.in_memory;
  value.is_aligned = from.is_aligned;
  if (machine == Machine::i386 && from.kind != ParameterKind::aggregate && from.size > 4) {
    value.words = 2;
    value.bytes = 4;
  }
  if (machine == Machine::i386 && from.kind == ParameterKind::aggregate)
    value.words = static_cast<std::uint8_t>((from.size + 3) / 4);
  return value;
}

probe::ValueKind kind_of(ParameterKind kind) {
  switch (kind) {
    case ParameterKind::integer:
      return probe::ValueKind::integer;
    case ParameterKind::boolean:
      return probe::ValueKind::boolean;
    case ParameterKind::pointer:
      return probe::ValueKind::pointer;
    case ParameterKind::c_string:
      return probe::ValueKind::c_string;
    case ParameterKind::enumeration:
      return probe::ValueKind::enumeration;
    case ParameterKind::floating:
      return probe::ValueKind::floating;
    case ParameterKind::text:
      return probe::ValueKind::string_view;
    case ParameterKind::aggregate:
      return probe::ValueKind::integer;
  }
  return probe::ValueKind::integer;
}

/// Adds one parameter, of which `words` are the places.
void add_argument(probe::Site& site, const FunctionParameter& from,
                  const std::vector<std::string>& words) {
  probe::ArgumentType type;
  type.name = from.name;
  type.type = from.type;
  type.kind = kind_of(from.kind);
  type.argument = static_cast<std::uint32_t>(site.arguments.size());
  for (const symbol::ParameterEnumerator& one : from.enumerators)
    type.enumerators.push_back({one.value, one.name});
  const bool is_structure = from.kind == ParameterKind::aggregate;
  if (from.is_lost) {
    site.arguments.emplace_back("? the compiler has optimised it away, or moved it");
  } else if (from.kind == ParameterKind::text && words.size() == 2) {
    site.arguments.push_back(words[from.address_word]);
    type.length_argument = type.argument + 1;
    site.types.push_back(std::move(type));
    site.arguments.push_back(words[1 - from.address_word]);
    return;
  } else if (is_structure && from.is_address) {
    type.kind = probe::ValueKind::pointer;
    site.arguments.push_back(words.at(0));
  } else if (is_structure || words.size() != 1) {
    site.arguments.emplace_back("? it is a structure, or a number of more than a word");
  } else {
    site.arguments.push_back(words[0]);
  }
  site.types.push_back(std::move(type));
}

void add_parameters(probe::Site& site, const FoundFunction& function, Machine machine) {
  probe::FunctionCall call(machine);
  // The address of a large result is a parameter of its own, except on aarch64.
  const auto& result = function.result;
  if (result && machine != Machine::aarch64 && (result->in_memory || result->is_address) &&
      result->kind != ParameterKind::floating)
    (void)call.next({});
  for (const FunctionParameter& parameter : function.parameters) {
    const probe::PassedValue value = passed(parameter, machine);
    std::vector<std::string> words;
    if (parameter.words + parameter.vectors > 0) words = call.next(value);
    if (!parameter.registers.empty()) {
      words.clear();
      for (const std::uint8_t number : parameter.registers)
        words.push_back(call.in_register(number, value));
    }
    if (parameter.constant) words = {call.constant(*parameter.constant, value)};
    if (words.empty()) words.emplace_back("? it has no value");
    add_argument(site, parameter, words);
  }
}

void add_result(probe::Site& site, const FoundFunction& function, Machine machine) {
  const probe::FunctionCall call(machine);
  if (!function.is_described) {
    site.arguments.push_back(
        call.result({.bytes = static_cast<std::uint8_t>(machine == Machine::i386 ? 4 : 8)}));
    site.types.emplace_back().name = "return";
    return;
  }
  if (!function.result) return;
  FunctionParameter result = *function.result;
  if (result.kind == ParameterKind::aggregate && result.in_memory && machine != Machine::aarch64)
    result.is_address = true;  // callers get it back
  const probe::PassedValue value = passed(result, machine);
  std::vector<std::string> words{call.result(value)};
  if (result.kind == ParameterKind::text) words.push_back(call.result(value, 1));
  add_argument(site, result, words);
}

probe::Site site_of(const FoundFunction& function, const FunctionPattern& pattern,
                    const ProbeFile& file, const probe::FileLayout& layout) {
  probe::Site site;
  site.address = function.address;
  site.function = function.name;
  site.demangled = function.demangled;
  site.at_return = pattern.at_return;
  site.verified = function.is_start;
  probe::place(site, layout);
  if (pattern.at_return)
    add_result(site, function, file.machine);
  else if (function.is_described)
    add_parameters(site, function, file.machine);
  else
    site.arguments = probe::FunctionCall(file.machine).registers(function.is_go);
  const auto refuse = [&](std::string_view why) {
    site.file_offset.reset();
    site.problems.insert(site.problems.begin(), std::string(why));
  };
  if (function.is_ifunc)
    refuse(
        fmt::format("it is chosen when programs are loaded (IFUNC), and its symbol is what "
                    "chooses: trace the implementations, for example func:{}:'*_{}_*', or one by "
                    "its address",
                    pattern.module, function.name));
  const auto why_known = [&](std::string_view what) {
    return function.exits_unknown.empty() ? std::string(what)
                                          : fmt::format("{} ({})", what, function.exits_unknown);
  };
  if (!pattern.at_return && function.loop_jump != 0)
    site.problems.push_back(fmt::format(
        "its first instruction begins a loop, to which the jump at {} leads: each round "
        "fires like a call",
        hex(function.loop_jump)));
  if (pattern.at_return && function.is_go) refuse(why_known(go_returns));
  if (pattern.at_return && returns_oddly(function.name)) refuse(returning_twice);
  if (pattern.at_return && !function.is_start)
    refuse("no function is known to begin there, so that its return is not known");
  if (pattern.at_return && function.may_throw)
    site.risk = why_known(throwing);
  else if (pattern.at_return && site.problems.empty())
    site.problems.push_back(why_known(replacing));
  else if (!function.is_start)
    site.risk = unverified;
  return site;
}

/// The entry, or where it is left: its return, or the instructions that leave it.
std::vector<probe::Site> sites_of(const FoundFunction& function, const FunctionPattern& pattern,
                                  const ProbeFile& file, const probe::FileLayout& layout) {
  probe::Site site = site_of(function, pattern, file, layout);
  if (!pattern.at_return || function.exits.empty() || returns_oddly(function.name)) return {site};
  std::vector<probe::Site> sites;
  site.at_return = false;
  site.is_exit = true;
  site.verified = true;
  site.risk.clear();
  for (const symbol::FunctionExit& exit : function.exits) {
    probe::Site& one = sites.emplace_back(site);
    one.address = exit.address;
    one.problems.clear();
    probe::place(one, layout);
    if (!exit.is_return)
      for (std::string& argument : one.arguments)
        argument = "? the function ends in a call of another one, whose result is its own";
  }
  if (function.unclear_exit != 0)
    sites.front().problems.push_back(
        fmt::format("it may also be left by the jump at {}, by a table of addresses: such a "
                    "return does not fire",
                    hex(function.unclear_exit)));
  return sites;
}

/// Whether the path of a pattern leads to the file that is open.
bool is_path_of(const FunctionPattern& pattern, const std::string& path,
                const sandbox::FileMemory& file) {
  if (glob_matches(pattern.module, path) || pattern.module == path) return true;
  struct stat status {};
  return ::stat(pattern.module.c_str(), &status) == 0 && status.st_ino == file.identity().inode &&
         status.st_dev == file.identity().device;
}

}  // namespace

Result<std::vector<FunctionPattern>> function_patterns(std::span<const std::string> texts) {
  std::vector<FunctionPattern> patterns;
  for (const std::string& text : texts)
    if (probe::is_function_pattern(text))
      patterns.push_back(TRY(probe::parse_function_pattern(text)));
  return patterns;
}

Result<void> add_functions(ProbeFile& file, const sandbox::FileMemory& memory,
                           std::span<const FunctionPattern> patterns,
                           const symbol::DebugPlaces& places, std::size_t most) {
  file.is_module_wanted = false;
  std::vector<const FunctionPattern*> its;
  symbol::FunctionQuery query;
  query.most = most;
  for (const FunctionPattern& pattern : patterns) {
    const bool is_its = pattern.has_module_path() ? is_path_of(pattern, file.path, memory)
                                                  : pattern.names_module(file.path);
    if (!is_its) continue;
    its.push_back(&pattern);
    if (pattern.at_return) query.exits_of.push_back(static_cast<std::uint32_t>(query.names.size()));
    query.names.push_back(pattern.function);
  }
  if (its.empty()) return {};
  file.is_module_wanted = true;
  const auto listing = TRY(symbol::find_functions(memory, query, places));
  if (listing.left_out != 0)
    return fail(ErrorCode::limit,
                fmt::format("{} functions match: at most {} of one file can be traced at once",
                            listing.functions.size() + listing.left_out, most),
                "write a narrower pattern");
  const probe::FileLayout layout{
      ET_DYN, file.code, static_cast<std::uint64_t>(memory.identity().size), {}};
  std::map<std::pair<std::string, std::string>, std::size_t> positions;
  for (const FoundFunction& function : listing.functions)
    for (const bool at_return : {false, true}) {
      const FunctionPattern* first = nullptr;
      std::vector<std::string> texts;
      for (const std::uint32_t index : function.patterns)
        if (its[index]->at_return == at_return) {
          if (first == nullptr) first = its[index];
          texts.push_back(its[index]->text);
        }
      if (first == nullptr) continue;
      const std::string provider =
          "func:" +
          (has_wildcards(first->module) ? std::string(file_name(file.path)) : first->module);
      std::string name = function.demangled.empty() ? function.name : function.demangled;
      if (name.empty() || first->address) name = first->function;
      if (at_return) name += ":return";
      const auto [known, is_new] =
          positions.try_emplace(std::pair(provider, name), file.probes.size());
      if (is_new) file.probes.push_back({probe::Kind::function, provider, name, {}, {}, {}});
      probe::Probe& probe = file.probes[known->second];
      for (std::string& text : texts)
        if (std::find(probe.patterns.begin(), probe.patterns.end(), text) == probe.patterns.end())
          probe.patterns.push_back(std::move(text));
      for (probe::Site& site : sites_of(function, *first, file, layout))
        probe.sites.push_back(std::move(site));
    }
  for (const symbol::MissingFunction& missing : listing.missing)
    file.missing.push_back(
        {its[missing.pattern]->text, missing.reason, missing.near, listing.known});
  return {};
}

// Where modules are that no process has.

namespace {

std::vector<std::string> library_directories() {
  std::vector<std::string> directories{"/lib64", "/usr/lib64", "/lib", "/usr/lib",
                                       "/usr/local/lib"};
#if defined(__x86_64__)
  constexpr std::string_view triplet = "x86_64-linux-gnu";
#else
  constexpr std::string_view triplet = "aarch64-linux-gnu";
#endif
  for (const char* root : {"/lib/", "/usr/lib/", "/usr/local/lib/"})
    directories.push_back(std::string(root).append(triplet));
  return directories;
}

bool is_elf_file(const fs::path& path) {
  constexpr std::string_view magic = "\177ELF";
  std::string start(magic.size(), '\0');
  const FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  return file &&
         ::pread(file.get(), start.data(), start.size(), 0) == static_cast<ssize_t>(start.size()) &&
         start == magic;
}

Result<std::string> file_of(const FunctionPattern& pattern) {
  const std::string& module = pattern.module;
  if (has_wildcards(module))
    return fail(ErrorCode::usage,
                fmt::format("{}: which files are meant depends on a process", pattern.text),
                "give a process ID or a file before it");
  std::error_code error;
  if (pattern.has_module_path()) return module;
  if (auto program = sandbox::find_program(module)) return *std::move(program);
  std::set<std::string> found;
  for (const std::string& directory : library_directories())
    for (const fs::directory_entry& entry : fs::directory_iterator(directory, error)) {
      const std::string name = entry.path().filename().string();
      if (!pattern.names_module(name) || !is_elf_file(entry.path())) continue;
      found.insert(fs::canonical(entry.path(), error).string());
    }
  if (found.size() == 1) return *found.begin();
  if (found.empty())
    return fail(ErrorCode::not_found,
                fmt::format("{}: no program in PATH and no library of the system is called {}",
                            pattern.text, module),
                "write its path, or give a process ID before it");
  return fail(
      ErrorCode::usage,
      fmt::format("{}: several libraries have this name: {}", pattern.text, fmt::join(found, ", ")),
      "write the path of one");
}

}  // namespace

Result<std::vector<std::string>> files_of_functions(std::span<const std::string> patterns) {
  std::vector<std::string> files;
  for (const std::string& text : patterns) {
    if (!probe::is_function_pattern(text))
      return fail(ErrorCode::usage, fmt::format("{}: no process and no file to look for it", text),
                  "give a process ID or a file before it");
    auto file = TRY(file_of(TRY(probe::parse_function_pattern(text))));
    if (std::find(files.begin(), files.end(), file) == files.end())
      files.push_back(std::move(file));
  }
  return files;
}

// Why a pattern selects nothing.

void MissingFunctions::add(const ProbeFile& file) {
  modules_.emplace(file_name(file.path));
  for (const UnfoundFunction& missing : file.missing)
    reasons_[missing.pattern].push_back({file.path, missing});
}

Error MissingFunctions::explain(const std::string& text, const std::string& where) const {
  const auto pattern = probe::parse_function_pattern(text);
  if (!pattern) return pattern.error();
  const auto known = reasons_.find(text);
  if (known == reasons_.end()) {
    std::vector<std::pair<std::size_t, std::string>> ranked;
    for (const std::string& name : modules_)
      ranked.emplace_back(spelling_distance(pattern->module, name.substr(0, name.find(".so"))),
                          name);
    std::sort(ranked.begin(), ranked.end());
    constexpr std::size_t shown_modules = 6;
    std::vector<std::string> names;
    for (const auto& [far, name] : ranked)
      if (names.size() < shown_modules) names.push_back(name);
    return {ErrorCode::failed,
            fmt::format("{}: {} has no file {}{}", text, where, pattern->module,
                        names.empty() ? std::string()
                                      : fmt::format("; it has {}{}", fmt::join(names, ", "),
                                                    ranked.size() > names.size() ? ", …" : "")),
            "write the path of a file, or a name like libc or libc.so.6"};
  }
  // The file that knows most of it.
  const Reason* best = &known->second.front();
  for (const Reason& reason : known->second)
    if (best->function.near.empty() &&
        (!reason.function.near.empty() ||
         (best->function.reason.empty() && !reason.function.reason.empty())))
      best = &reason;
  const std::string what = pattern->address ? "code at" : "function";
  std::string message = fmt::format("{} has no {} {}", best->file, what, pattern->function);
  if (!best->function.reason.empty()) message += ": " + best->function.reason;
  std::string next =
      fmt::format("`vitrine probes 'func:{}:*'` lists its functions", pattern->module);
  if (!best->function.near.empty())
    message += fmt::format("; it has {}", fmt::join(best->function.near, ", "));
  else if (best->function.reason.find("imported") != std::string::npos)
    next = fmt::format("trace it where it is defined: 'func:*:{}' with a process ID",
                       pattern->function);
  else if (best->function.known == 0)
    next = fmt::format("install its debug symbols, or give an address: func:{}:0x11e0",
                       pattern->module);
  else if (best->function.reason.find("inlined") != std::string::npos)
    next = "trace a function that calls it, or compile it with __attribute__((noinline))";
  return {ErrorCode::failed, std::move(message), std::move(next)};
}

}  // namespace vitrine::observe
