// Records of the program that samples running threads for their labels. See fires.cpp.
#include "bpf/event.hpp"
#include "input.hpp"

using namespace vitrine;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto record = fuzz::bytes(data, size);
  const auto sample = bpf::parse_sample(record);
  if (!sample) return 0;
  fuzz::require(sample->sets.size() == sample->head.sets);
  fuzz::require(sample->comm().size() <= sizeof sample->head.comm);
  for (const bpf::SampledSet& set : sample->sets)
    for (const ChunkMemory::Chunk& chunk : set.chunks)
      fuzz::require(fuzz::within(record, chunk.bytes));
  return 0;
}
