#include "cli/definition_options.hpp"

#include "cli/confinement.hpp"
#include "cli/report.hpp"
#include "usdt/definition_file.hpp"

namespace vitrine::cli {

void DefinitionOptions::define(CLI::App& app) {
  app.add_option("-s", path, "Provider definition")->required()->option_text("FILE.d");
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
  static const std::map<std::string, EnabledProtocol> names = {
      {"semaphore", EnabledProtocol::semaphore},
      {"return-value", EnabledProtocol::return_value},
      {"pointer", EnabledProtocol::pointer}};
  app.add_option("--enabled", protocol,
                 "How PROVIDER_PROBE_ENABLED() is evaluated: by a counter that the kernel keeps "
                 "(semaphore), or by a call whose result the tracer sets, as hosts with DTrace "
                 "expect")
      ->transform(CLI::CheckedTransformer(names).description(""))
      ->option_text("semaphore|return-value|pointer [semaphore]");
}

}  // namespace vitrine::cli
