#include "observe/profile/selection.hpp"

#include <string_view>

#include "base/text.hpp"

namespace vitrine::observe {
namespace {

bool has_process(const ProcessSelection& selection, const ProcessFacts& facts) {
  const std::string_view program =
      facts.executable.empty() ? std::string_view(facts.command) : file_name(facts.executable);
  return is_listed(selection.programs, program) && is_listed(selection.cgroups, facts.cgroup) &&
         is_listed(selection.containers, facts.container) &&
         is_listed(selection.services, service_name(facts));
}

}  // namespace

Selected selected_by(const ProcessSelection& selection, SampledProgram& program,
                     const std::function<void(SampledProgram&)>& learn) {
  if (selection.is_all() || has_process(selection, program.facts)) return Selected::yes;
  if (!program.looked_at) return Selected::unknown;
  if (program.learnt) return Selected::no;
  learn(program);
  return has_process(selection, program.facts) ? Selected::yes : Selected::no;
}

bool may_be_selected(const ProcessSelection& selection, SampledProgram& program) {
  if (selection.is_all()) return true;
  if (program.looked_at) return has_process(selection, program.facts);
  ProcessFacts& facts = program.facts;
  if (!facts.executable.empty() &&
      !is_listed(selection.programs, std::string_view(file_name(facts.executable))))
    return false;
  if (selection.cgroups.empty() && selection.containers.empty()) return true;
  SampledPrograms::read_groups(program);  // those that its parent had may have been others
  return is_listed(selection.cgroups, facts.cgroup) &&
         is_listed(selection.containers, facts.container);
}

}  // namespace vitrine::observe
