#include "bpf/moment.hpp"

#include "bpf/record_reader.hpp"

namespace vitrine::bpf {

std::string comm_of(const vitrine_moment& moment) {
  return {moment.comm, ::strnlen(moment.comm, sizeof moment.comm)};
}

Result<void> parse_fire_chunks(std::span<const std::byte> bytes,
                               std::vector<ChunkMemory::Chunk>& into) {
  RecordReader reader(bytes);
  while (!reader.empty()) {
    vitrine_chunk head{};
    std::span<const std::byte> content;
    if (!reader.take(head) || !reader.take_bytes(head.got, content))
      return RecordReader::ends_early();
    into.push_back({head.address, content});
  }
  return {};
}

Result<void> RecordReader::take_sets(std::span<FireSet> sets) {
  for (FireSet& set : sets) {
    set.chunks.clear();
    set.forgotten = false;
    std::span<const std::byte> fresh;
    if (!take(set.head) || !take_bytes(set.head.fresh_bytes, fresh) ||
        !take_bytes(set.head.kept_bytes, set.kept))
      return ends_early();
    TRY(parse_fire_chunks(fresh, set.chunks));
    TRY(parse_fire_chunks(set.kept, set.chunks));
  }
  return {};
}

}  // namespace vitrine::bpf
