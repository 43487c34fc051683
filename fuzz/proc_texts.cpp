// The kernel's texts about a process, which hold what the process chose: its name, its control groups.
#include "input.hpp"
#include "observe/process/facts.hpp"
#include "target/proc_file.hpp"

using namespace vitrine;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  if (const auto stat = target::parse_stat(text)) {
    fuzz::require(stat->comm.size() < size);
    (void)stat->kernel_thread();
  }
  for (const char* name : {"Uid", "NSpid", "CapEff", "Name"})
    if (const auto field = target::status_field(text, name)) fuzz::require(field->size() < size);
  const std::string id = observe::container_id(text);
  fuzz::require(id.empty() || id.size() == 64);
  return 0;
}
