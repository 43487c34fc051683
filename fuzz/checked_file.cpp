// A file that `vitrine check` is given: all that rules ask of it, with its probes. In a worker.
#include "check/file_facts.hpp"
#include "check/rule.hpp"
#include "file.hpp"

using namespace vitrine;

namespace {

void ask(std::span<const check::Rule<check::FileSubject>> rules,
         const check::FileSubject& subject) {
  for (const auto& rule : rules) {
    const check::Outcome outcome = rule.ask(subject);
    fuzz::require(outcome.seen.size() < (1U << 20));
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto input = fuzz::bytes(data, size);
  const auto subject = check::FileSubject::of(fuzz::file(input), "fuzzed", "fuzzed");
  if (!subject) {
    fuzz::require(!subject.error().message.empty());
    return 0;
  }
  for (const auto rules : {check::label_file_rules(), check::thread_context_file_rules(),
                           check::sdt_rules(), check::dof_rules()})
    ask(rules, **subject);
  return 0;
}
