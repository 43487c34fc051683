#include "bpf/unwind_tables.hpp"

#include <bpf/bpf.h>
#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <memory>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "bpf/mapped_parts.hpp"
#include "bpf/target_maps.hpp"
#include "bpf/unwind_log.hpp"

namespace vitrine::bpf {
namespace {

constexpr std::size_t page_size = 4096;
constexpr std::size_t mapped_bytes = align_up(sizeof(vitrine_unwind_tables), page_size);
// Before Linux 6.2 no value of an array is larger.
static_assert(mapped_bytes <= 4U << 20);

constexpr std::uint64_t page_id(std::uint32_t file, std::uint32_t page) {
  return std::uint64_t{file} << 32 | page;
}

class MappedTables final : public UnwindTables {
 public:
  MappedTables(std::unique_ptr<MappedParts> mapped, int pages, int spaces, Places& places)
      : mapped_(std::move(mapped)),
        log_(*reinterpret_cast<vitrine_unwind_tables*>(mapped_->begin()),
             [this](const void* from, std::size_t bytes) { return mapped_->reach(from, bytes); }),
        pages_(pages),
        spaces_(spaces),
        places_(places) {}

  [[nodiscard]] bool has_page(std::uint32_t file, std::uint32_t page) const override {
    return known_pages_.contains(page_id(file, page));
  }
  void add_page(std::uint32_t file, std::uint32_t page, const unwind::RulePage& rules,
                Machine machine) override;
  std::uint32_t set_space(pid_t kernel_tgid, std::uint64_t execution,
                          std::span<const vitrine_unwind_region> regions,
                          std::uint64_t known_ns) override;
  void confirm_space(pid_t kernel_tgid, std::uint64_t known_ns) override {
    const auto known = known_spaces_.find(kernel_tgid);
    if (known != known_spaces_.end()) log_.confirm_space(known->second, known_ns);
  }
  void forget(pid_t kernel_tgid) override {
    if (known_spaces_.erase(kernel_tgid) == 0) return;
    if (place_of(kernel_tgid) >> 32 == static_cast<__u32>(kernel_tgid)) place(kernel_tgid, 0);
    bpf_map_delete_elem(spaces_, &kernel_tgid);
  }
  [[nodiscard]] std::uint32_t epoch() const override { return epoch_; }

 private:
  void begin_anew();

  __u64& place_of(pid_t kernel_tgid) {
    return places_[static_cast<__u32>(kernel_tgid) % VITRINE_PLACES];
  }
  void place(pid_t kernel_tgid, __u64 word) {
    std::atomic_ref(place_of(kernel_tgid)).store(word, std::memory_order_release);
  }

  std::unique_ptr<MappedParts> mapped_;
  UnwindLog log_;
  int pages_, spaces_;
  Places& places_;  ///< in one word each: programs read them
  std::uint32_t epoch_ = 0;
  std::unordered_set<std::uint64_t> known_pages_;
  std::unordered_map<pid_t, std::uint32_t> known_spaces_;  // their ids
};

void MappedTables::add_page(std::uint32_t file, std::uint32_t page, const unwind::RulePage& rules,
                            Machine machine) {
  const vitrine_unwind_page_key key{file, page};
  auto at = log_.add_page(key, rules, machine);
  if (!at) {
    begin_anew();
    at = log_.add_page(key, rules, machine);
  }
  if (!at) return;
  if (bpf_map_update_elem(pages_, &key, &*at, BPF_ANY) == 0)
    known_pages_.insert(page_id(file, page));
}

std::uint32_t MappedTables::set_space(pid_t kernel_tgid, std::uint64_t execution,
                                      std::span<const vitrine_unwind_region> regions,
                                      std::uint64_t known_ns) {
  if (regions.size() > VITRINE_UNWIND_REGIONS) {
    forget(kernel_tgid);
    return 0;
  }
  auto id = log_.add_space(kernel_tgid, execution, regions, known_ns);
  if (!id) {
    begin_anew();
    id = log_.add_space(kernel_tgid, execution, regions, known_ns);
  }
  if (!id) return 0;
  if (bpf_map_update_elem(spaces_, &kernel_tgid, &*id, BPF_ANY) != 0) return 0;
  known_spaces_[kernel_tgid] = *id;
  place(kernel_tgid, static_cast<__u64>(kernel_tgid) << 32 | *id);
  return *id;
}

void MappedTables::begin_anew() {
  for (const std::uint64_t id : known_pages_) {
    const vitrine_unwind_page_key key{static_cast<__u32>(id >> 32), static_cast<__u32>(id)};
    bpf_map_delete_elem(pages_, &key);
  }
  for (const auto& [tgid, id] : known_spaces_) {
    place(tgid, 0);
    bpf_map_delete_elem(spaces_, &tgid);
  }
  known_pages_.clear();
  known_spaces_.clear();
  let_programs_end();
  log_.clear();
  ++epoch_;
}

}  // namespace

Result<std::unique_ptr<UnwindTables>> UnwindTables::open(int tables, int pages, int spaces,
                                                         Places& places) {
  auto mapped = std::make_unique<MappedParts>(tables, 0, mapped_bytes, PROT_READ | PROT_WRITE);
  // What the first process needs.
  constexpr std::size_t first = offsetof(vitrine_unwind_tables, spaces);
  if (mapped->begin() == nullptr || !mapped->reach(mapped->begin() + first, 1))
    return fail(ErrorCode::failed,
                std::string("cannot map the tables of unwinding: ") + std::strerror(errno));
  return std::make_unique<MappedTables>(std::move(mapped), pages, spaces, places);
}

}  // namespace vitrine::bpf
