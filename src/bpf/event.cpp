#include "bpf/event.hpp"

#include <cstring>
#include <utility>

#include "base/limits.hpp"
#include "bpf/record_ring.hpp"

namespace vitrine::bpf {
namespace {

constexpr std::size_t entry_overhead = 128;  // of the map, the vector and the allocations

}  // namespace

KeptSets::Epoch* KeptSets::of(std::uint32_t epoch) {
  if (epoch == current_.epoch) return &current_;
  return epoch == before_.epoch ? &before_ : nullptr;
}

void KeptSets::keep(Epoch& epoch, const FireSet& set) {
  const auto [entry, is_new] = epoch.sets.try_emplace(set.head.id);
  if (!is_new) return;
  entry->second.assign(set.kept.begin(), set.kept.end());
  epoch.bytes += set.kept.size() + entry_overhead;
}

void KeptSets::complete(const vitrine_event_header& header, std::span<FireSet> sets) {
  Epoch* epoch = of(header.epoch);
  for (FireSet& set : sets) {
    if (set.head.id == 0) continue;
    if (!set.kept.empty()) {
      if (epoch != nullptr) keep(*epoch, set);
      continue;
    }
    const auto known =
        epoch == nullptr ? decltype(epoch->sets.find(0)){} : epoch->sets.find(set.head.id);
    set.forgotten = epoch == nullptr || known == epoch->sets.end();
    // What was parsed when it came parses again.
    if (!set.forgotten) (void)parse_fire_chunks(known->second, set.chunks);
  }
  if (current_.bytes <= max_bytes_) return;
  before_ = std::exchange(current_, Epoch{current_.epoch + 1, 0, {}});
}

std::string comm_of(const vitrine_event_header& header) {
  return {header.comm, ::strnlen(header.comm, sizeof header.comm)};
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

namespace {

Result<void> take_captures(RecordReader& reader, std::span<Captured> captures) {
  for (Captured& captured : captures)
    if (!reader.take(captured.head) || !reader.take_bytes(captured.head.bytes, captured.bytes))
      return RecordReader::ends_early();
  return {};
}

Result<void> take_start(RecordReader& reader, Fire& fire) {
  std::span<const std::byte> bytes;
  if (!reader.take(fire.start) || !reader.take_bytes(fire.start.bytes, bytes) ||
      fire.start.captures > VITRINE_CAPTURES)
    return RecordReader::ends_early();
  RecordReader captures(bytes);
  fire.start_captures.resize(fire.start.captures);
  return take_captures(captures, fire.start_captures);
}

}  // namespace

Result<void> parse_fire(std::span<const std::byte> record, Fire& fire) {
  RecordReader reader(record);
  if (!reader.take(fire.head)) return RecordReader::ends_early();
  if (fire.head.captures > VITRINE_CAPTURES || fire.head.event.sets > VITRINE_DEFINITIONS)
    return fail(ErrorCode::malformed,
                "a record of the trace has more entries than the limits allow");

  fire.captures.resize(fire.head.captures);
  TRY(take_captures(reader, fire.captures));
  fire.start_captures.clear();
  if (fire.head.event.kind == VITRINE_RECORD_PAIR) TRY(take_start(reader, fire));

  fire.sets.resize(fire.head.event.sets);
  TRY(reader.take_sets(fire.sets));
  if (!reader.take_words(fire.head.stack_bytes, fire.stack)) return RecordReader::ends_early();
  return {};
}

static_assert(VITRINE_STACK_COPY == limits::stack_copy);

namespace {

Result<void> take_sample(RecordReader& reader, StackSample& sample) {
  if (!reader.take(sample.head)) return RecordReader::ends_early();
  if (sample.head.event.sets > VITRINE_DEFINITIONS)
    return fail(ErrorCode::malformed, "a sample has more label sets than the limits allow");
  if (sample.head.unwound >= VITRINE_UNWOUNDS)
    return fail(ErrorCode::malformed, "a sample has an unknown way of unwinding");
  sample.sets.resize(sample.head.event.sets);
  TRY(reader.take_sets(sample.sets));
  if (!reader.take_words(sample.head.kernel_bytes, sample.kernel_stack) ||
      !reader.take_words(sample.head.register_bytes, sample.registers) ||
      !reader.take_words(sample.head.frame_bytes, sample.frames) ||
      !reader.take_bytes(sample.head.stack_bytes, sample.stack) ||
      !reader.take_bytes(sample.head.left_bytes, sample.left_stack))
    return RecordReader::ends_early();
  sample.stack_start = sample.head.stack_start;
  sample.left_start = sample.head.left_start;
  return {};
}

}  // namespace

static_assert(sizeof(vitrine_span_sample) < sizeof(vitrine_event_header) &&
              offsetof(vitrine_span_sample, kind) == offsetof(vitrine_event_header, kind));

std::optional<vitrine_span_sample> parse_span_sample(std::span<const std::byte> record) {
  vitrine_span_sample span{};
  if (record.size() != sizeof span) return std::nullopt;
  std::memcpy(&span, record.data(), sizeof span);
  if (span.kind != VITRINE_SAMPLE_SPAN || span.model == 0) return std::nullopt;
  return span;
}

Result<void> parse_stack_sample(std::span<const std::byte> record, StackSample& sample) {
  RecordReader reader(record);
  TRY(take_sample(reader, sample));
  sample.waker.reset();
  if (reader.empty()) return {};
  sample.waker = std::make_shared<StackSample>();
  TRY(take_sample(reader, *sample.waker));
  if (sample.waker->head.event.kind != VITRINE_SAMPLE_WAKER)
    return fail(ErrorCode::malformed, "behind a sample is another one, not what woke its thread");
  return {};
}

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
