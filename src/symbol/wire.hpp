// What is said between us and a worker: a question is the addresses; an answer their frames. The
// worker may have been taken over by the file that it reads, so that answers are taken as hostile.
#pragma once

#include <span>
#include <vector>

#include "symbol/symboliser.hpp"

namespace vitrine::symbol {

/// What a worker answers.
struct Reply {
  Answer answer;
  std::uint64_t memory = 0;  ///< bytes that the worker holds, as it says
};

std::vector<std::byte> encode_question(std::span<const Address> addresses);
Result<std::vector<Address>> decode_question(std::span<const std::byte> bytes);

/// Frames beyond limits::symbol_answer bytes are left out, and the problem says so.
std::vector<std::byte> encode_reply(const Reply& reply);

/// `addresses`: how many were asked for. Errors: malformed.
Result<Reply> decode_reply(std::span<const std::byte> bytes, std::size_t addresses,
                           const Limits& limits);

}  // namespace vitrine::symbol
