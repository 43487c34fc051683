#include "check/rules.hpp"

namespace vitrine::check {

std::vector<const Requirement*> all_requirements() {
  std::vector<const Requirement*> all;
  const auto take = [&](const auto& rules) {
    for (const auto& rule : rules) all.push_back(&rule.requirement);
  };
  take(label_file_rules());
  take(process_rules());
  take(live_label_rules());
  take(thread_context_file_rules());
  take(thread_schema_rules());
  take(live_record_rules());
  take(process_context_rules());
  take(sdt_rules());
  take(dof_rules());
  return all;
}

}  // namespace vitrine::check
