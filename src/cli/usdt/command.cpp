// vitrine usdt: making providers, and looking into what was made.

#include "cli/usdt/command.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "base/text.hpp"
#include "cli/output/live.hpp"
#include "cli/output/text.hpp"
#include "cli/shell/confinement.hpp"
#include "cli/shell/options.hpp"
#include "cli/shell/report.hpp"
#include "cli/shell/run.hpp"
#include "sandbox/files.hpp"
#include "usdt/definition.hpp"
#include "usdt/machine.hpp"

namespace vitrine::cli {

void DefinitionOptions::define(CLI::App& app) {
  app.add_option("-s", path, "Provider definition (required)")->required()->option_text("FILE.d");
  app.add_flag("-C", preprocess, "Run the C preprocessor (cpp) on the definition first");
  const auto each = [&](const char* name, std::vector<std::string>& values, const char* text,
                        const char* value) {
    app.add_option(name, values, text)->allow_extra_args(false)->option_text(value);
  };
  each("-D", defines, "With -C: define a macro", "NAME[=VALUE]");
  each("-I", includes, "With -C: search this directory for included files", "DIRECTORY");
}

Needs DefinitionOptions::needs() const {
  Needs needs = needs_of_building();
  needs.launches = preprocess;
  return needs;
}

Result<usdt::Definition> DefinitionOptions::read() const {
  if (!preprocess && !(defines.empty() && includes.empty()))
    return fail(ErrorCode::usage, "-D and -I require the C preprocessor", "add -C");
  usdt::DefinitionFile file;
  file.path = path;
  file.preprocess = preprocess;
  for (const std::string& one : defines) file.arguments.push_back("-D" + one);
  for (const std::string& one : includes) file.arguments.push_back("-I" + one);
  Result<usdt::Definition> definition = usdt::read_definition(file);
  if (definition)
    for (const std::string& warning : definition->warnings) note(warning);
  TRY(go_on_confined(needs()));
  return definition;
}

void define_enabled(CLI::App& app, usdt::EnabledProtocol& protocol) {
  using usdt::EnabledProtocol;
  add_choice(
      app, "--enabled", protocol,
      std::vector<std::pair<const char*, EnabledProtocol>>{
          {"semaphore", EnabledProtocol::semaphore},
          {"return-value", EnabledProtocol::return_value},
          {"pointer", EnabledProtocol::pointer}},
      "How PROVIDER_PROBE_ENABLED() is evaluated: by a counter that the kernel keeps (semaphore, "
      "the default), or by a call whose result the tracer sets, as hosts with DTrace expect");
}

namespace {

class UsdtCommand : public Command {
 public:
  UsdtCommand() {
    parts_.push_back(make_usdt_header_command());
    parts_.push_back(make_usdt_link_command());
    parts_.push_back(make_usdt_dump_command());
  }

  Manual manual() const override {
    return {"usdt",
            "process provider definitions into static probes",
            {"A definition file declares a provider, in DTrace's language: `provider shop { probe "
             "request__start(int id, const char *path); };`. vitrine usdt header generates a "
             "header from it, the program is compiled with the header, and the object step "
             "(vitrine usdt link) replaces the probe calls in the objects: a nop remains at each "
             "site, and a table (DOF) in the file lists the sites. vitrine probes lists the "
             "probes, vitrine trace traces them."},
            {{"vitrine usdt header -s shop.d", "writes shop.h"},
             {"vitrine usdt link -s shop.d -o shop_probes.o main.o shop.o",
              "rewrites the objects, and writes the probe object to link with them"},
             {"vitrine usdt dump ./shop", "what the file then contains about its probes"}},
            {"probes", "trace", "usdt-header", "usdt-link", "usdt-dump"}};
  }

  void define(CLI::App&) override {}
  Needs needs() const override { return {}; }
  Result<int> run() override { return exit_usage; }

  std::vector<Command*> parts() override {
    std::vector<Command*> out;
    for (const auto& part : parts_) out.push_back(part.get());
    return out;
  }

