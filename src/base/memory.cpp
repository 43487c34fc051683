#include "base/memory.hpp"

#include <fmt/format.h>

namespace vitrine {

Result<void> Memory::read_exact(Address address, std::span<std::byte> into, const char* what) {
  const std::size_t got = read_some(address, into);
  if (got == into.size()) return {};
  return fail(ErrorCode::malformed, fmt::format("{}: {} bytes at {:#x} are not readable ({} are)",
                                                what, into.size(), address, got));
}

std::string hex(std::uint64_t value) {
  return fmt::format("{:#x}", value);
}

namespace {

constexpr std::size_t max_cached_request = 16 * WindowMemory::window_bytes;

}  // namespace

void WindowMemory::want(const ReadRequest& request, std::vector<std::uint64_t>& missing) const {
  const std::size_t length = before_end(request.address, request.into.size());
  if (length == 0 || length > max_cached_request) return;
  const std::uint64_t last = (request.address + length - 1) / window_bytes;
  for (std::uint64_t number = request.address / window_bytes; number <= last; ++number)
    if (windows_.count(number) == 0) missing.push_back(number);
}

void WindowMemory::fetch(std::vector<std::uint64_t>& missing) {
  std::sort(missing.begin(), missing.end());
  missing.erase(std::unique(missing.begin(), missing.end()), missing.end());
  if (windows_.size() + missing.size() > max_windows_) windows_.clear();
  if (missing.size() > max_windows_) missing.resize(max_windows_);

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

void ChunkMemory::read(std::span<ReadRequest> requests) {
  for (ReadRequest& request : requests) {
    request.got = 0;
    // Chunks may continue one another, so the next may have what this one lacks.
    for (bool more = true; more && !request.complete();) {
      more = false;
      for (const Chunk& chunk : chunks_) {
        const std::uint64_t skip = request.address + request.got - chunk.address;
        if (skip >= chunk.bytes.size()) continue;
        const auto from = chunk.bytes.subspan(static_cast<std::size_t>(skip));
        const std::size_t n = std::min(from.size(), request.into.size() - request.got);
        std::memcpy(request.into.data() + request.got, from.data(), n);
        request.got += n;
        more = true;
        break;
      }
    }
    if (!request.complete()) missed_.push_back(request.address + request.got);
  }
}

}  // namespace vitrine
