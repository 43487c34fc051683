// vitrine usdt header: the C and C++ header of a provider's definition.
#include <cstdio>

#include "cli/command.hpp"
#include "cli/definition_options.hpp"
#include "cli/exit_code.hpp"
#include "cli/report.hpp"
#include "cli/usdt_header.hpp"
#include "usdt/definition_file.hpp"
#include "usdt/output_file.hpp"

namespace vitrine::cli {
namespace {

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
    app.add_option("-o", output_, "Output file; - for standard output")
        ->option_text("FILE.h [name of the definition + .h]");
    define_enabled(app, header_.enabled);
  }

  Needs needs() const override { return definition_.needs(); }

  int run() override {
    const auto definition = definition_.read();
    if (!definition) return report(definition.error());
    return write_header(*definition, header_, definition_.path, output_);
  }

 private:
  DefinitionOptions definition_;
  std::string output_;
  usdt::HeaderOptions header_;
};

}  // namespace

int write_header(const usdt::Definition& definition, usdt::HeaderOptions options,
                 const std::string& source, std::string output) {
  const std::string name = usdt::stem(source) + ".h";
  if (output.empty()) output = name;
  options.file_name = output == "-" ? name : output;
  const Result<std::string> text = usdt::header_text(definition, options);
  if (!text) return report(text.error());
  if (output == "-") {
    const bool all = std::fwrite(text->data(), 1, text->size(), stdout) == text->size();
    if (all && std::fflush(stdout) == 0) return exit_done;
    return report({ErrorCode::failed, "cannot write to standard output", {}});
  }
  const auto written = usdt::write_whole(output, *text);
  return written ? exit_done : report(written.error());
}

std::unique_ptr<Command> make_usdt_header_command() {
  return std::make_unique<UsdtHeaderCommand>();
}

}  // namespace vitrine::cli
