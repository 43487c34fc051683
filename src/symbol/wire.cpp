#include "symbol/wire.hpp"

#include <cstring>
#include <string_view>
#include <unordered_map>

#include "base/limits.hpp"

namespace vitrine::symbol {
namespace {

constexpr std::size_t problem_bytes = 64 * 1024;

// A reply: memory (8 bytes), problem (string), number of strings (4) and the strings, and for each
// address the number of its frames (4) and for each of those five numbers (4): name, system name and
// file as indexes of the strings, line, start line. A string: length (4), bytes. All in the byte
// order of the machine: both sides are one program.

class Writer {
 public:
  void number(std::uint32_t value) { append(&value, sizeof value); }
  void wide(std::uint64_t value) { append(&value, sizeof value); }
  void text(std::string_view value) {
    number(static_cast<std::uint32_t>(value.size()));
    append(value.data(), value.size());
  }
  void append(const void* data, std::size_t size) {
    const auto* from = static_cast<const std::byte*>(data);
    bytes.insert(bytes.end(), from, from + size);
  }
  std::vector<std::byte> bytes;
};

class Reader {
 public:
  explicit Reader(std::span<const std::byte> bytes) : rest_(bytes) {}

  template <class T>
  T take() {
    T value{};
    const auto from = run(sizeof value);
    if (!from.empty()) std::memcpy(&value, from.data(), sizeof value);
    return value;
  }
  std::string_view text(std::size_t most) {
    const auto size = take<std::uint32_t>();
    if (size > most) broken_ = true;
    const auto from = run(broken_ ? 0 : size);
    return {reinterpret_cast<const char*>(from.data()), from.size()};
  }
  [[nodiscard]] std::size_t left() const { return rest_.size(); }
  [[nodiscard]] bool broken() const { return broken_; }

 private:
  std::span<const std::byte> run(std::size_t size) {
    if (size > rest_.size()) broken_ = true;
    if (broken_) return {};
    const auto taken = rest_.first(size);
    rest_ = rest_.subspan(size);
    return taken;
  }
  std::span<const std::byte> rest_;
  bool broken_ = false;
};

class Strings {
 public:
  std::uint32_t index(std::string_view text) {
    const auto [at, fresh] = indexes_.emplace(text, static_cast<std::uint32_t>(indexes_.size()));
    if (fresh) written.text(text);
    return at->second;
  }
  [[nodiscard]] std::uint32_t size() const { return static_cast<std::uint32_t>(indexes_.size()); }
  Writer written;

 private:
  std::unordered_map<std::string_view, std::uint32_t> indexes_;
};

}  // namespace

std::vector<std::byte> encode_question(std::span<const Address> addresses) {
  const auto bytes = std::as_bytes(addresses);
  return {bytes.begin(), bytes.end()};
}

Result<std::vector<Address>> decode_question(std::span<const std::byte> bytes) {
  if (bytes.size() % sizeof(Address) != 0 || bytes.size() > limits::symbol_batch * sizeof(Address))
    return fail(ErrorCode::malformed, "not a list of addresses");
  std::vector<Address> addresses(bytes.size() / sizeof(Address));
  if (!bytes.empty()) std::memcpy(addresses.data(), bytes.data(), bytes.size());
  return addresses;
}

std::vector<std::byte> encode_reply(const Reply& reply) {
  Strings strings;
  Writer frames;
  std::string problem = reply.answer.problem.substr(0, problem_bytes / 2);
  bool full = false;
  std::size_t unfolded = 0;
  for (const Frames& one : reply.answer.frames) {
    for (const Frame& frame : one)
      unfolded += frame.name.size() + frame.system_name.size() + frame.file.size();
    full = full || unfolded > limits::symbol_unfolded ||
           strings.written.bytes.size() + frames.bytes.size() > limits::symbol_answer / 2;
    frames.number(full ? 0 : static_cast<std::uint32_t>(one.size()));
    if (full) continue;
    for (const Frame& frame : one) {
      frames.number(strings.index(frame.name));
      frames.number(strings.index(frame.system_name));
      frames.number(strings.index(frame.file));
      frames.number(frame.line);
      frames.number(frame.start_line);
    }
  }
  if (full && problem.empty()) problem = "some names are left out: they are too long together";
  Writer all;
  all.wide(reply.memory);
  all.text(problem);
  all.number(strings.size());
  all.append(strings.written.bytes.data(), strings.written.bytes.size());
  all.append(frames.bytes.data(), frames.bytes.size());
  return std::move(all.bytes);
}

Result<Reply> decode_reply(std::span<const std::byte> bytes, std::size_t addresses,
                           const Limits& limits) {
  const auto malformed = [] {
    return fail(ErrorCode::malformed, "the worker answered what makes no sense");
  };
  Reader in(bytes);
  Reply reply;
  reply.memory = in.take<std::uint64_t>();
  reply.answer.problem = in.text(problem_bytes);
  const auto count = in.take<std::uint32_t>();
  if (in.broken() || count > in.left() / sizeof(std::uint32_t)) return malformed();
  std::vector<std::string_view> strings;
  strings.reserve(count);
  for (std::uint32_t i = 0; i < count && !in.broken(); ++i)
    strings.push_back(in.text(limits.name_bytes));
  const auto string = [&] {
    const auto index = in.take<std::uint32_t>();
    return index < strings.size() ? std::string(strings[index]) : std::string();
  };
  reply.answer.frames.resize(addresses);
  // Short indexes of long strings: what they unfold to is bounded as well.
  std::size_t unfolded = 0;
  for (Frames& frames : reply.answer.frames) {
    const auto depth = in.take<std::uint32_t>();
    if (in.broken() || depth > limits.inline_depth) return malformed();
    for (std::uint32_t i = 0; i < depth; ++i) {
      Frame frame{string(), string(), string(), in.take<std::uint32_t>(), in.take<std::uint32_t>()};
      unfolded += frame.name.size() + frame.system_name.size() + frame.file.size();
      if (in.broken() || unfolded > limits::symbol_unfolded) return malformed();
      frames.push_back(std::move(frame));
    }
  }
  if (in.broken() || in.left() != 0) return malformed();
  return reply;
}

}  // namespace vitrine::symbol
