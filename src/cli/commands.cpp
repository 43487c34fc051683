#include "cli/command.hpp"

namespace vitrine::cli {

std::vector<std::unique_ptr<Command>> all_commands() {
  std::vector<std::unique_ptr<Command>> commands;
  commands.push_back(make_ps_command());
  commands.push_back(make_labels_command());
  commands.push_back(make_context_command());
  commands.push_back(make_probes_command());
  commands.push_back(make_trace_command());
  commands.push_back(make_profile_command());
  commands.push_back(make_check_command());
  commands.push_back(make_usdt_command());
  commands.push_back(make_doctor_command());
  return commands;
}

}  // namespace vitrine::cli
