#include "publish/set_builder.hpp"

#include <algorithm>
#include <new>

#include "publish/bytes.hpp"
#include "publish/keys.hpp"

namespace vitrine::publish {
namespace {

namespace record_abi = abi::thread_context;

constexpr std::size_t attributes_max =
    record_abi::recommended_record_max - sizeof(record_abi::Record);

struct TraceText {
  char trace_id[32];
  char span_id[16];
  bool has_trace = false;
  bool has_span = false;

  explicit TraceText(const labels::Trace* trace) noexcept {
    if (trace == nullptr) return;
    const auto any = [](std::uint8_t seen, const auto& bytes) {
      for (const std::uint8_t byte : bytes) seen = static_cast<std::uint8_t>(seen | byte);
      return seen != 0;
    };
    has_trace = any(0, trace->trace_id.bytes);
    has_span = any(0, trace->span_id.bytes);
    to_hex(trace_id, trace->trace_id.bytes.data(), 16);
    to_hex(span_id, trace->span_id.bytes.data(), 8);
  }
};

/// Which labels the new set has, in order: those asked for, then those inherited. Both passes over
/// them (to size the block, to fill it) are this one.
class Walk {
 public:
  Walk(Words base, const Change& change, const TraceText& text) noexcept
      : base_(entries_of(base)), block_(block_of(base)), change_(change), text_(text) {}

  template <class Visit>
  void own(Visit&& visit) const noexcept {
    for (std::size_t i = 0; i < change_.count; ++i) {
      const labels::Label& label = change_.labels[i];
      const KeyData& key = *labels::Access::data(label.key);
      if (is_own(key.tag.id, i)) continue;  // the first of two with one key counts
      visit(key.name(), label.value, key.tag);
    }
    if (text_.has_trace) {
      visit(trace_id_key, std::string_view(text_.trace_id, sizeof text_.trace_id),
            Tag{trace_id_tag, -1});
    }
    if (text_.has_span) {
      visit(span_id_key, std::string_view(text_.span_id, sizeof text_.span_id),
            Tag{span_id_tag, -1});
    }
  }

  template <class Visit>
  void inherited(Visit&& visit) const noexcept {
    for (std::size_t i = 0; i < base_.size; ++i) {
      const Entry& entry = base_.data[i];
      if (entry.key.data == nullptr || entry.value.data == nullptr) continue;
      const std::string_view key(entry.key.data, entry.key.size);
      Tag tag = block_ != nullptr ? tags(*block_)[i] : Tag{0, -1};
      if (tag.id == 0) {
        if (const KeyData* known = find_key(key)) tag = known->tag;
      }
      if (is_own(tag.id, change_.count)) continue;
      visit(key, std::string_view(entry.value.data, entry.value.size), tag);
    }
  }

  const Block* block() const noexcept { return block_; }

 private:
  bool is_own(std::uint16_t id, std::size_t before) const noexcept {
    if (id == 0) return false;
    if (change_.trace != nullptr && (id == trace_id_tag || id == span_id_tag)) return true;
    for (std::size_t i = 0; i < before; ++i) {
      if (labels::Access::data(change_.labels[i].key)->tag.id == id) return true;
    }
    return false;
  }

  labels::detail::Entries base_;
  const Block* block_;
  const Change& change_;
  const TraceText& text_;
};

/// Where the bytes of each label go. A value is an attribute of the record, if its key is in the
/// key map and the record has room; it is also a string if the attribute had to cut it.
struct Sizes {
  std::size_t labels = 0;
  std::size_t attributes = 0;
  std::size_t strings = 0;

  struct Place {
    std::size_t attribute;  ///< bytes of the value in the record
    bool in_record;
    bool in_strings;
  };

  Place add(std::string_view key, std::string_view value, Tag tag) noexcept {
    Place place{0, false, true};
    if (tag.otel >= 0) {
      place.attribute = utf8_prefix(value, record_abi::attribute_value_max);
      place.in_record = attributes + 2 + place.attribute <= attributes_max;
      place.in_strings = !place.in_record || place.attribute != value.size();
    }
    ++labels;
    if (place.in_record) attributes += 2 + place.attribute;
    strings += key.size() + (place.in_strings ? value.size() : 0);
    return place;
  }

  [[nodiscard]] std::size_t record_at() const noexcept {
    return sizeof(Block) + labels * (sizeof(Entry) + sizeof(Tag));
  }
  [[nodiscard]] std::size_t strings_at() const noexcept {
    return record_at() + sizeof(record_abi::Record) + attributes;
  }
  [[nodiscard]] std::size_t total() const noexcept { return strings_at() + strings; }
};

class Filler {
 public:
  Filler(char* block, const Sizes& sizes) noexcept
      : entry_(reinterpret_cast<Entry*>(block + sizeof(Block))),
        tag_(reinterpret_cast<Tag*>(entry_ + sizes.labels)),
        attribute_(block + sizes.record_at() + sizeof(record_abi::Record)),
        string_(block + sizes.strings_at()) {}

