#include "target/watched_memory.hpp"

#include <algorithm>

namespace vitrine::target {

void WatchedMemory::add(Address address, std::span<const std::byte> bytes) {
  places_.emplace_back(address, bytes.size());
  bytes_.insert(bytes_.end(), bytes.begin(), bytes.end());
}

void WatchedMemory::add_all(const WatchedMemory& other) {
  places_.insert(places_.end(), other.places_.begin(), other.places_.end());
  bytes_.insert(bytes_.end(), other.bytes_.begin(), other.bytes_.end());
}

bool WatchedMemory::changed(Memory& memory) const {
  std::vector<std::byte> now(bytes_.size());
  std::vector<ReadRequest> requests;
  requests.reserve(places_.size());
  std::span<std::byte> rest(now);
  for (const auto& [address, size] : places_) {
    requests.push_back({address, rest.first(size), 0});
    rest = rest.subspan(size);
  }
  memory.read(requests);
  return now != bytes_ || !std::all_of(requests.begin(), requests.end(),
                                       [](const ReadRequest& read) { return read.complete(); });
}

void WatchedMemory::clear() {
  places_.clear();
  bytes_.clear();
}

}  // namespace vitrine::target
