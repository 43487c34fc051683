// LackingKeys: processes of whose thread records some keys have no names yet.
#pragma once

#include <sys/types.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <vector>

namespace vitrine::observe {

/// A thread record names keys by number, and the process context may declare their names later. `Look`: what is known
/// of a process, with `std::uint64_t look_for_schema()`: a number for the names that are declared now.
template <class Look>
class LackingKeys {
 public:
  /// `max_processes`: at once. `max_looks`: of one call of take_named().
  explicit LackingKeys(std::size_t max_processes, std::size_t max_looks)
      : max_processes_(max_processes), max_looks_(max_looks) {}

  /// `version`: of the names that do not suffice. It takes the place of what was there of the process: that may have
  /// executed another program since.
  void add(pid_t pid, std::weak_ptr<Look> look, std::uint64_t version) {
    if (entries_.size() >= max_processes_ && !entries_.contains(pid)) return;
    entries_.insert_or_assign(pid, Entry{std::move(look), version});
  }

  /// Looks at some of them, in turn. Returns those that have declared others since, which are no longer here.
  std::vector<pid_t> take_named() {
    std::erase_if(entries_, [](const auto& entry) { return entry.second.look.expired(); });
    std::vector<pid_t> named;
    auto next = entries_.upper_bound(last_);
    for (std::size_t left = std::min(entries_.size(), max_looks_); left > 0; --left) {
      if (next == entries_.end()) next = entries_.begin();
      last_ = next->first;
      const bool is_named = next->second.look.lock()->look_for_schema() != next->second.version;
      if (is_named) named.push_back(last_);
      next = is_named ? entries_.erase(next) : std::next(next);
    }
    return named;
  }

  [[nodiscard]] bool empty() const { return entries_.empty(); }

 private:
  struct Entry {
    std::weak_ptr<Look> look;
    std::uint64_t version = 0;
  };

  std::size_t max_processes_, max_looks_;
  std::map<pid_t, Entry> entries_;
  pid_t last_ = 0;  ///< that was looked at
};

}  // namespace vitrine::observe
