#include "publish/set_builder.hpp"

#include "publish/base/bytes.hpp"
#include "publish/handle/pinned_entries.hpp"
#include "publish/set/block_layout.hpp"
#include "publish/set/kept.hpp"
#include "publish/set/keys.hpp"

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

/// The tag of a key of a set: what was not known when the set was made may be by now.
Tag now(std::string_view key, Tag tag) noexcept {
  if (tag.id == 0 || tag.otel == KeyData::later) {
    if (const KeyData* known = find_key(key)) return known->now();
  }
  return tag;
}

/// The labels of a set that are below a change: those that it does not hide.
class Below {
 public:
  explicit Below(Words base) noexcept
      : block_(block_of(base)), record_(record_of(base)), base_(base, block_) {}

  template <class Hidden, class Visit>
  void visit(Hidden&& is_hidden, Visit&& visit) const noexcept {
    for (std::size_t i = 0; i < base_.get().size; ++i) {
      const Entry& entry = base_.get().data[i];
      if (entry.key.data == nullptr || entry.value.data == nullptr) continue;
      const std::string_view key(entry.key.data, entry.key.size);
      const Tag tag = now(key, block_ != nullptr ? tags(*block_)[i] : Tag{0, -1});
      if (tag.id != 0 && is_hidden(tag.id)) continue;
      visit(key, std::string_view(entry.value.data, entry.value.size), tag);
    }
  }

  const Block* block() const noexcept { return block_; }
  const record_abi::Record* record() const noexcept { return record_; }

 private:
  const Block* block_;
  const record_abi::Record* record_;
  PinnedEntries base_;
};

bool is_trace(std::uint16_t id) noexcept {
  return id == trace_id_tag || id == span_id_tag;
}

/// Which labels the new set has, in order: those asked for, then those inherited. Both passes over
/// them (to size the block, to fill it) are this one.
class Walk {
 public:
  Walk(Words base, const Change& change, const TraceText& text) noexcept
      : below_(base), change_(change), text_(text) {}

  template <class Visit>
  void own(Visit&& visit) const noexcept {
    for (std::size_t i = 0; i < change_.count; ++i) {
      const labels::Label& label = change_.labels[i];
      const KeyData& key = *labels::Access::data(label.key);
      if (is_own(key.tag.id, i)) continue;  // the first of two with one key counts
      visit(key.name(), label.value, key.now());
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
    below_.visit([&](std::uint16_t id) { return is_own(id, change_.count); }, visit);
  }

  const labels::Trace* trace() const noexcept { return change_.trace; }
  const Block* block() const noexcept { return below_.block(); }
  const record_abi::Record* below_record() const noexcept { return below_.record(); }

 private:
  bool is_own(std::uint16_t id, std::size_t before) const noexcept {
    if (change_.trace != nullptr && is_trace(id)) return true;
    for (std::size_t i = 0; i < before; ++i) {
      if (labels::Access::data(change_.labels[i].key)->tag.id == id) return true;
    }
    return false;
  }

  Below below_;
  const Change& change_;
  const TraceText& text_;
};

labels::Trace trace_of(const Block& block) noexcept {
  const record_abi::Record& record = labels::detail::record(block);
  labels::Trace trace;
  std::memcpy(trace.trace_id.bytes.data(), record.trace_id, 16);
  std::memcpy(trace.span_id.bytes.data(), record.span_id, 8);
  trace.flags = record.trace_flags;
  return trace;
}

/// As Walk, of the labels that a block added to the set it was made from.
class Again {
 public:
  Again(Words base, const Block& like) noexcept
      : below_(base), like_(like), trace_(trace_of(like)), text_(&trace_) {
    // It had a trace of its own if one of its labels is of that, or if it hid the one below.
    for (std::size_t i = 0; i < like.own(); ++i) {
      const std::string_view value(like.entries()[i].value.data, like.entries()[i].value.size);
      if ((tag(i).id == trace_id_tag && value == std::string_view(text_.trace_id, 32)) ||
          (tag(i).id == span_id_tag && value == std::string_view(text_.span_id, 16)))
        has_trace_ = true;
    }
    const Block* parent = like.links.parent();
    if (parent != nullptr && parent->serial() == like.links.below_serial && !text_.has_trace &&
        !text_.has_span) {
      const labels::Trace under = trace_of(*parent);
      const TraceText hidden(&under);
      has_trace_ = has_trace_ || hidden.has_trace || hidden.has_span;
    }
  }

  template <class Visit>
  void own(Visit&& visit) const noexcept {
    for (std::size_t i = 0; i < like_.own(); ++i) {
      const Entry& entry = like_.entries()[i];
      const std::string_view key(entry.key.data, entry.key.size);
      visit(key, std::string_view(entry.value.data, entry.value.size), now(key, tag(i)));
    }
  }

  template <class Visit>
  void inherited(Visit&& visit) const noexcept {
    const auto is_own = [&](std::uint16_t id) {
      if (has_trace_ && is_trace(id)) return true;
      for (std::size_t i = 0; i < like_.own(); ++i) {
        if (tag(i).id == id) return true;
      }
      return false;
    };
    below_.visit(is_own, visit);
  }

