#include "cli/dtrace_spelling.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <string>
#include <string_view>
#include <vector>

#include "cli/confinement.hpp"
#include "cli/exit_code.hpp"
#include "cli/report.hpp"
#include "cli/usdt_header.hpp"
#include "cli/usdt_link.hpp"
#include "usdt/definition_file.hpp"

namespace vitrine::cli {
namespace {

constexpr auto usage =
    "usage: dtrace -h -s FILE.d [-o FILE.h] [-C [-D NAME[=VALUE]] [-I DIRECTORY]]\n       dtrace "
    "-G -s FILE.d [-o "
    "FILE.o] [-32|-64] [-C …] OBJECT…\n       dtrace -V\nThis is vitrine: it processes provider "
    "definitions as "
    "dtrace does. See vitrine usdt --help.\n";

// As DTrace has them, each with whether it takes a value.
constexpr auto all_options = ":3:6:aAb:Bc:CD:ef:FGhHi:I:klL:m:n:o:p:P:qs:SU:vVwx:X:Z";

struct Request {
  char step = '\0';  // 'h' or 'G'
  std::string output;
  usdt::DefinitionFile definition;
  bool verbose = false;
  bool done = false;  // nothing is left to do
};

Error wrong(const std::string& message, const std::string& remedy = {}) {
  return {ErrorCode::usage, message, remedy};
}

/// -x name[=value].
void set(Request& request, const std::string& option) {
  const std::size_t equals = option.find('=');
  const std::string name = option.substr(0, equals);
  if (name == "cpppath" && equals != std::string::npos) {
    request.definition.preprocessor = option.substr(equals + 1);
  } else if (name != "nolibs" && name != "lazyload") {  // both are so anyway
    note(fmt::format("-x {} has no effect on providers", option));
  }
}

std::optional<Error> take(Request& request, int option, const std::string& value) {
  switch (option) {
    case 'h':
    case 'G':
      if (request.step != '\0' && request.step != option)
        return wrong("-h and -G exclude each other", "run one step after the other");
      request.step = static_cast<char>(option);
      return std::nullopt;
    case 's':
      if (!request.definition.path.empty())
        return wrong("more than one -s", "run the step once for each definition");
      request.definition.path = value;
      return std::nullopt;
    case 'o':
      request.output = value;
      return std::nullopt;
    case 'C':
      request.definition.preprocess = true;
      return std::nullopt;
    case 'D':
    case 'I':
    case 'U':
      request.definition.arguments.push_back(
          fmt::format("-{}{}", static_cast<char>(option), value));
      return std::nullopt;
    case 'H':
      request.definition.arguments.emplace_back("-H");
      return std::nullopt;
    case '3':
    case '6':
      if (value != (option == '3' ? "2" : "4"))
        return wrong(fmt::format("invalid option -{}{}", static_cast<char>(option), value), usage);
      return std::nullopt;  // the objects say it themselves
    case 'x':
      set(request, value);
      return std::nullopt;
    case 'v':
      request.verbose = true;
      return std::nullopt;
    case 'V':
      fmt::print("vitrine {}, as dtrace -h and dtrace -G\n", VITRINE_VERSION);
      request.done = true;
      return std::nullopt;
    case 'b':
    case 'e':
    case 'k':
    case 'L':
    case 'q':
    case 'S':
    case 'w':
    case 'X':
    case 'Z':
      note(fmt::format("-{} has no effect on providers", static_cast<char>(option)));
      return std::nullopt;
    case ':':
      return wrong(fmt::format("missing value of -{}", static_cast<char>(optopt)), usage);
    case '?':
      return wrong(fmt::format("invalid option -{}", static_cast<char>(optopt)), usage);
    default:
      return wrong(
          fmt::format(
              "unsupported option -{}: vitrine runs no D programs; under the name dtrace it "
              "processes providers (-h, -G)",
              static_cast<char>(option)),
          "vitrine probes lists probes, vitrine trace traces them");
  }
}

}  // namespace

bool is_called_dtrace(const char* argv0) {
  const std::string_view name = argv0 == nullptr ? "" : argv0;
  return name.substr(name.rfind('/') + 1) == "dtrace";
}

int run_as_dtrace(int argc, char** argv) {
  Request request;
  for (int option; (option = ::getopt(argc, argv, all_options)) != -1;)
    if (const auto error = take(request, option, optarg == nullptr ? "" : optarg))
      return report(*error);
  if (request.done) return exit_done;
  if (request.step == '\0') return report(wrong("missing option: -h or -G", usage));
  if (request.definition.path.empty())
    return report(wrong(fmt::format("-{} requires a definition", request.step), usage));

  Needs needs = needs_of_building();
  needs.launches = request.definition.preprocess;
  if (auto confined = begin_confined(needs); !confined) return report(confined.error());
  const auto definition = usdt::read_definition(request.definition);
  if (!definition) return report(definition.error());
  for (const std::string& warning : definition->warnings) note(warning);
  if (auto confined = go_on_confined(needs); !confined) return report(confined.error());
  if (request.step == 'h')
    return write_header(*definition, {}, request.definition.path, request.output);
  usdt::LinkOptions link;
  link.objects.assign(argv + optind, argv + argc);
  link.output = request.output;
  return link_objects(*definition, link, request.definition.path, request.verbose);
}

}  // namespace vitrine::cli
