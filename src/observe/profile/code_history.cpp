#include "observe/profile/code_history.hpp"

#include <algorithm>
#include <utility>

namespace vitrine::observe {
namespace {

constexpr std::size_t max_codes = 64, max_changes = 4096;  // of one program

bool overlaps(const target::Mapping& a, const target::Mapping& b) {
  return a.start < b.end && b.start < a.end;
}

std::uint64_t next_version() {
  static std::uint64_t last = 0;  // in the one thread that samples
  return ++last;
}

CodeHistory::Code make(std::uint64_t from_ns, ProcessCode code) {
  auto made = std::make_shared<CodeSince>();
  made->from_ns = from_ns;
  made->version = next_version();
  made->unwinder.replace(std::move(code.map));
  made->mappings = std::move(code.mappings);
  made->files = std::move(code.files);
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
  for (std::uint32_t n = 0; more != nullptr && n < more->mappings.size(); ++n)
    if (std::ranges::none_of(code.mappings, [&](const target::Mapping& mapping) {
          return overlaps(mapping, more->mappings[n]);
        }))
      parts.push_back({more->mappings[n], more->files[n], more->map[n]});
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
  insert(std::move(none));
}

void CodeHistory::mapped(std::uint64_t time_ns, const target::Mapping& mapping) {
  changed_ns_ = std::max(changed_ns_, time_ns);
  if (changes_.size() >= max_changes) squash();
  const auto at = std::ranges::upper_bound(changes_, time_ns, {}, &Change::time_ns);
  changes_.insert(at, {time_ns, mapping});
}

/// Forgets, of the older half, what something of that half was mapped over.
void CodeHistory::squash() {
  const auto half = changes_.begin() + static_cast<std::ptrdiff_t>(changes_.size() / 2);
  const auto is_hidden = [&](const Change& change) {
    const Change* const end = std::to_address(half);
    return std::any_of(&change + 1, end, [&](const Change& later) {
      return later.mapping.start <= change.mapping.start && change.mapping.end <= later.mapping.end;
    });
  };
  std::vector<Change> kept;
  std::copy_if(changes_.begin(), half, std::back_inserter(kept),
               [&](const Change& change) { return !is_hidden(change); });
  // All of it is in use at once: the oldest is forgotten, as no process maps so much.
  if (kept.size() == max_changes / 2) kept.erase(kept.begin());
  kept.insert(kept.end(), std::make_move_iterator(half), std::make_move_iterator(changes_.end()));
  changes_ = std::move(kept);
}

bool CodeHistory::found(std::uint64_t time_ns, ProcessCode code) {
  if (is_known() && last()->mappings == code.mappings && last()->files == code.files) return false;
  insert(make(time_ns, std::move(code)));
  return true;
}

bool CodeHistory::found_unreported(std::uint64_t time_ns, ProcessCode code) {
  if (!is_known()) return found(time_ns, std::move(code));
  Code& newest = codes_.back();
  const auto all = [](const target::Mapping&) { return true; };
  ProcessCode filled = part_of(*newest, all, &code);
  const bool is_news = filled.mappings != newest->mappings;
  if (is_news) newest = make(newest->from_ns, std::move(filled));
  return found(time_ns, std::move(code)) || is_news;
}

CodeHistory::Code CodeHistory::last() const {
  return codes_.empty() ? no_code() : codes_.back();
}

bool CodeHistory::is_last(const CodeSince& code) const {
  return !codes_.empty() && codes_.back().get() == &code &&
         (changes_.empty() || changes_.back().time_ns <= code.from_ns);
}

/// At `first` it had more than before: what it has mapped meanwhile was not there yet. What was there
/// instead is not known.
CodeHistory::Code CodeHistory::before(const Code& first, std::uint64_t time_ns) const {
  const auto was_there = [&](const target::Mapping& mapping) {
    return std::ranges::none_of(changes_, [&](const Change& change) {
      return change.time_ns > time_ns && change.time_ns <= first->from_ns &&
             overlaps(change.mapping, mapping);
    });
  };
  if (std::ranges::all_of(first->mappings, was_there)) return nullptr;
  return make(time_ns, part_of(*first, was_there));
}

CodeHistory::Code CodeHistory::at(std::uint64_t time_ns, CodeReader& reader,
                                  const CodePlaces& places) {
  if (codes_.empty()) return no_code();
  const auto after = std::ranges::upper_bound(codes_, time_ns, {}, &CodeSince::from_ns);
  if (after == codes_.begin()) {
    Code earlier = before(codes_.front(), time_ns);
    if (earlier == nullptr) return codes_.front();
    insert(earlier);
    return earlier;
  }
  const Code base = *(after - 1);
  std::vector<const target::Mapping*> mapped;
  std::uint64_t from_ns = 0;
  auto change = std::ranges::upper_bound(changes_, base->from_ns, {}, &Change::time_ns);
  for (; change != changes_.end() && change->time_ns <= time_ns; ++change) {
    mapped.push_back(&change->mapping);
    from_ns = change->time_ns;
  }
  if (mapped.empty()) return base;
  auto code = reader.with(base->unwinder.code(), base->mappings, base->files, mapped, places);
  if (!code) {  // it had mapped that already
    std::erase_if(changes_, [&](const Change& its) {
      return its.time_ns > base->from_ns && its.time_ns <= time_ns;
    });
    return base;
  }
  Code made = make(from_ns, std::move(*code));
  insert(made);
  return made;
}

void CodeHistory::insert(Code code) {
  const auto at = std::ranges::upper_bound(codes_, code->from_ns, {},
                                           [](const Code& its) { return its->from_ns; });
  codes_.insert(at, std::move(code));
  if (codes_.size() <= max_codes) return;
  codes_.pop_front();
  std::erase_if(changes_,
                [&](const Change& change) { return change.time_ns <= codes_.front()->from_ns; });
}

CodeHistory CodeHistory::child() const {
  CodeHistory its;
  if (codes_.empty()) return its;
  its.codes_.push_back(codes_.back());
  for (const Change& change : changes_)
    if (change.time_ns > codes_.back()->from_ns) its.changes_.push_back(change);
  return its;
}

}  // namespace vitrine::observe
