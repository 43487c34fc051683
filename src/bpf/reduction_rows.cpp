#include "bpf/reduction_rows.hpp"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <unordered_map>

#include "bpf/kernel_log.hpp"
#include "query/string_hash.hpp"

namespace vitrine::bpf {
namespace {

/// Calls `take(key, value bytes)` for each entry of a hash table, a thousand at a time.
template <class Key, class Take>
Result<void> for_each(int table, std::size_t value_bytes, Take take) {
  constexpr std::uint32_t at_once = 1024;
  std::vector<Key> keys(at_once);
  std::vector<std::byte> values(at_once * value_bytes);
  std::uint32_t in = 0, out = 0;
  bool first = true;
  for (;;) {
    auto count = static_cast<std::uint32_t>(keys.size());
    const int got = bpf_map_lookup_batch(table, first ? nullptr : &in, &out, keys.data(),
                                         values.data(), &count, nullptr);
    const int error = got == 0 ? 0 : errno;
    if (error == ENOSPC) {  // one chain of the table is longer than what was asked for
      keys.resize(keys.size() * 2);
      values.resize(keys.size() * value_bytes);
      continue;
    }
    if (error != 0 && error != ENOENT)
      return tl::unexpected(KernelLog().error("read the aggregated rows", error));
    for (std::size_t i = 0; i < count; ++i) take(keys[i], values.data() + i * value_bytes);
    if (error == ENOENT) return {};
    in = out;
    first = false;
  }
}

std::uint64_t hash_of(const vitrine_hash_key& key, const vitrine_group& group) {
  return query::keyed_hash(key, {reinterpret_cast<const char*>(&group), sizeof group});
}

/// What hashes stand for; each is asked for once.
class Names {
 public:
  explicit Names(int table) : table_(table) {}

  ReductionRow::Label of(std::uint64_t hash) {
    const auto [entry, is_new] = known_.try_emplace(hash);
    if (is_new) {
      vitrine_name name{};
      if (bpf_map_lookup_elem(table_, &hash, &name) == 0) {
        const auto length = std::min<std::size_t>(name.length, sizeof name.bytes);
        entry->second.text.emplace(reinterpret_cast<const char*>(name.bytes), length);
        entry->second.cut = name.whole > name.length;
      }
    }
    return entry->second;
  }

 private:
  int table_;
  std::unordered_map<std::uint64_t, ReductionRow::Label> known_;
};

constexpr std::uint64_t top_bit = 1ULL << 63;

void add(ReductionRow& row, const vitrine_aggregate& part, bool is_signed) {
  // Kept as the greatest of what grows with the value, and of what shrinks: zero is nothing yet.
  if (part.count == 0) return;
  const std::uint64_t sign = is_signed ? top_bit : 0;
  const auto ordered = [&](std::uint64_t value) { return value ^ sign; };
  const std::uint64_t least = ~part.least, most = part.most;
  if (row.count == 0 || least < ordered(row.least)) row.least = least ^ sign;
  if (row.count == 0 || most > ordered(row.most)) row.most = most ^ sign;
  row.count += part.count;
  row.sum += part.sum;
}

}  // namespace

Result<std::vector<ReductionRow>> read_reduction_rows(const ReductionTables& tables,
                                                      const vitrine_hash_key& key,
                                                      std::span<const ReductionShape> shapes,
                                                      std::size_t selected_labels) {
  const KernelLog log;
  const auto cpus = static_cast<std::size_t>(libbpf_num_possible_cpus());
  std::unordered_map<std::uint64_t, ReductionRow> rows;
  Names names(tables.names);
  std::map<std::uint32_t, const ReductionShape*> of_probe;
  for (const ReductionShape& shape : shapes) of_probe[shape.probe] = &shape;

  const auto row_of = [&](const vitrine_group& group) -> ReductionRow& {
    const auto [entry, is_new] = rows.try_emplace(hash_of(key, group));
    ReductionRow& row = entry->second;
    if (!is_new) return row;
    row.probe = group.probe;
    row.others = group.others != 0;
    for (std::size_t i = 0; i < selected_labels; ++i) {
      row.labels.emplace_back();
      if (group.label[i] != 0) row.labels.back() = names.of(group.label[i]);
    }
    const auto shape = of_probe.find(group.probe);
    if (shape == of_probe.end() || row.others) return row;
    const std::vector<bool>& is_text = shape->second->argument_is_text;
    for (std::size_t i = 0; i < is_text.size(); ++i) {
      row.arguments.push_back({group.argument[i], std::nullopt});
      if (is_text[i] && group.argument[i] != 0)
        row.arguments.back().text = names.of(group.argument[i]).text;
    }
    return row;
  };

  std::vector<vitrine_aggregate> of_cpus(cpus);
  for (const ReductionShape& shape : shapes) {
    if (bpf_map_lookup_elem(tables.ungrouped, &shape.program, of_cpus.data()) != 0) continue;
    vitrine_group group{};
    group.probe = shape.probe;
    for (const vitrine_aggregate& part : of_cpus)
      if (part.count != 0) add(row_of(group), part, shape.is_signed);
  }

  TRY(for_each<vitrine_group>(tables.groups, cpus * sizeof(vitrine_aggregate),
                              [&](const vitrine_group& group, const std::byte* parts) {
                                ReductionRow& row = row_of(group);
                                const auto shape = of_probe.find(group.probe);
                                const bool is_signed =
                                    shape != of_probe.end() && shape->second->is_signed;
                                for (std::size_t cpu = 0; cpu < cpus; ++cpu) {
                                  vitrine_aggregate part{};
                                  std::memcpy(&part, parts + cpu * sizeof part, sizeof part);
                                  add(row, part, is_signed);
                                }
                              }));

  TRY(for_each<vitrine_group_bucket>(
      tables.buckets, sizeof(std::uint64_t),
      [&](const vitrine_group_bucket& bucket, const std::byte* value) {
        const auto row = rows.find(bucket.group);
        std::uint64_t count = 0;
        std::memcpy(&count, value, sizeof count);
        if (row != rows.end() && count != 0) row->second.buckets[bucket.bucket] += count;
      }));

  std::vector<ReductionRow> out;
  out.reserve(rows.size());
  for (auto& [hash, row] : rows)
    if (row.count != 0 || !row.others) out.push_back(std::move(row));
  return out;
}

}  // namespace vitrine::bpf
