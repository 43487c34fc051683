// What is said between us and a worker: a question is the addresses; an answer their frames. The
// worker may have been taken over by the file that it reads, so that answers are taken as hostile.
#pragma once

#include <span>
#include <vector>

#include "symbol/debug_places.hpp"
#include "symbol/symboliser.hpp"

namespace vitrine::symbol {

/// The first one to a worker comes with the file.
struct Question {
  std::vector<Address> addresses;
  DebugSearch debug;
  bool with_dwarf = true;  ///< false: symbol tables alone
  Place place = Place::address;
};

constexpr Place last(Place) {
  return Place::file_offset;
}

template <pack::Of<Question> T>
auto fields(T& question) {
  auto& [addresses, debug, with_dwarf, place] = question;
  return std::tie(addresses, debug, with_dwarf, place);
}

/// Frames beyond limits::symbol_answer bytes are left out, and the problem says so.
std::vector<std::byte> encode_answer(const Answer& answer);

/// `addresses`: how many were asked for. Errors: malformed.
Result<Answer> decode_answer(std::span<const std::byte> bytes, std::size_t addresses,
                             const Limits& limits);

}  // namespace vitrine::symbol
