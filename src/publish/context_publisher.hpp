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
  /// What the application said.
  struct Content {
    std::vector<Attribute> resource;
    Options options;
    std::vector<std::string> thread_keys;  ///< position = key index: appended to, never reordered
  };

  Publisher();
  Status show(Content content);
  Status notice_fork();
  void become_child();

  static void before_fork();
  static void after_fork_in_parent();
  static void after_fork_in_child();

  std::mutex mutex_;
  Mapping mapping_;
  Content content_;          ///< on display, unless dropped
  std::string instance_id_;  ///< made up for this process; empty: none yet
  pid_t pid_;                ///< of the process that all of this describes
  bool dropped_ = false;
};

}  // namespace vitrine::context
