// FileOpener: a child process that opens files whose server may never respond.
//
// A file on FUSE or NFS is served by a program or a machine that may stop. A process that looks up,
// opens, examines or closes such a file then waits for ever, and not even SIGKILL ends that. So a
// process does it that can be left behind; what it does not return in time counts as unreadable.
// (Memory of targets that does not come: target/memory_reader.hpp.)
//
// A descriptor of a FUSE file is of no use either, as closing it asks the server: of those we get a
// copy in memory. One of NFS and its like can be read, by processes that can be killed.
//
// It keeps no capabilities but those by which files of processes are opened.
//
// It also forks workers, where it is started for that, and nothing else: a child shares the memory of the process that
// forks it until one of both writes to it, and then each has a page of its own. The opener never has much, and hardly
// writes; a process that has grown since makes each of its children as large as it was itself.
//
// What is assumed: file systems on disks of this machine and in its memory respond; so does
// overlayfs, whose layers are taken to be on those. Of a mount that is not in the list of vitrine's
// namespace, such as that of a container, the process finds out what it is.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/result.hpp"
#include "sandbox/channel.hpp"
#include "sandbox/child.hpp"
#include "sandbox/files.hpp"

namespace vitrine::sandbox {

/// How to name a file to open.
enum class Named : std::uint32_t {
  handle,  ///< by a descriptor of it (O_PATH)
  at,      ///< by a path below a directory
  below,   ///< the same, as a process with that root would take it
  owned,   ///< the same, where any user may have made it: no link, and of one owner
  link,    ///< by a link below /proc/PID, which takes locks of that process (target/proc_file.hpp)
  links,   ///< the same for several, with a NUL behind each: a response comes for each
  unopened,  ///< as `at`; returns a descriptor of it (O_PATH), with its attributes known to this machine
};

struct OpenRequest {
  Named named{};
  int descriptor = -1;  ///< of the file or the directory; AT_FDCWD
  std::string path;     ///< for messages, if the descriptor is the file's
  uid_t owner = 0;
};

/// Opens it without more ado: this process waits for whatever serves it.
Result<OpenedFile> open_at_once(const OpenRequest& request);

class FileOpener {
 public:
  using Clock = std::chrono::steady_clock;

  /// One for all threads, which wait for each other. The process is the child of the thread that asked
  /// first, and ends with that; then another one is started.
  static FileOpener& of_this_process();

  /// Starts it now, where it has not been: it forks workers from now on, which have as little
  /// memory as this process has now. They would end with the thread that starts it: does nothing in another thread
  /// than the first of this process. Errors: failed.
  Result<void> start();

  /// Ends the process; the next one forks no workers. For the thread that started it.
  void end();
  /// The same, from any thread, but where another thread is using it at this time.
  void end_if_unused();

  /// A worker (serve_alone()) that the opener has forked, as a child of this process. Errors: failed (also where it
  /// was not start()ed, or another thread than the first has had to begin it since, or it is busy).
  Result<Child> fork_worker(std::span<const std::byte> settings, int socket);

  FileOpener() = default;
  FileOpener(const FileOpener&) = delete;
  FileOpener& operator=(const FileOpener&) = delete;
  /// Errors: as open_regular_at; limit (its file system does not respond, or it is too large to be
  /// copied: the message names both and the file).
  Result<OpenedFile> open(const OpenRequest& request);

  /// The same for links (Named::link) below a directory, in one exchange for all whose file systems are assumed to
  /// respond.
  std::vector<Result<OpenedFile>> open_links(int directory, std::span<const std::string> paths);

  /// The process; -1: there is none now.
  [[nodiscard]] pid_t pid();

 private:
  /// A mount, and of a path whose mount is not known the root and the directory.
  using Place = std::pair<PlaceIdentity, std::string>;

  Result<void> begin();
  [[nodiscard]] bool is_there() const;
  Result<void> require_process();
  Result<OpenedFile> ask(const OpenRequest& request, Place& place);
  Result<void> ask_links(int directory, std::span<const std::string> paths,
                         std::vector<std::optional<Result<OpenedFile>>>& found);
  Result<Message> next_message(Clock::time_point end);

  std::mutex mutex_;  // of all below
  std::optional<Channel> channel_;
  Child child_;
  bool forks_ = false;
  bool broken_ = false;                        ///< it is stuck, or has ended
  std::map<Place, Clock::time_point> silent_;  ///< since when
};

}  // namespace vitrine::sandbox
