#include "publish/set_builder.hpp"

#include "publish/block_layout.hpp"
#include "publish/bytes.hpp"
#include "publish/keys.hpp"
#include "publish/pinned_entries.hpp"

namespace vitrine::publish {
namespace {

namespace record_abi = abi::thread_context;

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
      : block_(block_of(base)), base_(base, block_), change_(change), text_(text) {}

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
    for (std::size_t i = 0; i < base_.get().size; ++i) {
      const Entry& entry = base_.get().data[i];
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

  const Block* block_;
  PinnedEntries base_;
  const Change& change_;
  const TraceText& text_;
};

/// Where the bytes of each label go. A value is an attribute of the record, if its key is in the
/// key map and the record has room; it is also a string if the attribute had to cut it.
struct Sizes : Layout {
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
};

class Filler {
 public:
  Filler(char* block, const Sizes& sizes) noexcept
      : entry_(reinterpret_cast<Entry*>(block + sizeof(Block))),
        tag_(reinterpret_cast<Tag*>(entry_ + sizes.labels)),
        attribute_(block + sizes.attributes_at()),
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
  begin_block(memory);
  Filler filler(memory, sizes);
  const auto fill = [&](std::string_view key, std::string_view value, Tag tag) {
    filler.add(key, value, tag);
  };
  walk.own(fill);
  walk.inherited(fill);
  fill_record(memory, sizes, change.trace, walk.block());
  return {finish_block(memory, *claimed.page, claimed.page->unit_shift, sizes, own, walk.block()),
          labels::Status::ok};
}

}  // namespace vitrine::publish
