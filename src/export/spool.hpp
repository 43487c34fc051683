// Spool: requests that wait to be sent, oldest first, in memory or in a directory.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/file_descriptor.hpp"
#include "base/limits.hpp"
#include "base/notes.hpp"
#include "base/result.hpp"
#include "export/signal.hpp"

namespace vitrine::exporter {

/// In a directory, a request is a file of its gzipped bytes, `<time, 19 digits>` and a suffix for
/// what they are, whole and on disk or not there at all; only one process at a time has the
/// directory (a lock on its file `lock`). What other files hold is not believed: only regular files
/// of our user, whole gzip, in bounds.
///
/// A request that replaces a part of another one is `<time>-<time of that one>` and the suffix, and counts
/// once that one is gone: whenever the process is killed, the spool holds the whole one or its parts.
class Spool {
 public:
  static constexpr std::string_view otlp_files = names_of(Signal::profiles).spool_end;
  static constexpr std::string_view row_files = ".ndjson.gz";
  /// Most of what a directory does not take that is kept in memory.
  static constexpr std::uint64_t max_in_memory = 64U << 20;
  struct NameOfFile {
    std::uint64_t time = 0, whole = 0;  ///< as in Entry
    auto operator<=>(const NameOfFile&) const = default;
  };

  /// Takes up what an earlier process left in `directory` (made, 0700, when it is missing); empty:
  /// in memory. `bytes`, `max_requests`: most that is kept; of a file, whole blocks. `suffix`: of the files, a
  /// constant. Errors: usage (others may write to it; it is in use), not_found, not_permitted, failed.
  static Result<Spool> open(const std::string& directory, std::uint64_t bytes,
                            std::string_view suffix = otlp_files,
                            std::size_t max_requests = limits::spool_requests);

  [[nodiscard]] bool empty() const { return entries_.empty(); }
  [[nodiscard]] std::size_t size() const { return entries_.size(); }
  /// That all requests take, as open() counts them.
  [[nodiscard]] std::uint64_t bytes() const { return held_; }
  /// Unix time (ns) when the one that came first came; 0: there is none. One that was deferred, or a part,
  /// came when it was first there, as far as this process knows.
  [[nodiscard]] std::uint64_t oldest_ns() const;
  /// Of those, the ones in memory though there is a directory.
  [[nodiscard]] std::size_t unwritten() const { return unwritten_; }

  /// Keeps `content` behind all others, in memory until write_out(). Where there is no room the oldest
  /// go, but not the first while it is `in_use`.
  void hold(std::string content, bool in_use);
  /// Writes those that are in memory, as far as the directory takes them; the rest stays there, with a
  /// note, until it is called again. Many at once take hardly longer than one: the disk is waited for once.
  void write_out(bool in_use);
  /// hold() and write_out().
  void add(std::string content, bool in_use);

  /// The oldest request, which stays until it is removed. Files that are none are passed over, with a
  /// note. Nothing: there is none (any more).
  std::optional<std::string> first();
  void remove_first();
  /// Puts the oldest one behind all others.
  void defer_first();
  /// Puts `parts` behind all others, in place of the oldest one.
  void replace_first(std::vector<std::string> parts);
  /// Counts a try of the oldest one: how many it has had in this process.
  unsigned count_try();

  /// Requests dropped for want of room; files passed over.
  [[nodiscard]] std::uint64_t overflowed() const { return overflowed_; }
  [[nodiscard]] std::uint64_t skipped() const { return skipped_; }
  std::vector<std::string> take_notes() { return notes_.take(); }

 private:
  struct Entry {
    std::uint64_t time = 0;   ///< Unix time in ns when it came or was deferred, made unique
    std::uint64_t whole = 0;  ///< time of the one that it is a part of; 0: none. Both are its name
    std::uint64_t came = 0;
    std::uint64_t bytes = 0;  ///< room_of() it
    std::string content;      ///< empty: in the file
    unsigned tries = 0;
  };

  Spool(std::uint64_t bytes, std::string_view suffix, std::size_t max_requests)
      : suffix_(suffix), most_(bytes), max_requests_(max_requests) {}
  [[nodiscard]] std::uint64_t room_of(std::uint64_t bytes) const;
  Result<void> lock(const std::string& path);
  Result<void> list();
  void remove_half_replaced();
  void append(std::string content, bool in_use, const Entry* whole);
  void make_room(std::uint64_t bytes, bool in_use);
  Result<void> write(std::span<Entry* const> entries);
  [[nodiscard]] std::string name_of(const NameOfFile& name) const;
  [[nodiscard]] std::string name_of(const Entry& entry) const;
  std::uint64_t next_time();
  Result<std::string> read(const std::string& name) const;
  void forget(std::size_t index);  ///< removes its file, too
  void put(Entry entry);           ///< behind all others
  void drop(const std::deque<Entry>::const_iterator& entry);
  std::string_view suffix_;
  std::string path_;
  FileDescriptor directory_, lock_;
  std::uint64_t most_, held_ = 0;
  std::size_t max_requests_;
  std::uint64_t unwritten_bytes_ = 0;  ///< of those, in memory though there is a directory
  std::uint64_t overflowed_ = 0, skipped_ = 0;
  std::size_t unwritten_ = 0;  ///< how many these are
  std::deque<Entry> entries_;
  std::multiset<std::uint64_t> came_;  ///< of all entries: a deferred one is behind later ones
  std::uint64_t last_time_ = 0;
  bool reported_unwritable_ = false;
  Notes notes_{limits::export_notes, Notes::Repeats::kept};
};

}  // namespace vitrine::exporter
