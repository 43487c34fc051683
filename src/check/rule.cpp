#include "check/rule.hpp"

namespace vitrine::check {

std::string_view name(Profile profile) {
  switch (profile) {
    case Profile::custom_labels_v0:
      return "custom-labels-v0";
    case Profile::custom_labels_v1:
      return "custom-labels-v1";
    case Profile::otep_4947:
      return "otep-4947";
    case Profile::otep_4719:
      return "otep-4719";
    case Profile::sdt:
      return "sdt";
    case Profile::dof:
      return "dof";
  }
  return "unknown";
}

std::vector<std::string_view> Profiles::names() const {
  std::vector<std::string_view> all;
  for (const Profile one : all_profiles)
    if (has(one)) all.push_back(name(one));
  return all;
}

std::string_view name(Verdict verdict) {
  switch (verdict) {
    case Verdict::holds:
      return "holds";
    case Verdict::fails:
      return "fails";
    case Verdict::does_not_apply:
      return "does-not-apply";
    case Verdict::undecided:
      return "undecided";
  }
  return "unknown";
}

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
