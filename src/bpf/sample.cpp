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

Result<std::vector<SampleMemory::Chunk>> parse_chunks(std::span<const std::byte> bytes) {
  std::vector<SampleMemory::Chunk> chunks;
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

void SampleMemory::read(std::span<ReadRequest> requests) {
  for (ReadRequest& request : requests) {
    request.got = 0;
    // Chunks may continue one another, so the next may have what this one lacks.
    for (bool more = true; more && !request.complete();) {
      more = false;
      for (const Chunk& chunk : chunks_) {
        const std::uint64_t skip = request.address + request.got - chunk.address;
        if (skip >= chunk.bytes.size()) continue;
        const auto from = chunk.bytes.subspan(static_cast<std::size_t>(skip));
        const std::size_t n = std::min(from.size(), request.into.size() - request.got);
        std::memcpy(request.into.data() + request.got, from.data(), n);
        request.got += n;
        more = true;
        break;
      }
    }
    if (!request.complete()) missed_.push_back(request.address + request.got);
  }
}

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
