// The one publisher of a process: what it publishes, in which process, and since when.
//
// Whatever a call needs (memory, a mapping) it gets before it changes anything, and it works on
// copies: a call that fails leaves the publisher, and what is published, as they were.
#pragma once

#include <pthread.h>
#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "publish/context/encoder.hpp"
#include "publish/context/environment.hpp"
#include "publish/context/mapping.hpp"
#include "vitrine/context.hpp"

namespace vitrine::publish {

// The key map of the OpenTelemetry thread record: attribute names, by their one-byte index.

/// The index of `name` (1 to 4,096 bytes of UTF-8) in the key map, assigned at its first use and
/// then the same for the life of the process. Readers know the name before this returns: a new one
/// is published with the process context, which comes into being with it if it must (its defaults
/// are those of context::publish()). A process that dropped its context stays without: its next
/// publish() publishes the names that are new.
/// nullopt: 256 names are in use, or this one cannot be published. Then `later` (if not null) receives
/// whether another attempt may succeed: memory ran out, or the kernel refused something.
///
/// Takes a lock, and allocates for a new name: call it when a key is interned, not in a signal
/// handler.
std::optional<std::uint8_t> otel_key_index(std::string_view name, bool* later = nullptr) noexcept;

/// The program has the slot of thread records, which is not in an archive's part for contexts: each context that
/// is published from now on declares it, also while the key map is empty.
void declare_records() noexcept;

/// Has `retry` called whenever the application published its context. (The context does not depend
/// on the labels.) The caller of `retry_keys` holds no lock.
void retry_keys_by(void (*retry)() noexcept) noexcept;
void retry_keys() noexcept;

}  // namespace vitrine::publish

namespace vitrine::context {

class Publisher {
 public:
  constexpr Publisher() noexcept = default;
  Publisher(const Publisher&) = delete;
  Publisher& operator=(const Publisher&) = delete;

  /// Never destroyed: threads may publish while the process exits.
  static Publisher& instance() noexcept;

  Status publish(const std::vector<Attribute>& resource, const Options& options) noexcept;
  Status update(const std::vector<Attribute>& resource) noexcept;
  void drop() noexcept;

  struct KeyIndex {
    enum Outcome : std::uint8_t { assigned, refused, not_now };
    Outcome outcome;
    std::uint8_t index;
  };
  /// The index of `name` in the thread records' key map, which is published with it first if it is
  /// new. refused: the map is full, or the name cannot be published. not_now: memory ran out or the
  /// kernel refused something; a later call may succeed.
  KeyIndex key_index(std::string_view name) noexcept;

  /// Registers what runs at fork. False: no memory.
  bool handle_forks() noexcept;

 private:
  /// The content for this process without what defaults and the key map add.
  struct Content {
    AttributeList resource;
    AttributeList attributes;
    /// Read once for each publish(): later changes of the environment are not seen,
    /// and reading it meanwhile would not be safe.
    AttributeList environment;
    Buffer thread_schema;
    const char* discarded = "";  ///< what was wrong with a variable that is left out
    AtFork at_fork = AtFork::republish;
    Age age = Age::now;
    bool complete = true;  ///< false: no memory to read the environment

    [[nodiscard]] bool ok() const noexcept;
  };

  /// Null: none, and the options that there are by default.
  static Content make_content(const std::vector<Attribute>* resource,
                              const Options* options) noexcept;
  static Content content_of_keys() noexcept;
  void add_attributes(AttributeList& attributes, const Content& content) const noexcept;
  Status show(const Content& content) noexcept;
  Status show_and_keep(Content content) noexcept;
  Status show_first(Content content) noexcept;
  bool has_other() noexcept;
  Status notice_fork() noexcept;
  void become_child() noexcept;

  static void before_fork() noexcept;
  static void after_fork_in_parent() noexcept;
  static void after_fork_in_child() noexcept;

  pthread_mutex_t mutex_ = PTHREAD_MUTEX_INITIALIZER;
  Mapping mapping_;
  Content content_;
  TextList thread_keys_;      ///< position = key index: appended to, never reordered
  InstanceId instance_id_{};  ///< made up for this process
  /// A context of another library that was found, as the complement of its address: readers take the module whose
  /// variables have the address for the one that publishes it. 0: none.
  std::uintptr_t other_ = 0;
  pid_t pid_ = 0;             ///< of the process that all of this describes; 0: not used yet
  bool has_content_ = false;  ///< false: nothing published yet, or dropped
  bool dropped_ = false;
  bool handles_forks_ = false;
};

}  // namespace vitrine::context