 private:
  std::vector<std::unique_ptr<Command>> parts_;
};

}  // namespace

std::unique_ptr<Command> make_usdt_command() {
  return std::make_unique<UsdtCommand>();
}

namespace {

// vitrine usdt header: the C and C++ header of a provider's definition.

class UsdtHeaderCommand : public Command {
 public:
  Manual manual() const override {
    return {"usdt header",
            "generate the C and C++ header of a provider",
            {"Reads the definition of one or more providers and writes the header with which a "
             "program fires their probes: for `provider shop { probe request__start(int id); };` a "
             "macro SHOP_REQUEST_START(id), and SHOP_REQUEST_START_ENABLED() for arguments that "
             "are expensive to compute. The header works with C89 to C23 and C++98 to C++20, gcc "
             "and clang, on x86-64, i386 and aarch64. With -D_DTRACE_VERSION=0 the program is "
             "compiled without probes and evaluates no argument.",
             "Objects compiled with the header need the object step, vitrine usdt link. An "
             "unchanged header is not written again."},
            {{"vitrine usdt header -s shop.d", "writes shop.h"},
             {"vitrine usdt header -s shop.d -o -", "prints it"},
             {"vitrine usdt header -C -DWITH_TLS -s shop.d -o gen/shop.h",
              "for a definition with #ifdef or #include"}},
            {"usdt-link", "usdt"}};
  }

  void define(CLI::App& app) override {
    definition_.define(app);
    app.add_option("-o", output_,
                   "Output file; - for standard output (name of the definition + .h)")
        ->option_text("FILE.h");
    define_enabled(app, header_.enabled);
  }

  Needs needs() const override { return definition_.needs(); }

  Result<int> run() override {
    const auto definition = TRY(definition_.read());
    return write_header(definition, header_, definition_.path, output_);
  }

 private:
  DefinitionOptions definition_;
  std::string output_;
  usdt::HeaderOptions header_;
};

/// Writing it would destroy what the user wrote.
Result<void> require_another_file(const std::string& source, const std::string& output) {
  std::error_code error;
  if (!std::filesystem::equivalent(source, output, error) || error) return {};
  return fail(ErrorCode::usage, output + " is both the definition and the output",
              "name another file with -o");
}

}  // namespace

Result<int> write_header(const usdt::Definition& definition, usdt::HeaderOptions options,
                         const std::string& source, std::string output) {
  const std::string name = usdt::stem(source) + ".h";
  if (output.empty()) output = name;
  TRY(require_another_file(source, output));
  options.file_name = output == "-" ? name : output;
  const std::string text = TRY(usdt::header_text(definition, options));
  if (output == "-") {
    write_output(text);  // finish_output() reports what fails
    return exit_done;
  }
  TRY(sandbox::write_whole(output, text));
  return exit_done;
}

std::unique_ptr<Command> make_usdt_header_command() {
  return std::make_unique<UsdtHeaderCommand>();
}

namespace {

// vitrine usdt link: the object step.

class UsdtLinkCommand : public Command {
 public:
  Manual manual() const override {
    return {"usdt link",
            "replace probe calls in objects by nops, and write the probe object",
            {"Rewrites the objects in place: each probe call of the definition becomes a nop, and "
             "nothing else changes. Writes the probe object, which holds the table of sites (DOF): "
             "link it with the objects, once for each program or shared library. No address in it "
             "needs the dynamic linker. Notes beside the table (.note.stapsdt) announce the same "
             "sites to tools that do not read DOF.",
             "The step may be repeated on the same objects, and may include objects without "
             "probes. Objects outside the step, from archives or link-time optimisation, also fire "
             "their probes, through a function of the probe object. The step fails if none of the "
             "objects calls a declared probe. On an error no object is changed."},
            {{"vitrine usdt link -s shop.d -o shop_probes.o main.o shop.o",
              "then: cc -o shop main.o shop.o shop_probes.o"},
             {"vitrine usdt link --strict -s shop.d -o shop_probes.o *.o",
              "also fails if one of the declared probes is called by no object"}},
            {"usdt-header", "usdt", "probes", "trace"}};
  }

  void define(CLI::App& app) override {
    definition_.define(app);
    app.add_option("OBJECT", link_.objects, "Objects (.o) compiled with the provider's header")
        ->required();
    app.add_option("-o", link_.output, "Probe object to write (name of the definition + .o)")
        ->option_text("FILE.o");
    define_enabled(app, link_.enabled);
    app.add_flag("--strict", link_.strict,
                 "Fail if one of the declared probes is called by no object");
    app.add_flag(
        "--lld", link_.lld,
        "Required if lld 15 or newer links the objects, and probes are in inline functions");
    app.add_flag("--sdt,!--no-sdt", link_.sdt,
                 "Also write the notes of <sys/sdt.h>, by which bpftrace, bcc, perf, gdb and "
                 "systemtap find the probes (the default; --no-sdt omits them)");
    app.add_flag("--nop5", link_.long_nop,
                 "Leave one nop of 5 bytes at a probe (x86), which recent kernels trace faster");
    app.add_flag("--registration", link_.registration,
                 "For hosts with a DTrace helper device: register the probes at program start, by "
                 "share/vitrine/usdt_register.c, which must be linked, too");
    app.add_flag("-v,--verbose", verbose_, "Print a summary");
  }

