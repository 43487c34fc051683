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
    const auto head = take<vitrine_chunk>(bytes);
    if (!head) return tl::unexpected(head.error());
    const auto content = take_bytes(bytes, head->got);
    if (!content) return tl::unexpected(content.error());
    bytes = bytes.subspan(std::min<std::size_t>(bytes.size(), (8 - head->got % 8) % 8));
    chunks.push_back({head->address, *content});
  }
  return chunks;
}

}  // namespace

std::string Sample::comm() const {
  return {head.comm, ::strnlen(head.comm, sizeof head.comm)};
}

Result<Sample> parse_sample(std::span<const std::byte> bytes) {
  const auto head = take<vitrine_sample>(bytes);
  if (!head) return tl::unexpected(head.error());
  Sample sample{*head, {}};
  for (std::uint32_t i = 0; i < head->sets; ++i) {
    const auto set = take<vitrine_set>(bytes);
    if (!set) return tl::unexpected(set.error());
    const auto content = take_bytes(bytes, set->bytes);
    if (!content) return tl::unexpected(content.error());
    auto chunks = parse_chunks(*content);
    if (!chunks) return tl::unexpected(chunks.error());
    sample.sets.push_back({*set, std::move(*chunks)});
  }
  return sample;
}

}  // namespace vitrine::bpf
