#include "export/spool.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <functional>
#include <memory>
#include <new>
#include <queue>
#include <span>
#include <string_view>
#include <utility>

#include "base/clock.hpp"
#include "base/file_descriptor.hpp"
#include "base/gzip.hpp"
#include "base/limits.hpp"
#include "sandbox/files.hpp"

namespace vitrine::exporter {
namespace {

/// Files that are written together.
constexpr std::size_t files_at_once = 32;

/// What file systems mostly give to a file at a time. Small requests would take several times their bytes.
constexpr std::uint64_t block_bytes = 4096;

/// The name of one of them while it is written: one writer, the same names.
std::string unfinished(std::size_t index) {
  return fmt::format("unfinished-{}", index);
}

constexpr std::size_t digits = 19;
constexpr std::uint64_t latest_time = 9'000'000'000'000'000'000U;  // 2255: 19 digits for long

/// The first `digits` of a name.
std::optional<std::uint64_t> time_in(std::string_view name) {
  std::uint64_t time = 0;
  if (name.size() < digits) return std::nullopt;
  const auto [end, error] = std::from_chars(name.data(), name.data() + digits, time);
  if (error != std::errc() || end != name.data() + digits || time > latest_time)
    return std::nullopt;
  return time;
}

/// nullopt: it is not the name of a spool file.
std::optional<Spool::NameOfFile> parse_name(std::string_view name, std::string_view suffix) {
  if (!name.ends_with(suffix)) return std::nullopt;
  name.remove_suffix(suffix.size());
  const auto time = time_in(name);
  if (!time) return std::nullopt;
  name.remove_prefix(digits);
  if (name.empty()) return Spool::NameOfFile{*time, 0};
  if (name.size() != 1 + digits || name.front() != '-') return std::nullopt;
  const auto whole = time_in(name.substr(1));
  if (!whole || *whole == 0) return std::nullopt;
  return Spool::NameOfFile{*time, *whole};
}

tl::unexpected<Error> failed(const std::string& path, const char* what, int number) {
  return fail(code_of_errno(number),
              fmt::format("the spool {} {}: {}", path, what, std::strerror(number)));
}

}  // namespace

Result<Spool> Spool::open(const std::string& directory, std::uint64_t bytes,
                          std::string_view suffix, std::size_t max_requests) {
  Spool spool(bytes, suffix, max_requests);
  if (directory.empty()) return spool;
  if (::mkdir(directory.c_str(), 0700) != 0 && errno != EEXIST)
    return failed(directory, "cannot be made", errno);
  spool.path_ = directory;
  // Not through a link of another user: its owner chose the place.
  auto opened = sandbox::open_directory(directory);
  if (!opened) {
    opened.error().message = "the spool " + opened.error().message;
    return tl::unexpected(std::move(opened.error()));
  }
  spool.directory_ = std::move(*opened);
  struct stat status {};
  if (::fstat(spool.directory_.get(), &status) != 0)
    return failed(directory, "cannot be read", errno);
  if (status.st_uid != ::geteuid() || (status.st_mode & 022) != 0)
    return fail(ErrorCode::usage,
                fmt::format("the spool {} belongs to another user, or other users can write to it",
                            directory),
                "it must belong to the user that vitrine runs as, and only that user may write to "
                "it: run chmod 700, or choose another directory");
  TRY(spool.lock(directory));
  TRY(spool.list());
  spool.make_room(0, false);
  return spool;
}

std::uint64_t Spool::room_of(std::uint64_t bytes) const {
  return directory_ ? (bytes + block_bytes - 1) / block_bytes * block_bytes : bytes;
}

/// Held until the descriptor closes, by kill -9 at the latest.
Result<void> Spool::lock(const std::string& path) {
  lock_ = FileDescriptor(::openat(directory_.get(), "lock",
                                  O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600));
  if (!lock_) return failed(path, "cannot be locked", errno);
  if (::flock(lock_.get(), LOCK_EX | LOCK_NB) == 0) return {};
  if (errno != EWOULDBLOCK) return failed(path, "cannot be locked", errno);
  return fail(ErrorCode::usage, fmt::format("the spool {} is in use by another process", path),
              "give each process its own directory");
}

Result<void> Spool::list() {
  // Of a process that was killed while it wrote; the first is of earlier versions.
  ::unlinkat(directory_.get(), "unfinished", 0);
  for (std::size_t i = 0; i < files_at_once; ++i)
    ::unlinkat(directory_.get(), unfinished(i).c_str(), 0);
  const int copy = ::openat(directory_.get(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  const std::unique_ptr<DIR, int (*)(DIR*)> files(copy < 0 ? nullptr : ::fdopendir(copy),
                                                  &::closedir);
  if (!files) return failed(path_, "cannot be listed", errno);
  std::priority_queue<NameOfFile, std::vector<NameOfFile>, std::greater<>> names;  // oldest on top
  while (const dirent* file = ::readdir(files.get())) {
    const auto name = parse_name(file->d_name, suffix_);
    if (!name) continue;
    names.push(*name);
    if (names.size() <= max_requests_) continue;
    ::unlinkat(directory_.get(), name_of(names.top()).c_str(), 0);
    names.pop();
    ++overflowed_;
  }
  for (; !names.empty(); names.pop()) {
    const auto& [time, whole] = names.top();
    struct stat status {};
    if (::fstatat(directory_.get(), name_of(names.top()).c_str(), &status, AT_SYMLINK_NOFOLLOW) !=
        0)
      continue;
    const auto bytes = room_of(static_cast<std::uint64_t>(std::max<off_t>(status.st_size, 0)));
    put({time, whole, time, bytes, {}, 0});
    held_ += bytes;
  }
  if (!entries_.empty()) last_time_ = entries_.back().time;
  remove_half_replaced();
  return {};
}

/// Parts of a request that is there: the process was killed before all of them were.
void Spool::remove_half_replaced() {
  std::vector<std::uint64_t> times;
  for (const Entry& entry : entries_) times.push_back(entry.time);
  for (std::size_t i = entries_.size(); i-- > 0;)
    if (entries_[i].whole != 0 && std::ranges::binary_search(times, entries_[i].whole)) forget(i);
}

void Spool::hold(std::string content, bool in_use) {
  append(std::move(content), in_use, nullptr);
}

void Spool::add(std::string content, bool in_use) {
  hold(std::move(content), in_use);
  write_out(in_use);
}

/// `whole`: what it is a part of, which is there as long as it is half replaced.
void Spool::append(std::string content, bool in_use, const Entry* whole) {
  const std::uint64_t bytes = room_of(content.size());
  if (bytes > most_) {
    ++overflowed_;
    notes_.add(fmt::format("a request of {} bytes does not fit in the spool of {}", content.size(),
                           most_));
    return;
  }
  make_room(bytes, in_use);
  const std::uint64_t time = next_time();
  put({time, whole == nullptr ? 0 : whole->time, whole == nullptr ? time : whole->came, bytes,
       std::move(content), 0});
  held_ += bytes;
  if (!directory_ || bytes == 0) return;
  ++unwritten_;
  unwritten_bytes_ += bytes;
}

/// Oldest first. Of what the directory does not take, the oldest go where memory would be filled instead.
void Spool::write_out(bool in_use) try {
  if (unwritten_bytes_ == 0) return;
  std::vector<Entry*> unwritten;
  for (Entry& entry : entries_)
    if (!entry.content.empty()) unwritten.push_back(&entry);
  Result<void> written;
  for (std::span<Entry* const> left = unwritten; written && !left.empty();) {
    const auto next = left.first(std::min(left.size(), files_at_once));
    written = write(next);
    left = left.subspan(next.size());
  }
  if (!written && !reported_unwritable_)
    notes_.add(fmt::format("the spool {} is not writable ({}): requests are kept in memory", path_,
                           written.error().message));
  reported_unwritable_ = !written;
  for (std::size_t i = in_use ? 1 : 0; unwritten_bytes_ > max_in_memory && i < entries_.size();) {
    if (entries_[i].content.empty()) {
      ++i;
      continue;
    }
    forget(i);
    ++overflowed_;
  }
} catch (const std::bad_alloc&) {
  return;  // they stay where they are, and are written later
}

std::string Spool::name_of(const NameOfFile& name) const {
  const std::string whole = name.whole == 0 ? "" : fmt::format("-{:0{}}", name.whole, digits);
  return fmt::format("{:0{}}{}{}", name.time, digits, whole, suffix_);
}

std::string Spool::name_of(const Entry& entry) const {
  return name_of(NameOfFile{entry.time, entry.whole});
}

/// Of several in a nanosecond, or after the clock was set back, the later one is the later one.
std::uint64_t Spool::next_time() {
  return last_time_ = std::max(unix_time_ns(), last_time_ + 1);
}

void Spool::make_room(std::uint64_t bytes, bool in_use) {
  const std::size_t oldest = in_use ? 1 : 0;
  const auto is_full = [&] {
    return held_ + bytes > most_ || (bytes != 0 && entries_.size() >= max_requests_);
  };
  while (is_full() && entries_.size() > oldest) {
    forget(oldest);
    ++overflowed_;
  }
}

std::optional<std::string> Spool::first() {
  while (!entries_.empty()) {
    const Entry& entry = entries_.front();
    if (!entry.content.empty()) return entry.content;
    const std::string name = name_of(entry);
    if (auto content = read(name))
      return std::move(*content);
    else
      notes_.add(fmt::format("{}/{} is not a request of vitrine and is left unchanged: {}", path_,
                             name, content.error().message));
    ++skipped_;
    held_ -= entry.bytes;
    drop(entries_.begin());
  }
  return std::nullopt;
}

std::uint64_t Spool::oldest_ns() const {
  return came_.empty() ? 0 : *came_.begin();
}

void Spool::put(Entry entry) {
  const auto came = came_.insert(entry.came);
  try {
    entries_.push_back(std::move(entry));
  } catch (const std::bad_alloc&) {
    came_.erase(came);
    throw;
  }
}

void Spool::drop(const std::deque<Entry>::const_iterator& entry) {
  came_.erase(came_.find(entry->came));
  entries_.erase(entry);
}

void Spool::remove_first() {
  if (!entries_.empty()) forget(0);
}

unsigned Spool::count_try() {
  return entries_.empty() ? 0 : ++entries_.front().tries;
}

/// A file that cannot be renamed keeps its name, and with it its place at the next start.
void Spool::defer_first() {
  if (entries_.size() < 2) return;
  Entry entry = std::move(entries_.front());
  entries_.pop_front();
  Entry renamed = entry;
  renamed.time = next_time();
  renamed.whole = 0;
  const int directory = directory_.get();
  if (!entry.content.empty() ||
      ::renameat(directory, name_of(entry).c_str(), directory, name_of(renamed).c_str()) == 0)
    entry = std::move(renamed);
  entries_.push_back(std::move(entry));
}

/// Its room is theirs.
void Spool::replace_first(std::vector<std::string> parts) {
  const std::uint64_t bytes = std::exchange(entries_.front().bytes, 0);
  const bool is_unwritten = directory_ && !entries_.front().content.empty();
  const Entry whole{entries_.front().time, 0, entries_.front().came, 0, {}, 0};
  held_ -= bytes;
  if (is_unwritten) unwritten_bytes_ -= bytes;
  try {
    for (std::string& part : parts) append(std::move(part), true, &whole);
    write_out(true);
  } catch (const std::bad_alloc&) {
    for (std::size_t i = entries_.size(); i-- > 1;)
      if (entries_[i].whole == whole.time) forget(i);
    entries_.front().bytes = bytes;
    held_ += bytes;
    if (is_unwritten) unwritten_bytes_ += bytes;
    throw;
  }
  forget(0);
  write_out(false);  // what had no room beside it
}

void Spool::forget(std::size_t index) {
  const auto entry = entries_.begin() + static_cast<std::ptrdiff_t>(index);
  if (entry->content.empty()) {
    ::unlinkat(directory_.get(), name_of(*entry).c_str(), 0);
  } else if (directory_) {
    --unwritten_;
    unwritten_bytes_ -= entry->bytes;
  }
  held_ -= entry->bytes;
  drop(entry);
}

/// All of them, or those before the first that cannot be written. The disk gets the content of all
/// before one is waited for: mostly, only the first file takes time.
Result<void> Spool::write(std::span<Entry* const> entries) {
  struct Unfinished {
    std::string name, last_name;
    FileDescriptor file;
    bool is_whole = false;
  };
  std::vector<Unfinished> files;  // no memory is wanted once the first file is there
  for (std::size_t i = 0; i < entries.size(); ++i)
    files.push_back({unfinished(i), name_of(*entries[i]), {}});
  const int directory = directory_.get();
  int error = 0;
  for (std::size_t i = 0; i < files.size() && error == 0; ++i) {
    auto& [name, last_name, file, is_whole] = files[i];
    file = FileDescriptor(::openat(directory, name.c_str(),
                                   O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600));
    error = file ? write_all(file.get(), entries[i]->content) : errno;
    is_whole = error == 0;
    if (is_whole) ::sync_file_range(file.get(), 0, 0, SYNC_FILE_RANGE_WRITE);
  }
  bool is_kept = true;
  for (std::size_t i = 0; i < files.size() && files[i].file; ++i) {
    const auto& [name, last_name, file, is_whole] = files[i];
    // On disk before it has its name: after a power cut, too, a file with such a name is complete.
    is_kept = is_kept && is_whole && ::fsync(file.get()) == 0 &&
              ::renameat(directory, name.c_str(), directory, last_name.c_str()) == 0;
    if (is_kept) {
      unwritten_bytes_ -= entries[i]->bytes;
      --unwritten_;
      std::string().swap(entries[i]->content);  // an assignment would keep its memory
    } else {
      if (error == 0) error = errno;
      ::unlinkat(directory, name.c_str(), 0);
    }
  }
  if (error != 0) return fail(ErrorCode::failed, std::strerror(error));
  return {};
}

Result<std::string> Spool::read(const std::string& name) const {
  const FileDescriptor file(
      ::openat(directory_.get(), name.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  if (!file) return fail(ErrorCode::failed, std::strerror(errno));
  struct stat status {};
  if (::fstat(file.get(), &status) != 0) return fail(ErrorCode::failed, std::strerror(errno));
  if (!S_ISREG(status.st_mode)) return fail(ErrorCode::malformed, "it is not a regular file");
  if (status.st_uid != ::geteuid()) return fail(ErrorCode::malformed, "it belongs to another user");
  if (status.st_size < 0 || static_cast<std::uint64_t>(status.st_size) > limits::export_request)
    return fail(ErrorCode::limit, fmt::format("it has {} bytes", status.st_size));
  auto content = read_all(file.get(), static_cast<std::size_t>(status.st_size));
  if (!content) return fail(ErrorCode::failed, std::strerror(content.error()));
  TRY(gunzip(*content, limits::export_request));
  return std::move(*content);
}

}  // namespace vitrine::exporter
