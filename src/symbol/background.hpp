// BackgroundSymboliser: names of code addresses, found in threads of its own.
//
// A command that writes profiles at intervals cannot wait for a file whose debug information takes half a
// minute to parse. Here a request returns at once, and the results are taken when they are wanted:
// those that are not there by then come with a later profile, as they are kept.
//
// Two threads work: one gives each file a short time, which suffices for nearly all of them. The
// files for which it does not suffice are named by their symbol tables there, and go to the other
// thread, where they wait for each other only.
//
// Beside everything that runs, for ever, debug information is a ration (Ration): a stack that is new may
// need a line of a file whose debug information takes 50 ms to open, again and again. Symbol tables name
// such addresses at once; their lines and inlined functions follow when there is time for them. Files wait for
// that in the order in which they were asked for, so a large one has its turn, too.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "base/file_descriptor.hpp"
#include "base/memory.hpp"
#include "sandbox/files.hpp"
#include "symbol/symboliser.hpp"

namespace vitrine::symbol {

/// CPU time for debug information.
struct Ration {
  std::chrono::nanoseconds at_first;    ///< until `first_time` is over
  std::chrono::nanoseconds most;        ///< of what is saved up later, and of debt
  std::chrono::nanoseconds first_time;  ///< from the beginning
};

/// What is left of one. At first a file is read while anything is left; later, only once as much is saved as it
/// is likely to take.
class RationLeft {
 public:
  using Clock = std::chrono::steady_clock;

  RationLeft(const Ration& ration, Clock::time_point began);

  void save(std::chrono::nanoseconds cpu_time);
  void spend(std::chrono::nanoseconds cpu_time);
  /// `now` does not go back.
  [[nodiscard]] bool suffices_for(std::chrono::nanoseconds likely, Clock::time_point now);

 private:
  Ration ration_;
  Clock::time_point first_ends_;
  bool is_first_ = true;
  std::chrono::nanoseconds left_;
};

struct BackgroundLimits {
  Limits quick;                  ///< of the thread for all files
  Limits slow;                   ///< of the one for files that need more
  std::optional<Ration> ration;  ///< of the first; none: as much as it takes
  /// So many times as long as the last request about a file took, the slow thread does not read it again.
  int slow_pause = 0;
};

/// For how long names are asked for.
enum class Duty : std::uint8_t {
  once,      ///< for a profile that ends: a file stays open in the worker, to be asked again soon
  always_on  ///< beside everything else that runs, for ever: memory is let go after each request
};

/// Within what a service manager allows this process and its children, where it sets a limit.
BackgroundLimits background_limits(Duty duty = Duty::once);

/// What distinguishes a file from others, also for its holders.
struct FileNumbers {
  std::string build_id;
  std::string content_hash;
};

class BackgroundSymboliser {
 public:
  using Clock = std::chrono::steady_clock;

  /// Files that wait for debug information, each with descriptors.
  static constexpr std::size_t max_put_off = 64;

  explicit BackgroundSymboliser(const BackgroundLimits& limits = background_limits());
  ~BackgroundSymboliser();
  BackgroundSymboliser(const BackgroundSymboliser&) = delete;
  BackgroundSymboliser& operator=(const BackgroundSymboliser&) = delete;

  /// Asks for the names of these addresses, and for the numbers of the file. `file.identity` must be
  /// set; the descriptors are copied. The first call starts the threads, which have the rights of
  /// the caller.
  void ask(const File& file, std::span<const Address> addresses);

  /// Starts the threads now, and their worker if it is to start early.
  void begin();

  /// More for debug information. What has waited for it comes first.
  void allow(std::chrono::nanoseconds cpu_time);

  struct TimeBudget {
    Clock::time_point until;
    const std::atomic<bool>* hurry = nullptr;  ///< once it is true, there are two seconds left
  };
  /// Returns when all that was asked is resolved, or the time is over.
  void wait(const TimeBudget& budget);

  struct Known {
    Resolved resolved;           ///< one an address; without frames where there is no response yet
    std::size_t unresolved = 0;  ///< addresses
  };
  [[nodiscard]] Known names(const FileKey& file, std::span<const Address> addresses);

  /// Empty, as long as they are not known.
  [[nodiscard]] FileNumbers numbers(const FileKey& file);

 private:
  struct Request {
    std::string path;
    FileDescriptor descriptor;
    std::vector<FileDescriptor> roots;
    std::set<Address> addresses;
    std::set<Address> rationed;  ///< that have names of symbol tables
    Clock::time_point not_before{};
    std::uint64_t number = 0;  ///< ascending
  };
  /// A thread and what it has to do.
  struct Lane {
    std::map<FileKey, Request> waiting;
    bool busy = false;

    /// The one that has waited longest of those whose time has come; the end: none.
    [[nodiscard]] std::map<FileKey, Request>::iterator due();
    std::thread thread;
  };
  struct KnownFile {
    std::unordered_map<Address, Frames> frames;
    std::string problem;
    FileNumbers numbers;
    bool numbered = false;
    bool slow_done = false;  ///< the slow thread has, or has found that it cannot either:
    bool given_up = false;
    Clock::time_point slow_after{};
    std::optional<std::chrono::nanoseconds> details_took;  ///< the longest of them
    std::uint64_t used = 0;
  };

  void work(Lane& lane, const Limits& limits);
  bool number_one(Lane& lane, Symboliser& symboliser, std::unique_lock<std::mutex>& lock);
  void name_one(Lane& lane, Symboliser& symboliser, std::unique_lock<std::mutex>& lock);
  void take(const FileKey& key, std::span<const Address> addresses, const Resolved& resolved);
  void put_off(const FileKey& key, Request request);
  void take_up();
  bool may_read_details(const FileKey& key);
  /// With the lock. False: the system gives none.
  bool start_threads();
  static std::map<FileKey, Request>::iterator oldest(std::map<FileKey, Request>& waiting);
  static void add(std::map<FileKey, Request>& waiting, const FileKey& key, Request request);
  void make_room();

  BackgroundLimits limits_;
  std::atomic<bool> stop_{false};
  std::mutex mutex_;
  std::condition_variable asked_, resolved_;
  Lane quick_, slow_;
  std::map<FileKey, Request> put_off_;  ///< until there is time for their debug information
  std::optional<RationLeft> ration_;    ///< of it
  std::map<FileKey, KnownFile> files_;
  std::size_t frames_ = 0;  ///< of files_, together
  std::uint64_t requests_ = 0;
};

}  // namespace vitrine::symbol
