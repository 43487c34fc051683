// A section of typed notes, and what they say of probes: {u8 class and byte order}{section}.
#include "base/limits.hpp"
#include "input.hpp"
#include "probe/typed_note.hpp"

using namespace vitrine;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const auto found = probe::decode_typed_notes(fuzz::bytes(data + 1, size - 1),
                                               {(*data & 1) != 0, (*data & 2) != 0});
  probe::TypedProbes probes;
  probes.add(found);
  probe::NoteProblems problems;
  for (const probe::TypedProbe& one : found.probes) {
    fuzz::require(one.arguments().size() == one.count);
    probe::StapsdtNote note;
    note.address = one.address;
    note.provider = one.provider;
    note.name = one.name;
    for (const std::size_t count : {std::size_t{one.count}, one.count + std::size_t{1}})
      for (const probe::ArgumentType& type : probes.of(note, count, problems))
        fuzz::require(type.argument < count &&
                      (!type.length_argument || *type.length_argument < count));
  }
  return 0;
}