  const labels::Trace* trace() const noexcept { return has_trace_ ? &trace_ : nullptr; }
  const Block* block() const noexcept { return below_.block(); }
  const record_abi::Record* below_record() const noexcept { return below_.record(); }

 private:
  const Tag& tag(std::size_t i) const noexcept { return labels::detail::tags(like_)[i]; }

  Below below_;
  const Block& like_;
  labels::Trace trace_;
  TraceText text_;
  bool has_trace_ = false;
};

/// Which labels are attributes of the record, in order: decided once, when the block is sized. When
/// it is filled, a key may have entered the key map, or a careless caller changed a value.
class InRecord {
 public:
  void add(bool in_record) noexcept {
    if (next_ % 64 == 0 && next_ < labels::max_labels) words_[next_ / 64] = 0;
    if (in_record && next_ < labels::max_labels)
      words_[next_ / 64] |= std::uint64_t{1} << (next_ % 64);
    ++next_;
  }
  void rewind() noexcept { next_ = 0; }
  bool take() noexcept {
    // NOLINTNEXTLINE(clang-analyzer-core.UndefinedBinaryOperatorResult): add() has written it
    const bool in_record = (words_[next_ / 64] >> (next_ % 64) & 1) != 0;
    ++next_;
    return in_record;
  }

 private:
  std::uint64_t words_[labels::max_labels / 64];
  std::size_t next_ = 0;
};

/// Where the bytes of each label go. A value is an attribute of the record, if its key is in the
/// key map, it is UTF-8 as attributes must be, and the record has room; it is also a string if the
/// attribute had to cut it. Others are strings alone: observers of label sets take any bytes.
struct Sizes : Layout {
  struct Place {
    std::size_t attribute;  ///< bytes of the value in the record
    bool in_record;
    bool in_strings;
  };

  bool takes(std::string_view value, Tag tag) const noexcept {
    return tag.otel >= 0 && fits_record(value, attributes, attributes_max);
  }

  Place add(std::string_view key, std::string_view value, bool in_record) noexcept {
    Place place{0, in_record, true};
    if (in_record) {
      place.attribute = attribute_size(value);
      place.in_strings = place.attribute != value.size();
      attributes += 2 + place.attribute;
    }
    ++labels;
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

  void add(std::string_view key, std::string_view value, Tag tag, bool in_record) noexcept {
    const Sizes::Place place = placed_.add(key, value, in_record);
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

labels::Errc check(const Change& change) noexcept {
  if (change.count > labels::max_labels) return labels::Errc::set_too_large;
  for (std::size_t i = 0; i < change.count; ++i) {
    if (!change.labels[i].key.ok()) return labels::Errc::bad_key;
    if (change.labels[i].value.size() > labels::max_value_bytes)
      return labels::Errc::value_too_large;
  }
  return labels::Errc::ok;
}

/// Makes the set that `walk` describes, with `behind` bytes for the library after it.
template <class Labels>
Built make(Arena& arena, const Labels& walk, Lives lives, std::size_t behind) noexcept {
  Sizes sizes;
  InRecord in_record;
  const auto size = [&](std::string_view key, std::string_view value, Tag tag) {
    const bool takes = sizes.takes(value, tag);
    in_record.add(takes);
    sizes.add(key, value, takes);
  };
  walk.own(size);
  const std::size_t own = sizes.labels;
  walk.inherited(size);
  if (sizes.labels > labels::max_labels || sizes.total() > large_block_max - sizeof(Replacement))
    return {nullptr, labels::Errc::set_too_large};

  const std::size_t bytes = behind == 0 ? sizes.total() : Replacement::at(sizes.total()) + behind;
  const Room room =
      lives == Lives::kept ? room_to_keep(arena, bytes) : room_of(claim(arena, bytes));
  if (room.memory == nullptr) return {nullptr, labels::Errc::out_of_memory};
  begin_block(room.memory);
  Filler filler(room.memory, sizes);
  in_record.rewind();
  const auto fill = [&](std::string_view key, std::string_view value, Tag tag) {
    filler.add(key, value, tag, in_record.take());
  };
  walk.own(fill);
  walk.inherited(fill);
  fill_record(room.memory, sizes, walk.trace(), walk.below_record());
  return {finish_block(room, sizes, own, walk.block()), labels::Errc::ok};
}

}  // namespace

Built build(Arena& arena, Words base, const Change& change, Lives lives) noexcept {
  if (const labels::Errc status = check(change); status != labels::Errc::ok)
    return {nullptr, status};
  const TraceText text(change.trace);
  return make(arena, Walk(base, change, text), lives, 0);
}

Built rebuild(Arena& arena, Words base, const Block& like, const Replacement& what) noexcept {
  const Built built = make(arena, Again(base, like), Lives::in_page, sizeof what);
  if (built.block == nullptr) return built;
  replacement(*built.block) = what;
  built.block->links.below |= labels::detail::Links::replacement;
  return built;
}

}  // namespace vitrine::publish
