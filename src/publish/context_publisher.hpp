// The one publisher of a process: what is to be on display, in which process, and since when.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "publish/context_mapping.hpp"
#include "vitrine/context.hpp"

namespace vitrine::context {

class Publisher {
 public:
  /// Never destroyed: threads may publish while the process exits.
  static Publisher& instance();

  Status publish(std::vector<Attribute> resource, Options options);
  Status update(std::vector<Attribute> resource);
  void drop();

  /// The index of `name` in the thread records' key map, which is published with it first if it is
  /// new. nullopt: the map is full, or the name cannot be published.
  std::optional<std::uint8_t> key_index(std::string_view name);

 private:
  /// What there is to say of this process, but for what defaults and the key map add.
  struct Content {
    std::vector<Attribute> resource;
    Options options;
    /// Read once for each publish(): whoever changes the environment later changes it without us,
    /// and reading it meanwhile would not be safe.
    std::vector<Attribute> environment;
    std::string discarded;  ///< what was wrong with a variable that is left out
  };

  Publisher();
  static Content make_content(std::vector<Attribute> resource, Options options);
  Status show(Content content, std::vector<std::string> thread_keys);
  Status notice_fork();
  void become_child();

  static void before_fork();
  static void after_fork_in_parent();
  static void after_fork_in_child();

  std::mutex mutex_;
  Mapping mapping_;
  std::optional<Content> content_;        ///< none: nothing published yet, or dropped
  std::vector<std::string> thread_keys_;  ///< position = key index: appended to, never reordered
  std::string instance_id_;               ///< made up for this process; empty: none yet
  pid_t pid_;                             ///< of the process that all of this describes
  bool dropped_ = false;
};

}  // namespace vitrine::context
