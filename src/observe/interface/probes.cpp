// <vitrine/observe/probes.hpp>.
#include "observe/probes/probes.hpp"

#include <vitrine/observe/probes.hpp>

#include "observe/interface/convert.hpp"
#include "probe/types.hpp"

namespace vitrine::observer {
inline namespace v1 {
namespace {

ProbeSite public_site(const probe::Site& from, std::optional<Address> bias) {
  ProbeSite to;
  to.address = from.address;
  to.file_offset = from.file_offset;
  if (bias) to.runtime_address = from.address + *bias;
  if (from.semaphore != 0) to.semaphore = from.semaphore;
  to.function = from.function;
  for (const std::string& argument : from.arguments) to.arguments.push_back({argument, {}, {}});
  for (const probe::ArgumentType& type : from.types) {
    if (type.argument >= to.arguments.size()) continue;
    ProbeArgument& argument = to.arguments[type.argument];
    argument.name = type.name;
    argument.type = probe::type_name(type, argument.location);
  }
  to.problems = from.problems;
  return to;
}

void add_probes(ProbeList& list, const observe::ProbeFile& file, std::optional<Address> bias) {
  for (const probe::Probe& one : file.probes) {
    Probe to;
    to.kind = one.kind == probe::Kind::sdt ? Probe::Kind::sdt : Probe::Kind::dof;
    to.provider = one.provider;
    to.name = one.name;
    to.module = file.path;
    to.build_id = file.build_id;
    for (const probe::Site& site : one.sites) to.sites.push_back(public_site(site, bias));
    list.probes.push_back(std::move(to));
  }
  for (const std::string& problem : file.problems)
    list.problems.push_back(file.path + ": " + problem);
}

}  // namespace

Result<ProbeList> probes_of_file(const std::string& path) {
  observe::ProbeFiles files({.functions = true});
  return convert::opened<ProbeList>(files.open(path), [](const auto& file) {
    ProbeList list;
    add_probes(list, *file, std::nullopt);
    return list;
  });
}

Result<ProbeList> probes_of_process(int pid) {
  observe::ProbeFiles files({.functions = true});
  return convert::opened<ProbeList>(files.of_process(pid), [](observe::ProcessProbes found) {
    ProbeList list;
    list.problems = std::move(found.problems);
    for (const observe::ProbeModule& module : found.modules)
      add_probes(list, *module.file, module.bias);
    return list;
  });
}

}  // namespace v1
}  // namespace vitrine::observer
