#include "bpf/sample.hpp"

namespace vitrine::bpf {
namespace {

/// Takes a T off the front of `bytes`.
template <class T>
Result<T> take(std::span<const std::byte>& bytes) {
  T value{};
  if (bytes.size() < sizeof value) return fail(ErrorCode::malformed, "a sample ends too early");
  std::memcpy(&value, bytes.data(), sizeof value);
  bytes = bytes.subspan(sizeof value);
  return value;
}

Result<std::span<const std::byte>> take_bytes(std::span<const std::byte>& bytes,
                                              std::size_t length) {
  if (length > bytes.size()) return fail(ErrorCode::malformed, "a sample ends too early");
  const auto taken = bytes.first(length);
  bytes = bytes.subspan(length);
  return taken;
}

Result<std::vector<ChunkMemory::Chunk>> parse_chunks(std::span<const std::byte> bytes) {
  std::vector<ChunkMemory::Chunk> chunks;
  while (!bytes.empty()) {
    const auto head = TRY(take<vitrine_chunk>(bytes));
    const auto content = TRY(take_bytes(bytes, head.got));
    bytes = bytes.subspan(std::min<std::size_t>(bytes.size(), (8 - head.got % 8) % 8));
    chunks.push_back({head.address, content});
  }
  return chunks;
}

}  // namespace

std::string Sample::comm() const {
  return {head.comm, ::strnlen(head.comm, sizeof head.comm)};
}

Result<Sample> parse_sample(std::span<const std::byte> bytes) {
  const auto head = TRY(take<vitrine_sample>(bytes));
  Sample sample{head, {}};
  for (std::uint32_t i = 0; i < head.sets; ++i) {
    const auto set = TRY(take<vitrine_set>(bytes));
    const auto content = TRY(take_bytes(bytes, set.bytes));
    auto chunks = TRY(parse_chunks(content));
    sample.sets.push_back({set, std::move(chunks)});
  }
  return sample;
}

}  // namespace vitrine::bpf
