// Opening and reading files that others name, and writing files that change together.
#pragma once

#include <sys/types.h>
#include <unistd.h>

#include <atomic>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/file_descriptor.hpp"
#include "base/memory.hpp"
#include "base/result.hpp"

namespace vitrine::sandbox {

// Opening files.

/// Opens `path` below the directory `dir`, close-on-exec. Errors: not_found (also when the process
/// behind a file of /proc is gone), not_permitted, failed.
Result<FileDescriptor> open_at(int dir, const std::string& path, int flags);

// Opening files that others name: regular ones alone, so that no pipe makes us wait and no device
// does anything for having been opened.

/// A file that is open for reading; or, where its file system may stop responding (FUSE), a copy of
/// it in memory.
struct OpenedFile : FileDescriptor {
  OpenedFile() = default;
  explicit(false) OpenedFile(FileDescriptor opened) : FileDescriptor(std::move(opened)) {}
  OpenedFile(FileDescriptor opened, FileDescriptor handle)
      : FileDescriptor(std::move(opened)), original(std::move(handle)) {}

  /// Of a copy: the file itself (O_PATH), by which the kernel reaches it.
  FileDescriptor original;
};

/// Opens a regular file for reading. Errors: not_found, not_permitted, unsupported (it is something
/// else: the message names it), limit (its file system does not respond: see file_opener.hpp),
/// failed.
Result<OpenedFile> open_regular_at(int dir, const std::string& path);

/// The same by a link below `dir` (a descriptor of /proc/PID), whose file the kernel looks up under
/// locks of that process: map_files. It may hold them for ever, so another process looks it up. Errors
/// as above; limit, too, if it is held.
Result<OpenedFile> open_regular_link(int dir, const std::string& path);

/// The same for several: the other process is asked once for all. In their order.
std::vector<Result<OpenedFile>> open_regular_links(int dir, std::span<const std::string> paths);

/// The same for a path as a process with the root directory `root` (a descriptor) would take it:
/// links in it do not lead out. Errors as above; unsupported too where the kernel cannot do it
/// (before Linux 5.6).
Result<OpenedFile> open_regular_below(int root, const std::string& path);

/// The same for a file in a place where any user may make one: `path` itself is no link, and the
/// file belongs to `owner`. Errors as above; not_permitted names the owner that it has.
Result<OpenedFile> open_owned_below(int root, const std::string& path, uid_t owner);

/// The first executable regular file called `name` in the directories of PATH. Names it only: it may
/// be another file when it is opened.
std::optional<std::string> find_program(std::string_view name);

/// A directory as a place to look in: another mount of the same directory is another place, as what
/// is below it may differ.
struct PlaceIdentity {
  std::uint64_t mount = 0;  ///< 0: this kernel does not report it (before Linux 5.8)
  std::uint64_t device = 0;
  std::uint64_t inode = 0;

  auto operator<=>(const PlaceIdentity&) const = default;
};

/// Of an open directory or file, without asking the server of its file system. All 0: not known.
PlaceIdentity place_identity(int directory);

// FileMemory: a file's bytes as a Memory; the address is the offset.

/// Distinguishes a file from every other, and from what it was before it changed.
struct FileIdentity {
  std::uint64_t device = 0;
  std::uint64_t inode = 0;
  std::int64_t size = 0;
  std::int64_t changed_ns = 0;

  auto operator<=>(const FileIdentity&) const = default;
};

struct FileStatus {
  FileIdentity identity;
  mode_t mode = 0;
};

/// Of what a path of the user's leads to, which is not opened. Errors: not_found, not_permitted, limit (its file
/// system does not respond), failed.
Result<FileStatus> path_status(const std::string& path);

class FileMemory final : public Memory {
 public:
  /// Takes an open file. Errors: unsupported (not a regular file: a pipe or device would make us
  /// wait), failed.
  static Result<std::unique_ptr<FileMemory>> from(OpenedFile file);

  void read(std::span<ReadRequest> requests) override;

  /// The errno of the last reading that failed, where the file has more bytes; 0: none did.
  [[nodiscard]] int error() const { return error_.load(std::memory_order_relaxed); }

  /// As it was when it was opened.
  [[nodiscard]] const FileIdentity& identity() const { return identity_; }

