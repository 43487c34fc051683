#include "base/window_memory.hpp"

namespace vitrine {
namespace {

constexpr std::size_t most_cached_request = 16 * WindowMemory::window_bytes;

}  // namespace

void WindowMemory::want(const ReadRequest& request, std::vector<std::uint64_t>& missing) const {
  const std::size_t length = before_end(request.address, request.into.size());
  if (length == 0 || length > most_cached_request) return;
  const std::uint64_t last = (request.address + length - 1) / window_bytes;
  for (std::uint64_t number = request.address / window_bytes; number <= last; ++number)
    if (windows_.count(number) == 0) missing.push_back(number);
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
  request.got = 0;
  while (request.got < length) {
    const Address at = request.address + request.got;
    const auto window = windows_.find(at / window_bytes);
    const std::size_t skip = at % window_bytes;
    if (window == windows_.end() || window->second.got <= skip) break;
    const std::size_t n = std::min(window->second.got - skip, length - request.got);
    std::memcpy(request.into.data() + request.got, window->second.bytes + skip, n);
    request.got += n;
  }
  // A window is read from its start: where readable bytes begin inside one, ask for them alone.
  if (request.got < length)
    request.got += source_.read_some(request.address + request.got,
                                     request.into.subspan(request.got, length - request.got));
}

void WindowMemory::read(std::span<ReadRequest> requests) {
  std::vector<std::uint64_t> missing;
  for (const ReadRequest& request : requests) want(request, missing);
  if (!missing.empty()) fetch(missing);
  for (ReadRequest& request : requests) serve(request);
}

}  // namespace vitrine
