#include "observe/named_file.hpp"

#include <elf.h>

#include <algorithm>
#include <set>
#include <utility>

#include "base/limits.hpp"
#include "elf/build_id.hpp"
#include "elf/packed.hpp"
#include "symbol/debug_file.hpp"
#include "symbol/demangle.hpp"
#include "worker/parser.hpp"

namespace vitrine::observe {
namespace {

struct Question {
  std::vector<Address> addresses;
  symbol::DebugSearch debug;
};

template <pack::Of<Question> T>
auto fields(T& question) {
  auto& [addresses, debug] = question;
  return std::tie(addresses, debug);
}

/// In a worker: what of the file is executed.
Result<std::vector<elf::Segment>> read_code(const worker::Nothing&, FileDescriptor descriptor) {
  const auto file = TRY(file::FileMemory::from(std::move(descriptor)));
  auto elf = TRY(elf::read_file(*file));
  std::erase_if(elf.segments, [](const elf::Segment& segment) {
    return segment.type != PT_LOAD || (segment.flags & PF_X) == 0;
  });
  return std::move(elf.segments);
}

/// In a worker: the functions around addresses.
Result<std::vector<elf::NamedFunction>> find_functions(const Question& question,
                                                       FileDescriptor descriptor) {
  const auto file = TRY(file::FileMemory::from(std::move(descriptor)));
  const auto elf = TRY(elf::read_file(*file));
  auto found = elf::functions_around(*file, elf, question.addresses);
  const auto is_nameless = [](const elf::NamedFunction& one) { return one.name.empty(); };
  if (std::ranges::any_of(found, is_nameless)) {
    const auto debug =
        symbol::find_debug_file(*file, elf, elf::hex_build_id(*file, elf), question.debug);
    if (debug != nullptr) {
      auto there = elf::functions_around(*debug->memory, debug->elf, question.addresses);
      for (std::size_t i = 0; i < found.size(); ++i)
        if (is_nameless(found[i])) found[i] = std::move(there[i]);
    }
  }
  for (elf::NamedFunction& one : found) one.name = symbol::demangled(one.name);
  return found;
}

}  // namespace

std::optional<Address> NamedFile::address_of(std::uint64_t offset) {
  if (!std::exchange(looked_, true))
    code_ = worker::Parser::of_this_thread()
                .ask<&read_code>({}, file_->descriptor())
                .value_or(std::vector<elf::Segment>());
  for (const elf::Segment& segment : code_)
    if (offset >= segment.offset && offset - segment.offset < segment.file_size)
      return offset - segment.offset + segment.address;
  return std::nullopt;
}

std::vector<elf::NamedFunction> NamedFile::functions(std::span<const Address> addresses,
                                                     const symbol::DebugPlaces& places) {
  std::set<Address> fresh;
  for (const Address address : addresses)
    if (!known_.contains(address)) fresh.insert(address);
  if (!fresh.empty()) {
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

void NamedFile::look_up(const std::vector<Address>& addresses, const symbol::DebugPlaces& places) {
  auto found = worker::Parser::of_this_thread().ask<&find_functions>(
      {addresses, places.search()}, file_->descriptor(), places.open());
  if (!found || found->size() != addresses.size())
    found = std::vector<elf::NamedFunction>(addresses.size());
  for (std::size_t i = 0; i < addresses.size(); ++i) known_[addresses[i]] = std::move((*found)[i]);
}

}  // namespace vitrine::observe
