#include "usdt/bitcode.hpp"

#include <elf.h>

#include <string_view>

namespace vitrine::usdt {
namespace {

struct Triple {
  std::string_view begins;
  std::uint16_t machine;
  bool wide;
};

constexpr Triple triples[] = {
    {"x86_64-", EM_X86_64, true}, {"aarch64-", EM_AARCH64, true}, {"i386-", EM_386, false},
    {"i486-", EM_386, false},     {"i586-", EM_386, false},       {"i686-", EM_386, false},
};

std::string_view text(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace

bool is_bitcode(std::span<const std::byte> bytes) {
  return text(bytes).starts_with("BC\xc0\xde") || text(bytes).starts_with("\xde\xc0\x17\x0b");
}

const ObjectMachine* bitcode_machine(std::span<const std::byte> bytes) {
  // Names of symbols lie around it without a separator; they have no '-'.
  for (const Triple& triple : triples)
    if (text(bytes).find(triple.begins) != std::string_view::npos)
      return find_machine(triple.machine, triple.wide);
  return nullptr;
}

}  // namespace vitrine::usdt