  Needs needs() const override { return definition_.needs(); }

  Result<int> run() override {
    const auto definition = TRY(definition_.read());
    return link_objects(definition, link_, definition_.path, verbose_);
  }

 private:
  DefinitionOptions definition_;
  usdt::LinkOptions link_;
  bool verbose_ = false;
};

}  // namespace

Result<int> link_objects(const usdt::Definition& definition, usdt::LinkOptions options,
                         const std::string& source, bool verbose) {
  if (options.output.empty()) options.output = usdt::stem(source) + ".o";
  TRY(require_another_file(source, options.output));
  const usdt::LinkReport done = TRY(usdt::link(definition, options));
  for (const std::string& warning : done.warnings)
    print_error("vitrine: warning: {}\n", printable(warning));
  if (!verbose) return exit_done;
  for (const std::string& text : done.notes) note(text);
  note(fmt::format(
      "{}: {} sites and {} is-enabled sites in {} functions; {} of {} objects rewritten",
      options.output, done.sites, done.enabled_sites, done.records, done.rewritten.size(),
      options.objects.size()));
  return exit_done;
}

std::unique_ptr<Command> make_usdt_link_command() {
  return std::make_unique<UsdtLinkCommand>();
}

namespace {

constexpr auto usage =
    "usage: dtrace -h -s FILE.d [-o FILE.h] [-C [-D NAME[=VALUE]] [-I DIRECTORY]]\n       dtrace "
    "-G -s FILE.d [-o "
    "FILE.o] [-32|-64] [-C …] [OBJECT…]\n       dtrace -V\nThis is vitrine: it processes provider "
    "definitions as "
    "dtrace does. See vitrine usdt --help.\n";

// As DTrace has them, each with whether it takes a value.
constexpr auto all_options = ":3:6:aAb:Bc:CD:ef:FGhHi:I:klL:m:n:o:p:P:qs:SU:vVwx:X:Z";

struct Request {
  char step = '\0';  // 'h' or 'G'
  std::string output;
  usdt::DefinitionFile definition;
  bool verbose = false;
  bool done = false;    // nothing is left to do
  bool narrow = false;  // -32: matters only without objects
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
      request.narrow = option == '3';
      return std::nullopt;
    case 'x':
      set(request, value);
      return std::nullopt;
    case 'v':
      request.verbose = true;
      return std::nullopt;
    case 'V':
      write_output(fmt::format("vitrine {}, as dtrace -h and dtrace -G\n", VITRINE_VERSION));
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
  return file_name(name) == "dtrace";
}

namespace {

Result<int> dtrace(int argc, char** argv) {
  Request request;
  for (int option; (option = ::getopt(argc, argv, all_options)) != -1;)
    if (const auto error = take(request, option, optarg == nullptr ? "" : optarg))
      return tl::unexpected(*error);
  if (request.done) return exit_done;
  if (request.step == '\0') return tl::unexpected(wrong("missing option: -h or -G", usage));
  if (request.definition.path.empty())
    return tl::unexpected(wrong(fmt::format("-{} requires a definition", request.step), usage));

  Needs needs = needs_of_building();
  needs.launches = request.definition.preprocess;
  TRY(begin_confined(needs));
  const auto definition = TRY(usdt::read_definition(request.definition));
  for (const std::string& warning : definition.warnings) note(warning);
  TRY(go_on_confined(needs));
  if (request.step == 'h')
    return write_header(definition, {}, request.definition.path, request.output);
  usdt::LinkOptions link;
  link.objects.assign(argv + optind, argv + argc);
  link.output = request.output;
  // As systemtap's: the program may have its objects in archives, or not compiled yet.
  const bool i386 = request.narrow && native_machine == Machine::x86_64;
  link.without_objects = usdt::find_machine(i386 ? Machine::i386 : native_machine);
  return link_objects(definition, link, request.definition.path, request.verbose);
}

}  // namespace

int run_as_dtrace(int argc, char** argv) {
  const auto done = dtrace(argc, argv);
  return done ? *done : report(done.error());
}

}  // namespace vitrine::cli
