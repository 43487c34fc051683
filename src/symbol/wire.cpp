#include "symbol/wire.hpp"

#include <algorithm>
#include <array>
#include <string_view>

#include "base/interner.hpp"
#include "base/limits.hpp"

namespace vitrine::symbol {
namespace {

constexpr std::size_t problem_bytes = 64 * 1024;

/// A frame, its strings as positions: name, system name, file, line, start line, offset.
using FoldedFrame = std::array<std::uint32_t, 6>;

constexpr std::uint32_t no_offset = ~0U;

/// An answer in which each string is there once: names come again and again.
struct Folded {
  std::string problem;
  std::vector<std::string> strings;
  std::vector<std::vector<FoldedFrame>> frames;
};

template <pack::Of<Folded> T>
auto fields(T& folded) {
  auto& [problem, strings, frames] = folded;
  return std::tie(problem, strings, frames);
}

/// Texts, each once, and how many bytes they need.
class Strings {
 public:
  std::uint32_t position(const std::string& text) {
    const std::size_t before = all_.size();
    const std::uint32_t at = all_.add(text);
    if (all_.size() != before) bytes_ += text.size() + sizeof(std::uint32_t);
    return at;
  }
  [[nodiscard]] std::size_t bytes() const { return bytes_; }
  std::vector<std::string> take() { return all_.take(); }

 private:
  StringInterner all_;
  std::size_t bytes_ = 0;
};

}  // namespace

std::vector<std::byte> encode_answer(const Answer& answer) {
  Folded folded;
  folded.problem = answer.problem.substr(0, problem_bytes / 2);
  Strings strings;
  bool full = false;
  std::size_t unfolded = 0, frame_bytes = 0;
  for (const Frames& frames : answer.frames) {
    for (const Frame& frame : frames)
      unfolded += frame.name.size() + frame.system_name.size() + frame.file.size();
    frame_bytes += sizeof(std::uint32_t) + frames.size() * sizeof(FoldedFrame);
    full = full || unfolded > limits::symbol_unfolded ||
           strings.bytes() + frame_bytes > limits::symbol_answer / 2;
    auto& into = folded.frames.emplace_back();
    if (full) continue;
    for (const Frame& frame : frames)
      into.push_back({strings.position(frame.name), strings.position(frame.system_name),
                      strings.position(frame.file), frame.line, frame.start_line,
                      frame.offset.value_or(no_offset)});
  }
  folded.strings = strings.take();
  if (full && folded.problem.empty())
    folded.problem = "some names are omitted: they exceed the size limit";
  return pack::pack(folded);
}

Result<Answer> decode_answer(std::span<const std::byte> bytes, std::size_t addresses,
                             const Limits& limits) {
  const auto malformed = [] {
    return fail(ErrorCode::malformed, "the worker returned an invalid response");
  };
  auto folded = pack::unpack<Folded>(bytes);
  if (!folded || folded->frames.size() != addresses || folded->problem.size() > problem_bytes)
    return malformed();
  const auto& strings = folded->strings;
  for (const std::string& one : strings)
    if (one.size() > limits.name_bytes) return malformed();
  Answer answer;
  answer.problem = std::move(folded->problem);
  answer.frames.resize(addresses);
  // Short positions of long strings: what they unfold to is bounded as well.
  std::size_t unfolded = 0;
  for (std::size_t i = 0; i < addresses; ++i) {
    if (folded->frames[i].size() > limits.inline_depth) return malformed();
    for (const auto& [name, system_name, file, line, start_line, offset] : folded->frames[i]) {
      if (std::max({name, system_name, file}) >= strings.size()) return malformed();
      unfolded += strings[name].size() + strings[system_name].size() + strings[file].size();
      if (unfolded > limits::symbol_unfolded) return malformed();
      answer.frames[i].push_back({strings[name], strings[system_name], strings[file], line,
                                  start_line,
                                  offset == no_offset ? std::nullopt : std::optional(offset)});
    }
  }
  return answer;
}

}  // namespace vitrine::symbol