  void add(std::string_view key, std::string_view value, Tag tag) noexcept {
    const Sizes::Place place = placed_.add(key, value, tag);
    const char* shown = nullptr;
    if (place.in_record) {
      attribute_[0] = static_cast<char>(tag.otel);
      attribute_[1] = static_cast<char>(place.attribute);
      copy_bytes(attribute_ + 2, value.data(), place.attribute);
      shown = attribute_ + 2;
      attribute_ += 2 + place.attribute;
    }
    const char* name = string_;
    copy_bytes(string_, key.data(), key.size());
    string_ += key.size();
    if (place.in_strings) {
      copy_bytes(string_, value.data(), value.size());
      shown = string_;
      string_ += value.size();
    }
    *entry_++ = {{key.size(), name}, {value.size(), shown}};
    *tag_++ = tag;
  }

 private:
  Sizes placed_;
  Entry* entry_;
  Tag* tag_;
  char* attribute_;
  char* string_;
};

labels::Status check(const Change& change) noexcept {
  if (change.count > labels::max_labels) return labels::Status::set_too_large;
  for (std::size_t i = 0; i < change.count; ++i) {
    if (!change.labels[i].key.ok()) return labels::Status::bad_key;
    if (change.labels[i].value.size() > labels::max_value_bytes)
      return labels::Status::value_too_large;
  }
  return labels::Status::ok;
}

void fill_record(char* at, const Change& change, const Block* base,
                 std::size_t attributes) noexcept {
  record_abi::Record record{};
  if (change.trace != nullptr) {
    std::memcpy(record.trace_id, change.trace->trace_id.bytes.data(), sizeof record.trace_id);
    std::memcpy(record.span_id, change.trace->span_id.bytes.data(), sizeof record.span_id);
    record.trace_flags = change.trace->flags;
  } else if (base != nullptr) {
    record = base->record();
  }
  record.valid = 1;
  record.attrs_size = static_cast<std::uint16_t>(attributes);
  std::memcpy(at, &record, sizeof record);
}

Words words_for(const char* block, const Sizes& sizes) noexcept {
  const auto address = reinterpret_cast<std::uint64_t>(block);
#if VITRINE_PUBLISH_ABI == 0
  return Words{address + sizeof(Block), sizes.labels};
#elif VITRINE_PUBLISH_OTEL
  return Words{address + sizes.record_at(), address};
#else
  (void)sizes;
  return Words{0, address};
#endif
}

}  // namespace

Built build(Arena& arena, Words base, const Change& change) noexcept {
  if (const labels::Status status = check(change); status != labels::Status::ok)
    return {nullptr, status};

  const TraceText text(change.trace);
  const Walk walk(base, change, text);
  Sizes sizes;
  const auto size = [&](std::string_view key, std::string_view value, Tag tag) {
    sizes.add(key, value, tag);
  };
  walk.own(size);
  const std::size_t own = sizes.labels;
  walk.inherited(size);
  if (sizes.labels > labels::max_labels || sizes.total() > large_block_max)
    return {nullptr, labels::Status::set_too_large};

  const Claim claimed = claim(arena, sizes.total());
  if (claimed.memory == nullptr) return {nullptr, labels::Status::out_of_memory};
  char* memory = static_cast<char*>(claimed.memory);
  const auto address = reinterpret_cast<std::uint64_t>(memory);

  auto* block = static_cast<Block*>(claimed.memory);
  __atomic_store_n(&block->head.trailer.serial, 0, __ATOMIC_RELAXED);
  labels::detail::store_fence();

  Filler filler(memory, sizes);
  const auto fill = [&](std::string_view key, std::string_view value, Tag tag) {
    filler.add(key, value, tag);
  };
  walk.own(fill);
  walk.inherited(fill);
  fill_record(memory + sizes.record_at(), change, walk.block(), sizes.attributes);

  block->head.set = {address + sizeof(Block), sizes.labels, sizes.labels};
  block->head.trailer.magic = abi::custom_labels::serial_magic;
  block->head.trailer.total_bytes = static_cast<std::uint32_t>(sizes.total());
  block->head.trailer.flags = 0;
  block->head.trailer.self = address;
  block->page = claimed.page;
  block->words = words_for(memory, sizes);
  block->parent = const_cast<Block*>(walk.block());
  block->parent_serial = walk.block() != nullptr ? walk.block()->head.trailer.serial : 0;
  block->own = static_cast<std::uint16_t>(own);
  block->spliced.store(false, std::memory_order_relaxed);
  block->record_at = static_cast<std::uint32_t>(sizes.record_at());
  __atomic_store_n(&block->head.trailer.serial, claimed.page->serial_of(memory), __ATOMIC_RELEASE);
  return {block, labels::Status::ok};
}

}  // namespace vitrine::publish
