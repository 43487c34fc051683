#include "publish/handle/version.hpp"

#include <cstdlib>

namespace vitrine::publish {
namespace {

inline std::size_t room_of_value(const Version& version, std::size_t index) noexcept {
  const Label* labels = version.labels();
  const unsigned char* end =
      index + 1 < version.count
          ? labels[index + 1].key.buf
          : reinterpret_cast<const unsigned char*>(labels + version.count) + version.used;
  return static_cast<std::size_t>(end - labels[index].value.buf);
}

/// Too much of the room is not in use: copying it costs more than making it anew.
bool is_sparse(std::size_t used, std::size_t live, std::size_t labels) noexcept {
  return used > 2 * live + 32 * labels + 256;
}

/// `from` with a few labels more, and other values of some that fit where the old ones were. Null:
/// the change is another, or there is no memory for it.
Version* successor(const Work& work, const Version& from, Edit change) noexcept {
  constexpr std::size_t changes_max = 8;
  if (change.count > changes_max) return nullptr;
  std::size_t index[changes_max];
  std::size_t count = from.count, used = from.used, live = from.live;
  for (std::size_t i = 0; i < change.count; ++i) {
    const Label& label = change.labels[i];
    if (label.value.buf == removed) return nullptr;
    std::size_t at = find_index(from.labels(), from.count, label.key);
    live += room_for(label.value.len);
    if (at < from.count) {
      if (label.value.len > room_of_value(from, at)) return nullptr;
      live -= room_for(from.labels()[at].value.len);
    } else {
      at = count++;
      used += room_for(label.key.len) + room_for(label.value.len);
      live += room_for(label.key.len);
    }
    index[i] = at;
    for (std::size_t j = 0; j < i; ++j) {
      if (index[j] == at || (at >= from.count && same_key(change.labels[j].key, label.key)))
        return nullptr;
    }
  }
  const std::size_t total = version_bytes(count, used);
  if (count > labels::max_labels || total > large_block_max || is_sparse(used, live, count))
    return nullptr;
  auto* to = static_cast<Version*>(take(work, size_class_of(total)));
  if (to == nullptr) return nullptr;
  char* strings = strings_of(*to, count);
  copy_whole(from, *to, strings);
  char* end = strings + from.used;
  for (std::size_t i = 0; i < change.count; ++i) {
    const Label& label = change.labels[i];
    Label& changed = to->labels()[index[i]];
    char* value = writable(changed.value);
    if (index[i] >= from.count) {
      put_string(changed.key, end, label.key);
      value = end + room_for(label.key.len);
      end = value + room_for(label.value.len);
    }
    put_string(changed.value, value, label.value);
  }
  to->layout = count == from.count && from.owner == &work.cells() ? from.layout : new_layout(work);
  to->count = static_cast<std::uint16_t>(count);
  to->used = static_cast<std::uint32_t>(used);
  to->live = static_cast<std::uint32_t>(live);
  return to;
}

/// Calls `visit` for each label that `base` has after `change`.
template <class Visit>
void each_label(const Label* base, std::size_t count, Edit change, Visit&& visit) noexcept {
  for (std::size_t i = 0; i < count; ++i) {
    // Another writer's set may have null ones.
    if (base[i].key.buf != nullptr && base[i].value.buf != nullptr &&
        find_label(change.labels, change.count, base[i].key) == nullptr)
      visit(base[i]);
  }
  for (std::size_t i = 0; i < change.count; ++i) {
    const Label& label = change.labels[i];
    if (label.value.buf != removed &&
        find_label(change.labels + i + 1, change.count - i - 1, label.key) == nullptr)
      visit(label);
  }
}

}  // namespace

const unsigned char removed[1] = {0};

String copy_for_caller(String from) noexcept {
  auto* copy = static_cast<unsigned char*>(std::malloc(from.len + 1));
  if (copy == nullptr) return {0, nullptr};
  if (from.len != 0) std::memcpy(copy, from.buf, from.len);
  copy[from.len] = 0;
  return {from.len, copy};
}

/// `base` after `change`, with nothing between its strings.
Made make_version(const Work& work, const Label* base, std::size_t count, Edit change) noexcept {
  std::size_t labels = 0, used = 0;
  each_label(base, count, change, [&](const Label& label) {
    ++labels;
    used += room_for(label.key.len) + room_for(label.value.len);
  });
  const std::size_t total = version_bytes(labels, used);
  if (labels > labels::max_labels || total > large_block_max) return {EMSGSIZE, nullptr};
  auto* version = static_cast<Version*>(take(work, size_class_of(total)));
  if (version == nullptr) return {ENOMEM, nullptr};
  Label* to = version->labels();
  char* string = strings_of(*version, labels);
  each_label(base, count, change, [&](const Label& label) {
    put_string(to->key, string, label.key);
    string += room_for(label.key.len);
    put_string(to->value, string, label.value);
    string += room_for(label.value.len);
    ++to;
  });
  version->layout = new_layout(work);
  version->count = static_cast<std::uint16_t>(labels);
  version->used = version->live = static_cast<std::uint32_t>(used);
  return {0, version};
}

Made make_successor(const Work& work, const Version& from, Edit change) noexcept {
  if (Version* to = successor(work, from, change)) return {0, to};
  return make_version(work, from.labels(), from.count, change);
}

}  // namespace vitrine::publish
