#include "usdt/header.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <utility>

#include "base/text.hpp"
#include "usdt/declarations.hpp"
#include "usdt/definition.hpp"

namespace vitrine::usdt {
namespace {

/// What a header must include, by the types that it names. <unistd.h> is always there: programs
/// written for `dtrace -h` may count on it.
constexpr std::array<std::pair<std::string_view, std::string_view>, 18> type_headers = {{
    {"int8_t", "stdint.h"},
    {"int16_t", "stdint.h"},
    {"int32_t", "stdint.h"},
    {"int64_t", "stdint.h"},
    {"uint8_t", "stdint.h"},
    {"uint16_t", "stdint.h"},
    {"uint32_t", "stdint.h"},
    {"uint64_t", "stdint.h"},
    {"intptr_t", "stdint.h"},
    {"uintptr_t", "stdint.h"},
    {"size_t", "stddef.h"},
    {"ptrdiff_t", "stddef.h"},
    {"ssize_t", "sys/types.h"},
    {"pid_t", "sys/types.h"},
    {"uid_t", "sys/types.h"},
    {"gid_t", "sys/types.h"},
    {"off_t", "sys/types.h"},
    {"time_t", "time.h"},
}};

/// What the prototypes of a file need before them.
struct Needs {
  std::set<std::string> headers{"unistd.h"};
  std::set<std::string> tags;   // "struct foo": a declaration suffices
  std::set<std::string> types;  // "foo_t", "enum bar": the program declares them
  bool long_long = false;       // which neither C89 nor C++98 has, but every compiler
};

bool in_word(char c) {
  return is_letter(c) || is_digit(c);
}

/// The type as this header spells it: C89 has no _Bool, and C++ calls it bool.
std::string read_type(const std::string& type, Needs& needs) {
  std::string out;
  std::string tag;
  for (std::size_t at = 0; at < type.size();) {
    std::size_t end = at;
    while (end < type.size() && in_word(type[end])) ++end;
    if (end == at) {
      out += type[at++];
      continue;
    }
    std::string word = type.substr(at, end - at);
    at = end;
    const auto* const known = std::find_if(type_headers.begin(), type_headers.end(),
                                           [&](const auto& one) { return one.first == word; });
    if (!tag.empty()) {
      (tag == "enum" ? needs.types : needs.tags).insert(fmt::format("{} {}", tag, word));
      tag.clear();
    } else if (word == "struct" || word == "union" || word == "enum") {
      tag = word;
    } else if (word == "_Bool") {
      needs.headers.insert("stdbool.h");
      word = "bool";
    } else if (known != type_headers.end()) {
      needs.headers.emplace(known->second);
    } else if (is_letter(word.front()) && word != "const" && word != "volatile" &&
               !BaseType::is_word(word)) {
      needs.types.insert(word);
    }
    out += word;
  }
  return out;
}

std::string guard(std::string_view path) {
  std::string out = "_";
  for (const char c : file_name(path)) {
    const bool lower = c >= 'a' && c <= 'z';
    out += lower ? static_cast<char>(c - 'a' + 'A') : in_word(c) ? c : '_';
  }
  return out;
}

std::string arguments(const Probe& probe) {
  std::string out;
  for (std::size_t i = 0; i < probe.parameters.size(); ++i)
    out += fmt::format("{}arg{}", i == 0 ? "" : ", ", i);
  return out;
}

constexpr auto hidden = "__attribute__((__visibility__(\"hidden\")))";
// In C++ a call that may throw would need landing pads.
constexpr auto hidden_nothrow = "__attribute__((__visibility__(\"hidden\"), __nothrow__))";

/// extern void probe(…); and the macro. The empty asm behind the call keeps compilers from making it
/// a jump: what a jump leaves behind is not the function that the probe is in.
std::string fire(const Provider& provider, const Probe& probe, Needs& needs) {
  std::string parameters;
  for (const Parameter& one : probe.parameters)
    parameters += (parameters.empty() ? "" : ", ") + read_type(one.c_type, needs);
  // C89 has no _Bool, but every compiler that reads this has.
  const bool extension = parameters.find("bool") != std::string::npos;
  needs.long_long = needs.long_long || parameters.find("long long") != std::string::npos;
  const std::string symbol = probe_symbol(provider, probe);
  return fmt::format(
      "{}extern void {}({})\n  {};\n"
      "#define {}({}) \\\n  __extension__({{ {}({}); __asm__ __volatile__(\"\"); }})\n",
      extension ? "__extension__ " : "", symbol, parameters.empty() ? "void" : parameters,
      hidden_nothrow, macro_name(provider, probe), arguments(probe), symbol, arguments(probe));
}

std::string enabled(const Provider& provider, const Probe& probe, EnabledProtocol protocol) {
  const std::string macro = macro_name(provider, probe) + "_ENABLED()";
  const std::string symbol = enabled_symbol(provider, probe);
  switch (protocol) {
    case EnabledProtocol::semaphore:
      return fmt::format(
          "extern volatile unsigned short {0}\n  {1};\n"
          "#define {2} \\\n  (__builtin_expect({0} != 0, 0) != 0)\n",
          semaphore_symbol(provider, probe), hidden, macro);
    case EnabledProtocol::return_value:
      return fmt::format(
          "extern int {0}(void)\n  {1};\n"
          "#define {2} \\\n"
          "  __extension__({{ \\\n"
          "    int vitrine_enabled_ = {0}(); \\\n"
          "    __asm__ __volatile__(\"\" : \"+r\"(vitrine_enabled_)); \\\n"
          "    __builtin_expect(vitrine_enabled_ != 0, 0) != 0; \\\n"
          "  }})\n",
          symbol, hidden_nothrow, macro);
    case EnabledProtocol::pointer:
      return fmt::format(
          "extern void {0}(unsigned int *)\n  {1};\n"
          "#define {2} \\\n"
          "  __extension__({{ \\\n"
          "    unsigned int vitrine_enabled_ = 0; \\\n"
          "    {0}(&vitrine_enabled_); \\\n"
          "    __asm__ __volatile__(\"\" : \"+m\"(vitrine_enabled_)); \\\n"
          "    __builtin_expect(vitrine_enabled_ != 0, 0) != 0; \\\n"
          "  }})\n",
          symbol, hidden_nothrow, macro);
  }
  return {};
}

/// Two probes whose macros have one name: the program could fire only one of them.
std::optional<Error> collision(const Definition& definition) {
  std::map<std::string, std::string> owners;
  for (const Provider& provider : definition.providers) {
    for (const Probe& probe : provider.probes) {
      const std::string owner = fmt::format("probe {} of provider {} (line {})", probe.identifier,
                                            provider.name, probe.line);
      const std::string macro = macro_name(provider, probe);
      for (const std::string& name : {macro, macro + "_ENABLED"}) {
        const auto [known, is_new] = owners.try_emplace(name, owner);
        if (!is_new)
          return Error{
              ErrorCode::usage,
              fmt::format("{} and {} both define the macro {}", known->second, owner, name),
              "rename one of them"};
      }
    }
  }
  return std::nullopt;
}

}  // namespace

Result<std::string> header_text(const Definition& definition, const HeaderOptions& options) {
  if (auto error = collision(definition)) return tl::unexpected<Error>(std::move(*error));
  Needs needs;
  std::string on;
  std::string off;
  for (const Provider& provider : definition.providers) {
    for (const Probe& probe : provider.probes) {
      on += '\n' + fire(provider, probe, needs) + enabled(provider, probe, options.enabled);
      const std::string macro = macro_name(provider, probe);
      off += fmt::format("#define {}({}) ((void)0)\n#define {}_ENABLED() (0)\n", macro,
                         arguments(probe), macro);
    }
  }

  const std::string name = guard(options.file_name);
  std::string out = fmt::format(
      "/* Generated by `vitrine usdt header`: change the provider's definition, not this file. "
      "*/\n#ifndef "
      "{0}\n#define {0}\n\n",
      name);
  for (const std::string& header : needs.headers) out += fmt::format("#include <{}>\n", header);
  if (!needs.types.empty())
    out += fmt::format("\n/* The program declares before it includes this: {}. */\n",
                       fmt::join(needs.types, ", "));
  out +=
      "\n/* -D_DTRACE_VERSION=0 leaves the probes out. */\n"
      "#if (!defined(_DTRACE_VERSION) || _DTRACE_VERSION) && defined(__GNUC__) && "
      "defined(__ELF__)\n\n"
      "#ifdef __cplusplus\nextern \"C\" {\n#endif\n";
  if (needs.long_long)
    out += "\n#pragma GCC diagnostic push\n#pragma GCC diagnostic ignored \"-Wlong-long\"\n";
  if (!needs.tags.empty()) out += '\n';
  for (const std::string& tag : needs.tags) out += tag + ";\n";
  out += on;
  if (needs.long_long) out += "\n#pragma GCC diagnostic pop\n";
  out += "\n#ifdef __cplusplus\n}\n#endif\n\n#else\n\n" + off + "\n#endif\n\n";
  return out + fmt::format("#endif /* {} */\n", name);
}

}  // namespace vitrine::usdt
