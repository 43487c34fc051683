// Labels that the test process itself displays, in a slot of each kind, and what a record says of
// them.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "abi/custom_labels.hpp"
#include "abi/thread_context.hpp"
#include "bpf/event.hpp"
#include "format/decode.hpp"

namespace vitrine::test {

namespace layout = abi::custom_labels;

using Labels = std::vector<std::pair<std::string, std::string>>;

/// What the thread displays: a slot of each kind.
struct Slots {
  std::uint64_t record = 0;  // before the other, as our own writer has the two
  std::uint64_t v1 = 0;
  layout::SetV0 v0{};
};
inline thread_local Slots slots;

enum Definitions { v1, v0, otel };

inline std::uint64_t address_of(const void* at) {
  return reinterpret_cast<std::uint64_t>(at);
}

inline vitrine_target own_target() {
  vitrine_target target{};
  target.address_mask = ~0ULL;
  const auto add = [&](vitrine_shape shape, const void* slot) {
    vitrine_definition& definition = target.definitions[target.definition_count++];
    definition.shape = shape;
    definition.number = target.definition_count - 1;
    definition.tls_kind = VITRINE_TLS_STATIC;
    definition.tls_offset =
        static_cast<std::int64_t>(address_of(slot) - address_of(__builtin_thread_pointer()));
  };
  add(VITRINE_LABEL_ARRAY, &slots.v1);
  add(VITRINE_LABEL_ARRAY_IN_SLOT, &slots.v0);
  add(VITRINE_SIZED_RECORD, &slots.record);
  return target;
}

inline layout::Label label(const std::string& key, const std::string& value) {
  return {{key.size(), address_of(key.data())}, {value.size(), address_of(value.data())}};
}

/// A set as a foreign writer has it: its parts anywhere.
struct ForeignSet {
  Labels text;
  std::vector<layout::Label> entries;
  layout::SetV1 set{};

  explicit ForeignSet(Labels labels) : text(std::move(labels)) {
    for (const auto& [key, value] : text) entries.push_back(label(key, value));
    set = {address_of(entries.data()), entries.size(), entries.size()};
  }
  ForeignSet(const ForeignSet&) = delete;
};

/// A set as our own writer has it: one block, with a serial number.
struct OwnSet {
  alignas(8) std::byte block[4096]{};

  void put(const Labels& labels, std::uint64_t serial) {
    std::size_t at = sizeof(layout::SerialSet) + labels.size() * sizeof(layout::Label);
    std::vector<layout::Label> entries;
    const auto store = [&](const std::string& text) {
      std::memcpy(block + at, text.data(), text.size());
      const layout::String out{text.size(), address_of(block + at)};
      at += text.size();
      return out;
    };
    for (const auto& [key, value] : labels) entries.push_back({store(key), store(value)});
    std::memcpy(block + sizeof(layout::SerialSet), entries.data(),
                entries.size() * sizeof(layout::Label));
    const layout::SerialSet head{
        {address_of(block + sizeof(layout::SerialSet)), labels.size(), labels.size()},
        {layout::serial_magic, serial, static_cast<std::uint32_t>(at), 0, address_of(block)}};
    std::memcpy(block, &head, sizeof head);
  }
};

struct Record {
  alignas(8) std::byte bytes[1024]{};

  void put(std::uint8_t trace, std::uint8_t span, const std::vector<std::string>& values) {
    abi::thread_context::Record head{};
    std::memset(head.trace_id, trace, sizeof head.trace_id);
    std::memset(head.span_id, span, sizeof head.span_id);
    head.valid = 1;
    std::size_t at = sizeof head;
    for (std::size_t i = 0; i < values.size(); ++i) {
      bytes[at++] = static_cast<std::byte>(i);
      bytes[at++] = static_cast<std::byte>(values[i].size());
      std::memcpy(bytes + at, values[i].data(), values[i].size());
      at += values[i].size();
    }
    head.attrs_size = static_cast<std::uint16_t>(at - sizeof head);
    std::memcpy(bytes, &head, sizeof head);
  }
};

inline const format::KeyMap key_map{{{"http.route"}, {"tenant"}}};

inline format::LabelSet decoded(const bpf::FireSet& set, Definitions definition) {
  constexpr format::Format formats[] = {format::Format::custom_labels_v1,
                                        format::Format::custom_labels_v0,
                                        format::Format::otel_thread_ctx_v1};
  EXPECT_EQ(set.head.definition, definition);
  EXPECT_EQ(set.head.state, VITRINE_SLOT_READ);
  EXPECT_FALSE(set.forgotten);
  ChunkMemory memory(set.chunks);
  format::DecodeContext context;
  context.keys = &key_map;
  const std::uint64_t record = definition == v0 ? set.head.slot_address : set.head.slot;
  if (record == 0) return {};
  auto done = format::decode_record(formats[definition], memory, record, context);
  EXPECT_TRUE(done) << done.error().message;
  EXPECT_THAT(memory.missed(), testing::IsEmpty());
  return done ? done->set : format::LabelSet{};
}

inline Labels labels_of(std::span<const bpf::FireSet> sets, Definitions definition) {
  for (const bpf::FireSet& set : sets) {
    if (set.head.definition != definition) continue;
    Labels out;
    for (const auto& got : decoded(set, definition).labels) out.emplace_back(got.key, got.value);
    return out;
  }
  ADD_FAILURE() << "no set " << definition;
  return {};
}

}  // namespace vitrine::test
