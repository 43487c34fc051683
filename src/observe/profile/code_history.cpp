#include "observe/profile/code_history.hpp"

#include <algorithm>
#include <map>
#include <utility>

namespace vitrine::observe {
namespace {

// Of one program, all of them: a program decides what it maps, how often, and from which path.
constexpr std::size_t max_codes = 64, max_code_bytes = 8U << 20;
// Plugins in turn are mapped thousands of times a second, and samples may be looked at seconds later.
constexpr std::size_t max_changes = 64 * 1024, max_change_bytes = 4U << 20;
constexpr std::size_t max_recent = 16;

/// A set of addresses.
class Ranges {
 public:
  void add(Address start, Address end) {
    auto next = ranges_.upper_bound(start);
    if (next != ranges_.begin() && std::prev(next)->second >= start) --next;
    while (next != ranges_.end() && next->first <= end) {
      start = std::min(start, next->first);
      end = std::max(end, next->second);
      next = ranges_.erase(next);
    }
    ranges_.emplace_hint(next, start, end);
  }
  [[nodiscard]] bool overlap(Address start, Address end) const {
    const auto next = ranges_.lower_bound(end);
    return next != ranges_.begin() && std::prev(next)->second > start;
  }
  [[nodiscard]] bool hold(Address start, Address end) const {
    const auto next = ranges_.upper_bound(start);
    return next != ranges_.begin() && std::prev(next)->second >= end;
  }

