#include "symbol/wire.hpp"

#include <algorithm>
#include <array>
#include <string_view>
#include <unordered_map>

#include "base/limits.hpp"

namespace vitrine::symbol {
namespace {

constexpr std::size_t problem_bytes = 64 * 1024;

/// A frame, its strings as positions: name, system name, file, line, start line.
using FoldedFrame = std::array<std::uint32_t, 5>;

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

class Strings {
 public:
  explicit Strings(std::vector<std::string>& all) : all_(all) {}

  std::uint32_t position(const std::string& text) {
    const auto [at, fresh] = known_.emplace(text, static_cast<std::uint32_t>(all_.size()));
    if (fresh) {
      all_.push_back(text);
      bytes_ += text.size() + sizeof(std::uint32_t);
    }
    return at->second;
  }
  [[nodiscard]] std::size_t bytes() const { return bytes_; }

 private:
  std::vector<std::string>& all_;
  std::unordered_map<std::string_view, std::uint32_t> known_;  // views of what is asked for
  std::size_t bytes_ = 0;
};

}  // namespace

std::vector<std::byte> encode_answer(const Answer& answer) {
  Folded folded;
  folded.problem = answer.problem.substr(0, problem_bytes / 2);
  Strings strings(folded.strings);
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
                      strings.position(frame.file), frame.line, frame.start_line});
  }
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
    for (const auto& [name, system_name, file, line, start_line] : folded->frames[i]) {
      if (std::max({name, system_name, file}) >= strings.size()) return malformed();
      unfolded += strings[name].size() + strings[system_name].size() + strings[file].size();
      if (unfolded > limits::symbol_unfolded) return malformed();
      answer.frames[i].push_back(
          {strings[name], strings[system_name], strings[file], line, start_line});
    }
  }
  return answer;
}

}  // namespace vitrine::symbol
