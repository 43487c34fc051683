// KeptSets: the label sets that records have carried, to be had again by their ids.
#pragma once

#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "bpf/moment.hpp"

namespace vitrine::bpf {

class KeptSets {
 public:
  /// `most_bytes`: of one epoch. Two are kept: a record may have been begun in the one before.
  explicit KeptSets(std::size_t most_bytes) : most_bytes_(most_bytes) {}

  /// Keeps what the sets of a record bring, and gives the others what was kept under their ids.
  void complete(const vitrine_moment& moment, std::span<FireSet> sets);

  /// The epoch of the sets that are being kept. It goes up when there are too many: then the kernel
  /// is to be told to send all of them anew.
  [[nodiscard]] std::uint32_t epoch() const { return current_.epoch; }

 private:
  struct Epoch {
    std::uint32_t epoch = 1;
    std::size_t bytes = 0;
    std::unordered_map<std::uint64_t, std::vector<std::byte>> sets;
  };

  Epoch* of(std::uint32_t epoch);
  void keep(Epoch& epoch, const FireSet& set);

  std::size_t most_bytes_;
  Epoch current_;
  Epoch before_{0, 0, {}};
};

}  // namespace vitrine::bpf
