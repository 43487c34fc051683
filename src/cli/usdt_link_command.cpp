// vitrine usdt link: the object step.
#include <fmt/format.h>

#include "cli/command.hpp"
#include "cli/definition_options.hpp"
#include "cli/exit_code.hpp"
#include "cli/report.hpp"
#include "cli/text.hpp"
#include "cli/usdt_link.hpp"
#include "usdt/definition_file.hpp"

namespace vitrine::cli {
namespace {

class UsdtLinkCommand : public Command {
 public:
  Manual manual() const override {
    return {"usdt link",
            "replace probe calls in objects by nops, and write the probe object",
            {"Rewrites the objects in place: each probe call of the definition becomes a nop, and "
             "nothing else changes. Writes the probe object, which holds the table of sites (DOF): "
             "link it with the objects, once for each program or shared library. No address in it "
             "needs the dynamic linker.",
             "The step may be repeated on the same objects, and may include objects without "
             "probes. Objects outside the step, from archives or link-time optimisation, also fire "
             "their probes, through a function of the probe object. On an error no object is "
             "changed."},
            {{"vitrine usdt link -s shop.d -o shop_probes.o main.o shop.o",
              "then: cc -o shop main.o shop.o shop_probes.o"},
             {"vitrine usdt link --strict -s shop.d -o shop_probes.o *.o",
              "fails if no object fires a declared probe"}},
            {"usdt-header", "usdt", "probes", "trace"}};
  }

  void define(CLI::App& app) override {
    definition_.define(app);
    app.add_option("OBJECT", link_.objects, "Objects (.o) compiled with the provider's header")
        ->required();
    app.add_option("-o", link_.output, "Probe object to write")
        ->option_text("FILE.o [name of the definition + .o]");
    define_enabled(app, link_.enabled);
    app.add_flag("--strict", link_.strict, "Fail if no object fires a declared probe");
    app.add_flag(
        "--lld", link_.lld,
        "Required if lld 15 or newer links the objects, and probes are in inline functions");
    app.add_flag("--nop5", link_.long_nop,
                 "Leave one nop of 5 bytes at a probe (x86), which recent kernels trace faster");
    app.add_flag("--registration", link_.registration,
                 "For hosts with a DTrace helper device: register the probes at program start, by "
                 "share/vitrine/usdt_register.c, which must be linked, too");
    app.add_flag("-v,--verbose", verbose_, "Print a summary");
  }

  Needs needs() const override { return definition_.needs(); }

  int run() override {
    const auto definition = definition_.read();
    if (!definition) return report(definition.error());
    return link_objects(*definition, link_, definition_.path, verbose_);
  }

 private:
  DefinitionOptions definition_;
  usdt::LinkOptions link_;
  bool verbose_ = false;
};

}  // namespace

int link_objects(const usdt::Definition& definition, usdt::LinkOptions options,
                 const std::string& source, bool verbose) {
  if (options.output.empty()) options.output = usdt::stem(source) + ".o";
  const Result<usdt::LinkReport> done = usdt::link(definition, options);
  if (!done) return report(done.error());
  for (const std::string& warning : done->warnings)
    fmt::print(stderr, "vitrine: warning: {}\n", printable(warning));
  if (!verbose) return exit_done;
  for (const std::string& text : done->notes) note(text);
  note(fmt::format(
      "{}: {} sites and {} is-enabled sites in {} functions; {} of {} objects rewritten",
      options.output, done->sites, done->enabled_sites, done->records, done->rewritten.size(),
      options.objects.size()));
  return exit_done;
}

std::unique_ptr<Command> make_usdt_link_command() {
  return std::make_unique<UsdtLinkCommand>();
}

}  // namespace vitrine::cli