 private:
  std::map<Address, Address> ranges_;  // start, end; none touches another
};

std::uint64_t next_version() {
  static std::uint64_t last = 0;  // in the one thread that samples
  return ++last;
}

std::size_t bytes_of(const target::Mapping& mapping) {
  return sizeof mapping + mapping.name.size();
}

CodeHistory::Code make(std::uint64_t from_ns, ProcessCode code) {
  auto made = std::make_shared<CodeSince>();
  made->from_ns = from_ns;
  made->version = next_version();
  made->unwinder.replace(std::move(code.map));
  made->mappings = std::move(code.mappings);
  made->files = std::move(code.files);
  for (const target::Mapping& mapping : made->mappings)
    made->bytes += bytes_of(mapping) + sizeof(unwind::Region) + sizeof made->files[0];
  return made;
}

/// Without those of its regions that are not wanted, and with others.
template <class Wanted>
ProcessCode part_of(const CodeSince& code, Wanted wanted, const ProcessCode* more = nullptr) {
  struct Part {
    target::Mapping mapping;
    std::shared_ptr<const CodeFile> file;
    unwind::Region region;
  };
  std::vector<Part> parts;
  for (std::uint32_t n = 0; n < code.mappings.size(); ++n)
    if (wanted(code.mappings[n]))
      parts.push_back({code.mappings[n], code.files[n], code.unwinder.code()[n]});
  if (more != nullptr) {
    Ranges known;
    for (const target::Mapping& mapping : code.mappings) known.add(mapping.start, mapping.end);
    for (std::uint32_t n = 0; n < more->mappings.size(); ++n)
      if (!known.overlap(more->mappings[n].start, more->mappings[n].end))
        parts.push_back({more->mappings[n], more->files[n], more->map[n]});
  }
  std::ranges::sort(parts, {}, [](const Part& part) { return part.mapping.start; });
  ProcessCode out;
  std::vector<unwind::Region> regions;
  for (Part& part : parts) {
    out.mappings.push_back(std::move(part.mapping));
    out.files.push_back(std::move(part.file));
    regions.push_back(std::move(part.region));
  }
  out.map = unwind::CodeMap(std::move(regions));
  return out;
}

const CodeHistory::Code& no_code() {
  static const auto none = std::make_shared<CodeSince>();
  return none;
}

}  // namespace

void CodeHistory::begin(std::uint64_t time_ns) {
  auto none = std::make_shared<CodeSince>();
  none->from_ns = time_ns;
  insert(std::move(none), true, time_ns);
}

std::shared_ptr<const target::Mapping> CodeHistory::intern(const target::Mapping& mapping,
                                                           std::size_t& added_bytes) {
  const auto known = std::ranges::find_if(
      recent_, [&](const std::shared_ptr<const target::Mapping>& one) { return *one == mapping; });
  if (known != recent_.end()) return *known;
  added_bytes += bytes_of(mapping);
  if (recent_.size() >= max_recent) recent_.pop_front();
  return recent_.emplace_back(std::make_shared<const target::Mapping>(mapping));
}

void CodeHistory::mapped(std::uint64_t time_ns, const target::Mapping& mapping) {
  changed_ns_ = std::max(changed_ns_, time_ns);
  if (changes_.size() >= max_changes || change_bytes_ + bytes_of(mapping) > max_change_bytes)
    squash();
  Change change{time_ns, nullptr, sizeof(Change)};
  change.mapping = intern(mapping, change.bytes);
  change_bytes_ += change.bytes;
  const auto at = std::ranges::upper_bound(changes_, time_ns, {}, &Change::time_ns);
  changes_.insert(at, std::move(change));
  make_anew_from(time_ns);
}

/// A change has come that no code knows of. Codes that were made of changes before and after it are wrong,
/// unless what they were made of was read after it.
void CodeHistory::make_anew_from(std::uint64_t time_ns) {
  for (std::size_t n = codes_.size(); n-- > 0;) {
    Entry& entry = codes_[n];
    if (std::max(entry.code->from_ns, entry.known_until_ns) < time_ns) return;
    if (entry.made_until_ns < time_ns) {
      entry.known_until_ns = entry.made_until_ns;
      continue;
    }
    std::size_t read = n;
    while (!codes_[read].is_read) --read;  // the first one is
    if (codes_[read].made_until_ns >= time_ns) {
      n = read;
    } else {
      code_bytes_ -= entry.code->bytes;
      codes_.erase(codes_.begin() + static_cast<std::ptrdiff_t>(n));
    }
  }
}

/// Forgets, of the older half, what something of that half was mapped over; and the oldest of what
/// remains, if that is more than half of it: no process maps so much, and to come here takes time.
void CodeHistory::squash() {
  const std::size_t half = changes_.size() / 2;
  Ranges later;
  std::vector<Change> kept;  // the newest first
  for (std::size_t n = half; n-- > 0 && kept.size() < half / 2;) {
    const target::Mapping& mapping = *changes_[n].mapping;
    if (later.hold(mapping.start, mapping.end)) continue;
    later.add(mapping.start, mapping.end);
    kept.push_back(std::move(changes_[n]));
  }
  std::ranges::reverse(kept);
  kept.insert(kept.end(),
              std::make_move_iterator(changes_.begin() + static_cast<std::ptrdiff_t>(half)),
              std::make_move_iterator(changes_.end()));
  changes_.assign(std::make_move_iterator(kept.begin()), std::make_move_iterator(kept.end()));
  change_bytes_ = 0;
  for (const Change& change : changes_) change_bytes_ += change.bytes;
}

bool CodeHistory::found(Reading when, ProcessCode code) {
  if (is_known() && last()->mappings == code.mappings && last()->files == code.files) return false;
  // What was made without it is made anew.
  std::erase_if(codes_, [&](const Entry& entry) {
    const bool is_later = !entry.is_read && entry.code->from_ns >= when.end_ns;
    if (is_later) code_bytes_ -= entry.code->bytes;
    return is_later;
  });
  insert(make(when.end_ns, std::move(code)), true, when.begin_ns);
  return true;
}

bool CodeHistory::found_unreported(Reading when, ProcessCode code) {
  if (!is_known()) return found(when, std::move(code));
  Code& newest = codes_.back().code;
  const auto all = [](const target::Mapping&) { return true; };
  ProcessCode filled = part_of(*newest, all, &code);
  const bool is_news = filled.mappings != newest->mappings;
  if (is_news) {
    code_bytes_ -= newest->bytes;
    newest = make(newest->from_ns, std::move(filled));
    code_bytes_ += newest->bytes;
  }
  return found(when, std::move(code)) || is_news;
}

CodeHistory::Code CodeHistory::last() const {
  return codes_.empty() ? no_code() : codes_.back().code;
}

bool CodeHistory::is_last(const CodeSince& code) const {
  return !codes_.empty() && codes_.back().code.get() == &code &&
         (changes_.empty() || changes_.back().time_ns <= codes_.back().known_until_ns);
}

/// At `first` it had more than before: what it has mapped meanwhile was not there yet. What was there
/// instead is not known.
CodeHistory::Code CodeHistory::before(const Code& first, std::uint64_t time_ns) const {
  Ranges mapped;
  for (const Change& change : changes_)
    if (change.time_ns > time_ns && change.time_ns <= first->from_ns)
      mapped.add(change.mapping->start, change.mapping->end);
  const auto was_there = [&](const target::Mapping& mapping) {
    return !mapped.overlap(mapping.start, mapping.end);
  };
  if (std::ranges::all_of(first->mappings, was_there)) return nullptr;
  return make(time_ns, part_of(*first, was_there));
}

/// Whether a program may have another code made of `from`. One that maps code all the time, and has
/// much of it, would have one made for each sample: of that, samples in between have the code before.
bool CodeHistory::may_make(const CodeSince& from, std::uint64_t time_ns) {
  constexpr std::uint64_t allowance = 64U << 20, bytes_each_us = 32;
  if (time_ns > budget_at_ns_) {
    const std::uint64_t more =
        std::min(allowance, (time_ns - budget_at_ns_) / 1000 * bytes_each_us);
    budget_ = std::min(allowance, budget_ + more);
    budget_at_ns_ = time_ns;
  }
  if (budget_ < from.bytes) return false;
  budget_ -= from.bytes;
  return true;
}

CodeHistory::Code CodeHistory::at(std::uint64_t time_ns, CodeReader& reader,
                                  const CodePlaces& places) {
  if (codes_.empty()) return no_code();
  const auto from_ns = [](const Entry& entry) { return entry.code->from_ns; };
  const auto after = std::ranges::upper_bound(codes_, time_ns, {}, from_ns);
  if (after == codes_.begin()) {
    Code first = codes_.front().code;
    if (!may_make(*first, time_ns)) return first;
    Code earlier = before(first, time_ns);
    if (earlier == nullptr) return first;
    insert(earlier, true, time_ns);
    return earlier;
  }
  Entry& base = *(after - 1);
  std::vector<const target::Mapping*> mapped;
  std::uint64_t until_ns = base.known_until_ns;
  auto change = std::ranges::upper_bound(changes_, until_ns, {}, &Change::time_ns);
  for (; change != changes_.end() && change->time_ns <= time_ns; ++change) {
    mapped.push_back(change->mapping.get());
    until_ns = change->time_ns;
  }
  Code from = base.code;
  if (mapped.empty() || !may_make(*from, time_ns)) return from;
  auto code = reader.with(from->unwinder.code(), from->mappings, from->files, mapped, places);
  if (!code) {  // it had mapped that already
    base.known_until_ns = until_ns;
    return from;
  }
  Code made = make(std::max(until_ns, from->from_ns), std::move(*code));
  insert(made, false, until_ns);
  return made;
}

void CodeHistory::insert(Code code, bool is_read, std::uint64_t made_until_ns) {
  const auto at = std::ranges::upper_bound(codes_, code->from_ns, {},
                                           [](const Entry& its) { return its.code->from_ns; });
  code_bytes_ += code->bytes;
  codes_.insert(at, {std::move(code), is_read, made_until_ns, made_until_ns});
  if (codes_.size() <= max_codes && code_bytes_ <= max_code_bytes) return;
  while (codes_.size() > 1 && (codes_.size() > max_codes || code_bytes_ > max_code_bytes)) {
    code_bytes_ -= codes_.front().code->bytes;
    codes_.pop_front();
  }
  codes_.front().is_read = true;  // what it was made of is gone
  reaches_ns_ = codes_.front().code->from_ns;
  forget_changes(codes_.front().made_until_ns);
}

void CodeHistory::forget_changes(std::uint64_t until_ns) {
  for (; !changes_.empty() && changes_.front().time_ns <= until_ns; changes_.pop_front())
    change_bytes_ -= changes_.front().bytes;
}

CodeHistory CodeHistory::child() const {
  CodeHistory its;
  if (codes_.empty()) return its;
  const Entry& newest = codes_.back();
  its.insert(newest.code, true, newest.known_until_ns);
  for (const Change& change : changes_)
    if (change.time_ns > newest.known_until_ns) {
      its.changes_.push_back(change);
      its.change_bytes_ += change.bytes;
    }
  return its;
}

}  // namespace vitrine::observe
