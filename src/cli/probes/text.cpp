#include "cli/probes/text.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "observe/probes/probe_symbols.hpp"
#include "probe/types.hpp"

namespace vitrine::cli {
namespace {

std::string title(const probe::Probe& probe) {
  return printable(probe.provider) + ':' + printable(probe.name);
}

/// "id: int, item: const char *" where a probe describes itself, else as the note has them.
std::string arguments(const probe::Site& site) {
  std::vector<std::string> texts;
  for (const probe::ArgumentType& type : site.types) {
    const std::string name = type.argument < site.arguments.size()
                                 ? printable(probe::type_name(type, site.arguments[type.argument]))
                                 : printable(type.type);
    texts.push_back(type.name.empty() ? name : printable(type.name) + ": " + name);
  }
  if (!texts.empty()) return fmt::format("{}", fmt::join(texts, ", "));
  for (const std::string& argument : site.arguments) texts.push_back(printable(argument));
  return fmt::format("{}", fmt::join(texts, " "));
}

/// Of all sites: an optimiser has each site's arguments elsewhere, so one stands for all.
std::string arguments(const probe::Probe& probe) {
  if (probe.sites.empty()) return {};
  const std::string first = arguments(probe.sites.front());
  const bool alike = std::all_of(probe.sites.begin(), probe.sites.end(), [&](const auto& site) {
    return site.arguments == probe.sites.front().arguments;
  });
  return alike || !probe.sites.front().types.empty() ? first : first + " …";
}

std::string semaphore(const probe::Probe& probe) {
  const auto guarded = std::count_if(probe.sites.begin(), probe.sites.end(),
                                     [](const probe::Site& site) { return site.semaphore != 0; });
  if (guarded == 0) return "-";
  return static_cast<std::size_t>(guarded) == probe.sites.size() ? "yes" : "some";
}

/// What is wrong with a site, and the function it is in.
std::string remarks(const probe::Site& site, const Style& style) {
  std::string out;
  for (const std::string& problem : site.problems)
    out += style.yellow(" (" + printable(problem) + ")");
  if (!site.function.empty()) out += style.dim("  in " + printable(site.function_name()));
  return out;
}

std::string site_text(const probe::Site& site, observe::ArgumentErrors& errors,
                      const Style& style) {
  std::string out = arguments(site);
  if (!site.types.empty() && !site.arguments.empty())
    out += style.dim(
        fmt::format("  {}", printable(fmt::format("{}", fmt::join(site.arguments, " ")))));
  for (const auto& error : errors.of(site))
    if (error) out += style.yellow(" (" + printable(error->message) + ")");
  return out + remarks(site, style);
}

std::string where(const probe::Site& site, const ShownProbes& shown) {
  return hex(site.address + shown.bias.value_or(0));
}

}  // namespace

std::string probes_text(const ShownProbes& shown, const Style& style) {
  Table table;
  table.row(
      {style.dim("PROBE"), style.dim("SITES"), style.dim("SEMAPHORE"), style.dim("ARGUMENTS")});
  for (const probe::Probe* probe : shown.probes)
    table.row({style.cyan(title(*probe)), std::to_string(probe->sites.size()), semaphore(*probe),
               arguments(*probe)});
  return style.bold(printable(shown.file->path)) + '\n' + table.str(2);
}

std::string sites_text(const ShownProbes& shown, const Style& style) {
  std::string out = style.bold(printable(shown.file->path));
  if (!shown.file->build_id.empty())
    out += style.dim(fmt::format("  build id {}", shown.file->build_id));
  observe::ArgumentErrors errors(*shown.file);
  if (shown.bias) out += style.dim(fmt::format("  loaded at {}", hex(*shown.bias)));
  out += '\n';
  for (const probe::Probe* probe : shown.probes) {
    out += "  " + style.cyan(title(*probe)) + '\n';
    Table table;
    for (const probe::Site& site : probe->sites)
      table.row({where(site, shown), site.semaphore == 0 ? "-" : "semaphore " + hex(site.semaphore),
                 site_text(site, errors, style)});
    for (const probe::Site& site : probe->questions)
      table.row({where(site, shown), "is-enabled",
                 fmt::format("by {}", probe::protocol_name(site.use)) + remarks(site, style)});
    out += table.str(4);
  }
  return out;
}

}  // namespace vitrine::cli
