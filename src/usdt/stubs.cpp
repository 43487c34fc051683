#include "usdt/stubs.hpp"

#include <span>

#include "usdt/hash.hpp"

namespace vitrine::usdt {

Stub make_stub(const ObjectMachine& machine, dof::Use use, std::string_view symbol) {
  const auto pattern = dof::pattern_to_write(machine.machine, use, dof::Instruction::stub).value();
  Stub stub;
  stub.code.assign(machine.entry.begin(), machine.entry.end());
  stub.site = static_cast<std::uint32_t>(stub.code.size()) + pattern.site;
  const auto code = std::as_bytes(pattern.code());
  stub.code.insert(stub.code.end(), code.begin(), code.end());
  stub.code.resize((stub.code.size() + 3) / 4 * 4);
  stub.data = static_cast<std::uint32_t>(stub.code.size());
  // Without these a linker that folds identical functions would make all stubs one.
  const std::uint64_t id = hash(symbol);
  const auto raw = std::as_bytes(std::span(&id, 1));
  stub.code.insert(stub.code.end(), raw.begin(), raw.end());
  return stub;
}

}  // namespace vitrine::usdt
