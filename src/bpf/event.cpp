#include "bpf/event.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/limits.hpp"

namespace vitrine::bpf {
namespace {

constexpr std::size_t entry_overhead = 128;  // of the map, the vector and the allocations

/// Takes a record of a ring buffer apart from its front.
class RecordReader {
 public:
  explicit RecordReader(std::span<const std::byte> bytes) : bytes_(bytes) {}

  /// The error of a record that is too short for what it holds.
  static tl::unexpected<Error> ends_early() {
    return fail(ErrorCode::malformed, "a record from the kernel ends too early");
  }

  template <class T>
  bool take(T& value) {
    if (bytes_.size() < sizeof value) return false;
    std::memcpy(&value, bytes_.data(), sizeof value);
    bytes_ = bytes_.subspan(sizeof value);
    return true;
  }

  /// `length` bytes, and what pads them to a multiple of 8.
  bool take_bytes(std::size_t length, std::span<const std::byte>& taken) {
    if (length > bytes_.size()) return false;
    taken = bytes_.first(length);
    bytes_ = bytes_.subspan(std::min((length + 7) & ~std::size_t{7}, bytes_.size()));
    return true;
  }

  /// Numbers, `bytes` of them together.
  bool take_words(std::size_t bytes, std::vector<std::uint64_t>& words) {
    std::span<const std::byte> taken;
    if (!take_bytes(bytes, taken)) return false;
    words.resize(taken.size() / sizeof(std::uint64_t));
    if (!words.empty())
      std::memcpy(words.data(), taken.data(), words.size() * sizeof(std::uint64_t));
    return true;
  }

  /// As many label sets as `sets` has. Error: malformed.
  Result<void> take_sets(std::span<FireSet> sets);

  [[nodiscard]] bool empty() const { return bytes_.empty(); }

 private:
  std::span<const std::byte> bytes_;
};

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

std::string Sample::comm() const {
  return {head.comm, ::strnlen(head.comm, sizeof head.comm)};
}

Result<Sample> parse_sample(std::span<const std::byte> bytes) {
  RecordReader reader(bytes);
  Sample sample;
  if (!reader.take(sample.head)) return RecordReader::ends_early();
  for (std::uint32_t i = 0; i < sample.head.sets; ++i) {
    SampledSet set;
    if (!reader.take(set.head) || !reader.take_bytes(set.head.bytes, set.content))
      return RecordReader::ends_early();
    TRY(parse_fire_chunks(set.content, set.chunks));
    sample.sets.push_back(std::move(set));
  }
  return sample;
}

}  // namespace vitrine::bpf
