#include "publish/context_publisher.hpp"

#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "abi/thread_context.hpp"
#include "publish/at_fork.hpp"
#include "publish/context_encoder.hpp"
#include "publish/context_environment.hpp"

namespace vitrine::context {
namespace {

namespace record_abi = vitrine::abi::thread_context;

constexpr std::size_t thread_keys_max = 256;  // an index is one byte

}  // namespace

Publisher& Publisher::instance() {
  static Publisher* const publisher = new Publisher;
  return *publisher;
}

Publisher::Publisher() : pid_(getpid()) {
  publish::at_fork(before_fork, after_fork_in_parent, after_fork_in_child);
}

Status Publisher::publish(std::vector<Attribute> resource, Options options) {
  const std::lock_guard lock(mutex_);
  return show(make_content(std::move(resource), std::move(options)), thread_keys_);
}

Status Publisher::update(std::vector<Attribute> resource) {
  const std::lock_guard lock(mutex_);
  Content content = content_ ? *content_ : make_content({}, {});
  for (Attribute& attribute : resource) set_attribute(content.resource, std::move(attribute));
  return show(std::move(content), thread_keys_);
}

void Publisher::drop() {
  const std::lock_guard lock(mutex_);
  if (!notice_fork()) return;
  mapping_.remove();
  content_.reset();
  dropped_ = true;
}

std::optional<std::uint8_t> Publisher::key_index(std::string_view name) {
  const std::lock_guard lock(mutex_);
  const auto known = std::find(thread_keys_.begin(), thread_keys_.end(), name);
  const auto index = static_cast<std::uint8_t>(known - thread_keys_.begin());
  if (known != thread_keys_.end()) return index;
  if (thread_keys_.size() == thread_keys_max || name.empty() || name.size() > string_max ||
      !is_utf8(name))
    return std::nullopt;

  std::vector<std::string> keys = thread_keys_;
  keys.emplace_back(name);
  if (dropped_)
    thread_keys_ = std::move(keys);  // shown by the next publish()
  else if (!show(content_ ? *content_ : make_content({}, {}), std::move(keys)))
    return std::nullopt;
  return index;
}

Publisher::Content Publisher::make_content(std::vector<Attribute> resource, Options options) {
  Content content;
  if (options.environment) content.environment = resource_from_environment(content.discarded);
  if (options.environment && options.thread_schema.empty())
    options.thread_schema = thread_schema_from_environment(content.discarded);
  if (options.thread_schema.empty()) options.thread_schema = record_abi::schema_version_released;
  content.resource = std::move(resource);
  content.options = std::move(options);
  return content;
}

Status Publisher::show(Content content, std::vector<std::string> thread_keys) {
  if (Status refused = notice_fork(); !refused) return refused;
  if (instance_id_.empty()) instance_id_ = random_uuid();

  std::vector<Attribute> resource = default_resource(instance_id_);
  for (const Attribute& attribute : content.environment) set_attribute(resource, attribute);
  for (const Attribute& attribute : content.resource) set_attribute(resource, attribute);

  std::vector<Attribute> attributes;
  for (const Attribute& attribute : content.options.attributes)
    set_attribute(attributes, attribute);
  if (!thread_keys.empty()) {
    set_attribute(attributes, {record_abi::schema_version_key, content.options.thread_schema});
    set_attribute(attributes, {record_abi::key_map_key, thread_keys});
  }

  std::string payload;
  if (Status bad = encode(resource, attributes, payload); !bad) return bad;
  if (Status failed = mapping_.show(std::move(payload)); !failed) return failed;
  content_ = std::move(content);
  thread_keys_ = std::move(thread_keys);
  dropped_ = false;
  return {Errc::none, content_->discarded};
}

/// Forks that run no handlers (the bare system call) are seen here, at the next use.
Status Publisher::notice_fork() {
  if (pid_ == getpid()) return {};
  if (mapping_.mapped())
    return {Errc::shared_memory, "this process lives in the memory of process " +
                                     std::to_string(pid_) +
                                     " (vfork): what it published would be said of that one"};
  become_child();
  return {};
}

void Publisher::become_child() {
  mapping_.forget();
  instance_id_.clear();
  pid_ = getpid();
}

void Publisher::before_fork() {
  instance().mutex_.lock();
}

void Publisher::after_fork_in_parent() {
  instance().mutex_.unlock();
}

void Publisher::after_fork_in_child() {
  Publisher& publisher = instance();
  const bool shown = publisher.mapping_.present();
  publisher.become_child();
  if (shown &&
      publisher.content_->options.at_fork == AtFork::republish)  // a failure: nobody to tell
    static_cast<void>(publisher.show(*publisher.content_, publisher.thread_keys_));
  publisher.mutex_.unlock();
}

}  // namespace vitrine::context
