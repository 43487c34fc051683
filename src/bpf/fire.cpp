#include "bpf/fire.hpp"

#include <cstring>

namespace vitrine::bpf {
namespace {

tl::unexpected<Error> ends_early() {
  return fail(ErrorCode::malformed, "a record of the trace ends too early");
}

constexpr std::size_t padded(std::size_t length) {
  return (length + 7) & ~std::size_t{7};
}

/// Takes a record apart from its front.
class Reader {
 public:
  explicit Reader(std::span<const std::byte> bytes) : bytes_(bytes) {}

  template <class T>
  bool take(T& value) {
    if (bytes_.size() < sizeof value) return false;
    std::memcpy(&value, bytes_.data(), sizeof value);
    bytes_ = bytes_.subspan(sizeof value);
    return true;
  }

  /// `length` bytes, and what pads them.
  bool take_bytes(std::size_t length, std::span<const std::byte>& taken) {
    if (length > bytes_.size()) return false;
    taken = bytes_.first(length);
    bytes_ = bytes_.subspan(std::min(padded(length), bytes_.size()));
    return true;
  }

  [[nodiscard]] bool empty() const { return bytes_.empty(); }

 private:
  std::span<const std::byte> bytes_;
};

}  // namespace

std::string Fire::comm() const {
  return {head.comm, ::strnlen(head.comm, sizeof head.comm)};
}

Result<void> parse_fire_chunks(std::span<const std::byte> bytes,
                               std::vector<ChunkMemory::Chunk>& into) {
  Reader reader(bytes);
  while (!reader.empty()) {
    vitrine_chunk head{};
    std::span<const std::byte> content;
    if (!reader.take(head) || !reader.take_bytes(head.got, content)) return ends_early();
    into.push_back({head.address, content});
  }
  return {};
}

Result<void> parse_fire(std::span<const std::byte> record, Fire& fire) {
  Reader reader(record);
  if (!reader.take(fire.head)) return ends_early();
  if (fire.head.captures > VITRINE_CAPTURES || fire.head.sets > VITRINE_DEFINITIONS)
    return fail(ErrorCode::malformed, "a record of the trace tells of more than there can be");

  fire.captures.resize(fire.head.captures);
  for (Captured& captured : fire.captures)
    if (!reader.take(captured.head) || !reader.take_bytes(captured.head.bytes, captured.bytes))
      return ends_early();

  fire.sets.resize(fire.head.sets);
  for (FireSet& set : fire.sets) {
    set.chunks.clear();
    set.forgotten = false;
    std::span<const std::byte> fresh;
    if (!reader.take(set.head) || !reader.take_bytes(set.head.fresh_bytes, fresh) ||
        !reader.take_bytes(set.head.kept_bytes, set.kept))
      return ends_early();
    if (auto parsed = parse_fire_chunks(fresh, set.chunks); !parsed) return parsed;
    if (auto parsed = parse_fire_chunks(set.kept, set.chunks); !parsed) return parsed;
  }

  std::span<const std::byte> stack;
  if (!reader.take_bytes(fire.head.stack_bytes, stack)) return ends_early();
  fire.stack.resize(stack.size() / sizeof(std::uint64_t));
  if (!fire.stack.empty())
    std::memcpy(fire.stack.data(), stack.data(), fire.stack.size() * sizeof(std::uint64_t));
  return {};
}

}  // namespace vitrine::bpf
