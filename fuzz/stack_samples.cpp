// Records of the profiling program: {u8 in how many parts}{records}. See fires.cpp.
#include "bpf/event.hpp"
#include "input.hpp"

using namespace vitrine;

namespace {

void take(std::span<const std::byte> record, bpf::KeptSets& kept, bpf::StackSample& sample) {
  if (!bpf::parse_stack_sample(record, sample)) return;
  fuzz::require(sample.sets.size() == sample.head.event.sets);
  fuzz::require(fuzz::within(record, sample.stack));
  fuzz::require(fuzz::within(record, sample.left_stack));
  fuzz::require(sample.head.unwound < VITRINE_UNWOUNDS);
  fuzz::require((sample.kernel_stack.size() + sample.registers.size() + sample.frames.size()) * 8 <=
                record.size());
  for (const bpf::FireSet& set : sample.sets) {
    fuzz::require(fuzz::within(record, set.kept));
    for (const ChunkMemory::Chunk& chunk : set.chunks)
      fuzz::require(fuzz::within(record, chunk.bytes));
  }
  kept.complete(sample.head.event, sample.sets);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const auto all = fuzz::bytes(data + 1, size - 1);
  bpf::KeptSets kept(4096);
  bpf::StackSample sample;  // its vectors are used again, as in a profile
  const std::size_t parts = *data % 4 + 1;
  for (std::size_t i = 0; i < parts; ++i)
    take(all.subspan(all.size() / parts * i, all.size() / parts), kept, sample);
  return 0;
}
