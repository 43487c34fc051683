#include "cli/needs.hpp"

namespace vitrine::cli {

using confine::Calls;

Needs needs_of_reading() {
  return {capabilities::reading,
          capabilities::reading,
          // With children: what is parsed for it is parsed in a worker.
          {Calls::memory, Calls::reading, Calls::files, Calls::threads, Calls::processes},
          false};
}

Needs needs_of_bpf() {
  Needs needs = needs_of_reading();
  needs.setting_up = needs.working = needs.working | capabilities::bpf;
  needs.calls.allow(Calls::kernel);
  return needs;
}

Needs needs_of_building() {
  return {capabilities::writing,
          capabilities::writing,
          {Calls::memory, Calls::reading, Calls::files, Calls::changing, Calls::threads,
           Calls::processes, Calls::ipc},
          false};
}

}  // namespace vitrine::cli
