#include "observe/named_file.hpp"

#include <elf.h>

#include <algorithm>
#include <set>

#include "base/limits.hpp"
#include "elf/build_id.hpp"
#include "symbol/demangle.hpp"

namespace vitrine::observe {

bool NamedFile::parse() {
  if (parsed_) return is_elf_;
  parsed_ = true;
  auto elf = elf::read_file(*file_);
  if (!elf) return false;
  elf_ = std::move(*elf);
  is_elf_ = true;
  return true;
}

std::optional<Address> NamedFile::address_of(std::uint64_t offset) {
  if (!parse()) return std::nullopt;
  for (const elf::Segment& segment : elf_.segments)
    if (segment.type == PT_LOAD && (segment.flags & PF_X) != 0 && offset >= segment.offset &&
        offset - segment.offset < segment.file_size)
      return offset - segment.offset + segment.address;
  return std::nullopt;
}

std::vector<elf::NamedFunction> NamedFile::functions(std::span<const Address> addresses,
                                                     const symbol::DebugPlaces& places) {
  std::set<Address> fresh;
  for (const Address address : addresses)
    if (!known_.contains(address)) fresh.insert(address);
  if (!fresh.empty() && parse()) {
    // A table to search costs as much for one address as for all: what was found is kept, and when
    // that gets too much, begun anew.
    if (known_.size() + fresh.size() > limits::named_addresses) {
      known_.clear();
      fresh.insert(addresses.begin(), addresses.end());
    }
    look_up(std::vector<Address>(fresh.begin(), fresh.end()), places);
  }
  std::vector<elf::NamedFunction> found;
  for (const Address address : addresses) {
    const auto known = known_.find(address);
    found.push_back(known == known_.end() ? elf::NamedFunction{} : known->second);
  }
  return found;
}

void NamedFile::look_up(std::span<const Address> addresses, const symbol::DebugPlaces& places) {
  const auto take = [&](std::vector<elf::NamedFunction> functions) {
    bool complete = true;
    for (std::size_t i = 0; i < addresses.size(); ++i) {
      elf::NamedFunction& known = known_[addresses[i]];
      if (known.name.empty() && !functions[i].name.empty())
        known = {symbol::demangled(functions[i].name), functions[i].start};
      complete = complete && !known.name.empty();
    }
    return complete;
  };
  if (take(elf::functions_around(*file_, elf_, addresses))) return;
  if (!looked_for_debug_) {
    looked_for_debug_ = true;
    debug_ = symbol::find_debug_file(*file_, elf_, elf::hex_build_id(*file_, elf_), places);
  }
  if (debug_ != nullptr) take(elf::functions_around(*debug_->memory, debug_->elf, addresses));
}

}  // namespace vitrine::observe