  /// Whether it is another file by now than its identity records: it was written to, renamed, deleted.
  /// A copy stays what it is; of a file of another machine, what this one knows of it counts.
  [[nodiscard]] bool has_changed() const;

  /// The same file as it is now. Errors: failed.
  [[nodiscard]] Result<std::unique_ptr<FileMemory>> reopened() const;

  [[nodiscard]] int descriptor() const { return file_.get(); }

  /// Of the file itself, by which the kernel reaches it, where this is a copy; else the same.
  [[nodiscard]] int original() const { return file_.original ? file_.original.get() : file_.get(); }

 private:
  FileMemory(OpenedFile file, const FileIdentity& identity)
      : file_(std::move(file)), identity_(identity) {}

  OpenedFile file_;
  FileIdentity identity_;
  std::atomic<int> error_{0};  // several threads may read
};

// Files that change together or not at all.

/// The content of a file, made piece by piece: calls its argument with each, whose errors it returns.
using Content = std::function<Result<void>(const std::function<Result<void>(std::string_view)>&)>;

/// A file's new content, whole and on disk beside the file, not yet in its place. What is never put
/// in place is removed.
class StagedFile {
 public:
  enum class Time {
    now,
    kept,  ///< of a file that exists: Ninja makes again what is not of the time it recorded
  };

  enum class Access {
    usual,  ///< of a new file: all that the umask leaves
    owner,  ///< mode 0600
  };

  /// A file that exists must be one that the caller may write to. It keeps its owner and its mode,
  /// unless other users can write to the directory: there, only a file of the caller's does, as any
  /// other may have been put there to be given the content. A symbolic link is followed if it
  /// belongs to the caller or to root. Errors: not_found (no such directory), not_permitted,
  /// unsupported (not a regular file), failed.
  static Result<StagedFile> write(const std::string& path, std::span<const std::byte> bytes,
                                  Time time = Time::now, Access access = Access::usual);

  /// The same, never with more of the content in memory than a piece. Errors: those of `content`, too.
  static Result<StagedFile> write(const std::string& path, const Content& content,
                                  Time time = Time::now, Access access = Access::usual);

  StagedFile(StagedFile&& other) noexcept;
  StagedFile& operator=(StagedFile&&) = delete;
  ~StagedFile();

  /// The new file, open for writing: to lock it. Open as long as this is there.
  [[nodiscard]] int descriptor() const { return file_.get(); }

  /// Errors: as write().
  Result<void> put_in_place();

  /// Takes back what put_in_place() did, where the file system can exchange two files (overlayfs
  /// and network file systems may not).
  void put_back() noexcept;

 private:
  enum class State { staged, exchanged, created, replaced, gone };

  StagedFile(std::string path, FileDescriptor directory, std::string name, std::string temporary,
             FileDescriptor file)
      : path_(std::move(path)),
        directory_(std::move(directory)),
        name_(std::move(name)),
        temporary_(std::move(temporary)),
        file_(std::move(file)) {}

  std::string path_;          ///< as the caller calls it
  FileDescriptor directory_;  ///< of the two below
  std::string name_;          ///< of no link
  std::string temporary_;     ///< beside it
  FileDescriptor file_;       ///< what was written
  State state_ = State::staged;
};

/// Puts `bytes` into `path` through a temporary file beside it and a rename: a reader, a full disk or
/// a signal never leaves half a file. What holds these bytes already is left alone with its time of
/// change, so that make sees nothing to do; what is replaced keeps what StagedFile::write documents. True:
/// written. Errors: not_found (no such directory), not_permitted, failed.
Result<bool> write_whole(const std::string& path, std::string_view bytes,
                         StagedFile::Access access = StagedFile::Access::usual);

/// The same for a content that is made piece by piece, and is not compared with what the file holds. Errors:
/// those of `content`, too.
Result<void> write_pieces(const std::string& path, const Content& content,
                          StagedFile::Access access = StagedFile::Access::usual);

/// Opens a directory to work in. A link is followed as StagedFile::write does. Errors: not_found,
/// not_permitted, failed.
Result<FileDescriptor> open_directory(const std::string& path);

/// For messages: "foo.o cannot be written: No space left on device", with what the user can do about a path
/// that leads nowhere, or that the kernel refuses.
tl::unexpected<Error> file_error(const std::string& path, const char* what, int number);

}  // namespace vitrine::sandbox
