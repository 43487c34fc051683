// What llvm-symbolizer says of addresses: the peer that ours is compared with.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "symbol/symboliser.hpp"

namespace vitrine::test {

/// One an address: names as the file spells them, in Frame::name.
std::vector<symbol::Frames> llvm_frames(const std::string& path,
                                        std::span<const Address> addresses);

/// Whether both mean the same: function, file and line of every frame. A name for the file where no
/// line is known does not count: llvm-symbolizer takes it from STT_FILE symbols.
bool same(const symbol::Frames& ours, const symbol::Frames& theirs);

/// Addresses drawn from the section .text, the same at every run.
std::vector<Address> drawn_addresses(const std::string& path, std::size_t count);

std::string described(const symbol::Frames& frames);

}  // namespace vitrine::test
