#include "symbol/jit_symbols.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "base/limits.hpp"
#include "target/mapped_files.hpp"

namespace vitrine::symbol {
namespace {

constexpr std::size_t max_line = 64 * 1024;           // bytes
constexpr std::size_t map_piece_bytes = 1024 * 1024;  // of a file at a time; longer than a line
constexpr std::size_t index_bytes_of_entry =
    56;  // what the index takes, and takes while it is made

/// A hexadecimal number and the blank behind it, off the front of `line`.
std::optional<std::uint64_t> take_number(std::string_view& line) {
  if (line.starts_with("0x") || line.starts_with("0X")) line.remove_prefix(2);
  std::uint64_t value = 0;
  const auto [rest, error] = std::from_chars(line.data(), line.data() + line.size(), value, 16);
  const auto digits = static_cast<std::size_t>(rest - line.data());
  if (error != std::errc() || digits >= line.size() || line[digits] != ' ') return std::nullopt;
  line.remove_prefix(digits + 1);
  return value;
}

}  // namespace

void PerfMap::add_line(std::string_view line) {
  const auto start = take_number(line);
  const auto size = start ? take_number(line) : std::nullopt;
  if (!size || line.empty()) return;
  line = line.substr(0, limits::name_bytes);
  if (entries_.size() >= limits::perf_map_symbols ||
      names_.size() + line.size() > limits::perf_map_bytes) {
    full_ = true;
    return;
  }
  entries_.push_back({*start, *size, static_cast<std::uint32_t>(names_.size()),
                      static_cast<std::uint32_t>(line.size())});
  names_ += line;
}

void PerfMap::add(std::string_view text) {
  for (std::size_t end = 0; (end = text.find('\n')) != text.npos;) {
    add_line(text.substr(0, end));
    text.remove_prefix(end + 1);
    taken_ += end + 1;
  }
  if (text.size() > max_line) taken_ += text.size();  // this will not become one
  functions_.reset();
}

std::optional<PerfMap::Function> PerfMap::find(Address address) const {
  if (!functions_) {
    functions_.emplace();
    for (std::size_t i = 0; i < entries_.size(); ++i)
      functions_->add(entries_[i].start, entries_[i].start + entries_[i].size,
                      static_cast<std::uint32_t>(i), i);
    functions_->build();
  }
  const auto index = functions_->find(address);
  if (!index) return std::nullopt;
  const Entry& entry = entries_[*index];
  return Function{std::string_view(names_).substr(entry.name, entry.name_size), entry.start};
}

void PerfMap::go_back(std::size_t functions, std::uint64_t taken) {
  full_ = false;
  taken_ = taken;
  if (functions < entries_.size()) names_.resize(entries_[functions].name);
  entries_.resize(std::min(functions, entries_.size()));
  functions_.reset();
  shrink();
}

void PerfMap::shrink() {
  names_.shrink_to_fit();
  entries_.shrink_to_fit();
}

std::size_t PerfMap::bytes() const {
  if (entries_.capacity() == 0) return 0;
  return names_.capacity() + entries_.capacity() * sizeof(Entry) +
         entries_.size() * index_bytes_of_entry;
}

std::string JitSymbols::refresh(int root, pid_t inner_pid, uid_t owner, const HasRoom& has_room) {
  if (inner_pid == 0) return {};
  lacks_room_ = false;
  for (std::size_t read = 0; read < limits::perf_map_bytes; read += map_piece_bytes) {
    const std::size_t wanted = map_.full() ? 0 : map_piece_bytes;
    auto part = target::read_perf_map(root, inner_pid, owner, known_, wanted);
    if (!part && part.error().code == ErrorCode::not_found) return {};
    if (!part)
      return fmt::format("/tmp/perf-{}.map: not used: {}", inner_pid, part.error().message);
    if (part->anew) {
      map_ = {};
      if (wanted == 0) continue;
    }
    if (part->text.empty()) break;  // its index stays
    const std::uint64_t taken = map_.taken();
    const std::size_t functions = map_.size();
    map_.add(part->text);
    if (!has_room(map_.bytes())) map_.shrink();
    if (!has_room(map_.bytes())) {
      map_.go_back(functions, taken);
      lacks_room_ = true;
      break;
    }
    known_.add(std::string_view(part->text).substr(0, map_.taken() - taken));
    if (map_.full() || map_.taken() == taken || part->text.size() < map_piece_bytes) break;
  }
  if (!lacks_room_ && !map_.full()) return {};
  const std::string used = map_.size() == 0
                               ? "not used"
                               : fmt::format("only its first {} functions are used", map_.size());
  if (!lacks_room_) return fmt::format("/tmp/perf-{}.map: too long: {}", inner_pid, used);
  return fmt::format("/tmp/perf-{}.map: {}: limit: those of all processes take {} MiB at most",
                     inner_pid, used, max_jit_bytes >> 20);
}

std::string JitMemory::refresh(const std::shared_ptr<JitSymbols>& symbols, int root,
                               pid_t inner_pid, uid_t owner) {
  std::size_t others = 0;
  bool must_wait = false;
  held_.remove_if([&](const Held& held) {
    const auto there = held.symbols.lock();
    if (there == symbols && there->lacks_room() && held.round == round_) must_wait = true;
    if (there == nullptr || there == symbols) return true;
    others += there->bytes();
    return false;
  });
  const auto has_room = [&](std::size_t bytes) {
    if (bytes > max_bytes_) return false;  // though others made room
    held_.remove_if([&](const Held& held) {
      if (others + bytes <= max_bytes_ || held.round == round_) return false;
      if (const auto there = held.symbols.lock()) {
        others -= there->bytes();
        there->clear();
      }
      return true;
    });
    return others + bytes <= max_bytes_;
  };
  std::string problem;
  if (!must_wait) problem = symbols->refresh(root, inner_pid, owner, has_room);
  if (symbols->bytes() != 0 || symbols->lacks_room()) held_.push_back({symbols, round_});
  return problem;
}

std::size_t JitMemory::bytes() const {
  std::size_t bytes = 0;
  for (const Held& held : held_)
    if (const auto there = held.symbols.lock()) bytes += there->bytes();
  return bytes;
}

}  // namespace vitrine::symbol
