// What a worker does for who unwinds stacks: it keeps the CFI of files, and tells the rules of their
// code (file_rules.hpp).
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "elf/packed.hpp"
#include "unwind/packed.hpp"
#include "worker/service.hpp"

namespace vitrine::observe {

struct RuleQuestion {
  enum class What : std::uint8_t {
    open,   ///< the file comes with it; the answer is a Result<OpenedRules>
    rules,  ///< those around an address: FoundRules
    row,    ///< all that there is of an address: std::optional<unwind::Row>
  };
  What what = What::open;
  std::uint32_t file = 0;             ///< its number, that who asks has given it
  Address address = 0;                ///< one of the file's own
  std::vector<std::uint32_t> closed;  ///< files that nobody will ask about any more
};

struct OpenedRules {
  Machine machine = Machine::x86_64;
  std::vector<elf::Segment> segments;  ///< those that are executed
  std::string problem;                 ///< what of the CFI could not be used; empty: nothing
};

struct FoundRules {
  unwind::Rule rule;         ///< of the address itself
  unwind::RuleBlock around;  ///< and what is worth knowing with it; may be empty
};

constexpr RuleQuestion::What last(RuleQuestion::What) {
  return RuleQuestion::What::row;
}

template <pack::Of<RuleQuestion> T>
auto fields(T& question) {
  auto& [what, file, address, closed] = question;
  return std::tie(what, file, address, closed);
}

template <pack::Of<OpenedRules> T>
auto fields(T& opened) {
  auto& [machine, segments, problem] = opened;
  return std::tie(machine, segments, problem);
}

template <pack::Of<FoundRules> T>
auto fields(T& found) {
  auto& [rule, around] = found;
  return std::tie(rule, around);
}

std::unique_ptr<worker::Service> make_rule_service();

}  // namespace vitrine::observe
