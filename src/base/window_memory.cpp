#include "base/window_memory.hpp"

namespace vitrine {
namespace {

constexpr std::size_t most_cached_request = 16 * WindowMemory::window_bytes;

}  // namespace

WindowMemory::Known WindowMemory::known(Address at) const {
  const auto next = inserted_.upper_bound(at);
  if (next != inserted_.begin()) {
    const auto& [start, bytes] = *std::prev(next);
    if (const std::uint64_t skip = at - start; skip < bytes.size())
      return {true, std::span(bytes).subspan(static_cast<std::size_t>(skip))};
  }
  const auto window = windows_.find(at / window_bytes);
  if (window == windows_.end()) return {};
  const std::size_t skip = at % window_bytes;
  const std::size_t got = window->second.got;
  std::size_t size = got > skip ? got - skip : 0;
  if (next != inserted_.end())
    size = static_cast<std::size_t>(std::min<std::uint64_t>(size, next->first - at));
  return {true, std::span(window->second.bytes).subspan(skip, size)};
}

void WindowMemory::want(AddressRange range, std::vector<std::uint64_t>& missing) const {
  const std::size_t length = before_end(range.address, std::min(range.length, most_cached_request));
  for (std::size_t done = 0; done < length;) {
    const Address at = range.address + done;
    const Known have = known(at);
    if (!have.fetched) missing.push_back(at / window_bytes);
    done += have.bytes.empty() ? window_bytes - at % window_bytes : have.bytes.size();
  }
}

void WindowMemory::fetch(std::vector<std::uint64_t>& missing) {
  std::sort(missing.begin(), missing.end());
  missing.erase(std::unique(missing.begin(), missing.end()), missing.end());
  if (windows_.size() + missing.size() > most_windows_) windows_.clear();
  if (missing.size() > most_windows_) missing.resize(most_windows_);

  std::vector<ReadRequest> requests;
  requests.reserve(missing.size());
  for (const std::uint64_t number : missing)
    requests.push_back({number * window_bytes, windows_[number].bytes, 0});
  source_.read(requests);
  for (std::size_t i = 0; i < missing.size(); ++i) windows_[missing[i]].got = requests[i].got;
}

void WindowMemory::serve(ReadRequest& request) {
  const std::size_t length = before_end(request.address, request.into.size());
  while (request.got < length) {
    const Address at = request.address + request.got;
    const auto bytes = known(at).bytes;
    if (bytes.empty()) break;
    const std::size_t n = std::min(bytes.size(), length - request.got);
    std::memcpy(request.into.data() + request.got, bytes.data(), n);
    request.got += n;
  }
  // A window is read from its start: where readable bytes begin inside one, ask for them alone.
  if (request.got < length)
    request.got += source_.read_some(request.address + request.got,
                                     request.into.subspan(request.got, length - request.got));
}

void WindowMemory::read(std::span<ReadRequest> requests) {
  std::vector<std::uint64_t> missing;
  for (const ReadRequest& request : requests)
    if (request.into.size() <= most_cached_request)
      want({request.address, request.into.size()}, missing);
  if (!missing.empty()) {
    ++misses_;
    fetch(missing);
  }
  for (ReadRequest& request : requests) {
    request.got = 0;
    serve(request);
  }
}

void WindowMemory::preload(std::span<const AddressRange> ranges) {
  std::vector<std::uint64_t> missing;
  for (const AddressRange& range : ranges) want(range, missing);
  if (!missing.empty()) fetch(missing);
}

void WindowMemory::insert(Address address, std::vector<std::byte> bytes) {
  inserted_[address] = std::move(bytes);
}

void WindowMemory::clear() {
  windows_.clear();
  inserted_.clear();
}

}  // namespace vitrine
