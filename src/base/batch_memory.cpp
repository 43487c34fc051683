#include "base/batch_memory.hpp"

namespace vitrine {
namespace {

constexpr std::size_t windows_per_page = 4096 / BatchMemory::window_bytes;

}  // namespace

void BatchMemory::want(Address address, std::size_t length) {
  if (length == 0) return;
  const Address last = address + length - 1;
  if (last < address) return;
  for (std::uint64_t number = address / window_bytes; number <= last / window_bytes; ++number) {
    const auto next = static_cast<std::uint32_t>(windows_.size());
    if (numbers_.insert(number, next) != next) continue;
    windows_.emplace_back();
    wanted_.push_back({number, next});
  }
}

std::size_t BatchMemory::serve(Address address, std::span<std::byte> into) {
  std::size_t done = 0;
  while (done < into.size()) {
    const Address at = address + done;
    const std::uint32_t position = numbers_.find(at / window_bytes);
    if (position == FlatIndex::none || windows_[position].bytes == nullptr) {
      want(at, into.size() - done);
      ++misses_;
      break;
    }
    const Window& window = windows_[position];
    const std::size_t skip = at % window_bytes;
    if (skip >= window.got) break;
    const std::size_t n = std::min(window.got - skip, into.size() - done);
    std::memcpy(into.data() + done, window.bytes + skip, n);
    done += n;
    if (skip + n < window_bytes && done < into.size()) break;  // the readable part ends here
  }
  return done;
}

void BatchMemory::read(std::span<ReadRequest> requests) {
  for (ReadRequest& request : requests) request.got = serve(request.address, request.into);
}

std::byte* BatchMemory::room(std::size_t size) {
  if (blocks_used_ == blocks_.size()) blocks_.emplace_back();
  Block& block = blocks_[blocks_used_++];
  if (block.size < size) block = {std::unique_ptr<std::byte[]>(new std::byte[size]), size};
  return block.bytes.get();
}

bool BatchMemory::fetch() {
  if (wanted_.empty()) return true;
  const bool all = windows_.size() <= max_windows_;
  const std::size_t fetched = windows_.size() - wanted_.size();
  if (!all) wanted_.resize(max_windows_ - std::min(max_windows_, fetched));
  std::sort(wanted_.begin(), wanted_.end(),
            [](const Wanted& left, const Wanted& right) { return left.number < right.number; });

  // Neighbours in a page come in one request: they lie next to each other here too.
  std::byte* const begin = room(wanted_.size() * window_bytes);
  std::vector<ReadRequest> requests;
  requests.reserve(wanted_.size());
  for (std::size_t i = 0; i < wanted_.size(); ++i) {
    const std::uint64_t number = wanted_[i].number;
    const std::span<std::byte> into(begin + i * window_bytes, window_bytes);
    if (i > 0 && number == wanted_[i - 1].number + 1 && number % windows_per_page != 0) {
      ReadRequest& run = requests.back();
      run.into = {run.into.data(), run.into.size() + window_bytes};
    } else {
      requests.push_back({number * window_bytes, into, 0});
    }
  }
  source_.read(requests);

  std::size_t at = 0;
  for (const ReadRequest& request : requests)
    for (std::size_t skip = 0; skip < request.into.size(); skip += window_bytes, ++at)
      windows_[wanted_[at].position] = {
          begin + at * window_bytes,
          std::min(window_bytes, request.got > skip ? request.got - skip : 0)};
  wanted_.clear();
  return all;
}

void BatchMemory::clear() {
  numbers_.clear();
  windows_.clear();
  blocks_used_ = 0;
  wanted_.clear();
}

}  // namespace vitrine
