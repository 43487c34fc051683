// Records of the tracing program: {u8 in how many parts}{records}. What the kernel's side writes is
// what we loaded; but the bytes in it are the target's, and a reader must not depend on the writer.
#include "bpf/event.hpp"
#include "input.hpp"

using namespace vitrine;

namespace {

void take(std::span<const std::byte> record, bpf::KeptSets& kept, bpf::Fire& fire) {
  if (!bpf::parse_fire(record, fire)) return;
  fuzz::require(fire.captures.size() == fire.head.captures);
  fuzz::require(fire.sets.size() == fire.head.event.sets);
  fuzz::require(fire.stack.size() * 8 <= record.size());
  fuzz::require(fire.comm().size() <= sizeof fire.head.event.comm);
  for (const bpf::Captured& captured : fire.captures)
    fuzz::require(fuzz::within(record, captured.bytes));
  std::size_t bytes = 0;
  for (const bpf::FireSet& set : fire.sets) {
    fuzz::require(fuzz::within(record, set.kept));
    for (const ChunkMemory::Chunk& chunk : set.chunks) {
      fuzz::require(fuzz::within(record, chunk.bytes));
      bytes += chunk.bytes.size();
    }
  }
  fuzz::require(bytes <= record.size());
  kept.complete(fire.head.event, fire.sets);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const auto all = fuzz::bytes(data + 1, size - 1);
  bpf::KeptSets kept(4096);
  bpf::Fire fire;  // its vectors are used again, as in a trace
  const std::size_t parts = *data % 4 + 1;
  for (std::size_t i = 0; i < parts; ++i)
    take(all.subspan(all.size() / parts * i, all.size() / parts), kept, fire);
  return 0;
}
