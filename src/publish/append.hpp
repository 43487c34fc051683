// The common case of making a set, made fast: a few short labels on top of one of our sets, none of
// which hides another.
#pragma once

#include "publish/block_layout.hpp"
#include "publish/keys.hpp"

namespace vitrine::publish {

/// What `build` would make, or null: this is not the common case, or there is no memory.
__attribute__((always_inline)) inline Block* append(Arena& arena, const Block* base,
                                                    const labels::Label* own,
                                                    std::size_t count) noexcept {
  constexpr bool in_record = VITRINE_PUBLISH_OTEL != 0;
  const std::size_t inherited = base != nullptr ? base->count() : 0;
  const Tag* base_tags = base != nullptr ? tags(*base) : nullptr;
  Layout base_layout{inherited, 0, 0};
  if (base != nullptr) {
    base_layout.attributes = record(*base).attrs_size;
    base_layout.strings = base->head.trailer.total_bytes - base_layout.strings_at();
  }
  Layout layout{inherited + count, base_layout.attributes, base_layout.strings};

  for (std::size_t i = 0; i < count; ++i) {
    const KeyData& key = *labels::Access::data(own[i].key);
    const std::size_t size = own[i].value.size();
    if (size > abi::thread_context::attribute_value_max) return nullptr;
    if (in_record && (key.otel() < 0 || !is_ascii_or_utf8(own[i].value))) return nullptr;
    (in_record ? layout.attributes : layout.strings) += size + (in_record ? 2 : 0);
    layout.strings += key.size;
    for (std::size_t j = 0; j < i; ++j) {
      if (own[j].key == own[i].key) return nullptr;
    }
    for (std::size_t j = 0; j < inherited; ++j) {
      if (base_tags[j].id == key.tag.id || base_tags[j].id == 0) return nullptr;
    }
  }
  if (layout.attributes > attributes_max || layout.total() > small_block_max) return nullptr;

  char* block = claim_small(arena, layout.total());
  if (block == nullptr) return nullptr;
  begin_block(block);
  auto* entry = reinterpret_cast<Entry*>(block + sizeof(Block));
  auto* tag = reinterpret_cast<Tag*>(entry + layout.labels);
  char* attribute = block + layout.attributes_at();
  char* string = block + layout.strings_at();
  for (std::size_t i = 0; i < count; ++i) {
    const KeyData& key = *labels::Access::data(own[i].key);
    const std::string_view value = own[i].value;
    char*& to = in_record ? attribute : string;
    if (in_record) {
      to[0] = static_cast<char>(key.otel());  // not below 0 any more
      to[1] = static_cast<char>(value.size());
      to += 2;
    }
    copy_bytes(to, value.data(), value.size());
    entry->value = {value.size(), to};
    to += value.size();
    copy_bytes(string, key.bytes, key.size);
    entry->key = {key.size, string};
    string += key.size;
    ++entry;
    *tag++ = key.now();
  }
  if (base != nullptr) {
    // Attributes and strings as they are, and the labels moved along with them.
    const char* from = reinterpret_cast<const char*>(base);
    const char* from_attributes = from + base_layout.attributes_at();
    const char* from_strings = from + base_layout.strings_at();
    copy_bytes(attribute, from_attributes, base_layout.attributes);
    copy_bytes(string, from_strings, base_layout.strings);
    const auto moved = [&](const char* at) {
      return at < from_strings ? attribute + (at - from_attributes) : string + (at - from_strings);
    };
    for (std::size_t i = 0; i < inherited; ++i) {
      const Entry& old = base->entries()[i];
      *entry++ = {{old.key.size, moved(old.key.data)}, {old.value.size, moved(old.value.data)}};
      *tag++ = base_tags[i];
    }
  }
  fill_record(block, layout, nullptr, base != nullptr ? &labels::detail::record(*base) : nullptr);
  Page& page = small_page_of(block);
  const auto unit =
      static_cast<std::uint64_t>(block - reinterpret_cast<char*>(&page)) >> small_unit_shift;
  return finish_block({block, &page, page.first_serial + unit}, layout, count, base);
}

}  // namespace vitrine::publish
