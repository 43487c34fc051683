#include "publish/context_publisher.hpp"

#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "abi/thread_context.hpp"
#include "publish/context_encoder.hpp"
#include "publish/context_environment.hpp"

namespace vitrine::context {
namespace {

namespace abi = vitrine::abi::thread_context;

constexpr std::size_t thread_keys_max = 256;  // an index is one byte

}  // namespace

Publisher& Publisher::instance() {
  static Publisher* const publisher = new Publisher;
  return *publisher;
}

Publisher::Publisher() : pid_(getpid()) {
  pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child);
}

Status Publisher::publish(std::vector<Attribute> resource, Options options) {
  const std::lock_guard lock(mutex_);
  return show({std::move(resource), std::move(options), content_.thread_keys});
}

Status Publisher::update(std::vector<Attribute> resource) {
  const std::lock_guard lock(mutex_);
  Content content = content_;
  for (Attribute& attribute : resource) set_attribute(content.resource, std::move(attribute));
  return show(std::move(content));
}

void Publisher::drop() {
  const std::lock_guard lock(mutex_);
  if (!notice_fork()) return;
  mapping_.remove();
  content_ = {{}, {}, std::move(content_.thread_keys)};
  dropped_ = true;
}

std::optional<std::uint8_t> Publisher::key_index(std::string_view name) {
  const std::lock_guard lock(mutex_);
  const auto& keys = content_.thread_keys;
  const auto known = std::find(keys.begin(), keys.end(), name);
  if (known != keys.end()) return static_cast<std::uint8_t>(known - keys.begin());
  if (keys.size() == thread_keys_max || name.empty() || name.size() > string_max || !is_utf8(name))
    return std::nullopt;

  const auto index = static_cast<std::uint8_t>(keys.size());
  if (dropped_) {
    content_.thread_keys.emplace_back(name);  // shown by the next publish()
    return index;
  }
  Content content = content_;
  content.thread_keys.emplace_back(name);
  if (!show(std::move(content))) return std::nullopt;
  return index;
}

Status Publisher::show(Content content) {
  if (Status refused = notice_fork(); !refused) return refused;
  if (instance_id_.empty()) instance_id_ = random_uuid();

  std::string discarded;
  std::vector<Attribute> resource = default_resource(instance_id_);
  if (content.options.environment)
    for (Attribute& attribute : resource_from_environment(discarded))
      set_attribute(resource, std::move(attribute));
  for (const Attribute& attribute : content.resource) set_attribute(resource, attribute);

  std::vector<Attribute> attributes;
  for (const Attribute& attribute : content.options.attributes)
    set_attribute(attributes, attribute);
  if (!content.thread_keys.empty()) {
    set_attribute(attributes, {abi::schema_version_key, abi::schema_version_final});
    set_attribute(attributes, {abi::key_map_key, content.thread_keys});
  }

  std::string payload;
  if (Status bad = encode(resource, attributes, payload); !bad) return bad;
  if (Status failed = mapping_.show(std::move(payload)); !failed) return failed;
  content_ = std::move(content);
  dropped_ = false;
  return {Errc::none, std::move(discarded)};
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
  const bool published = publisher.mapping_.present();
  publisher.become_child();
  if (published && publisher.content_.options.at_fork == AtFork::republish)
    static_cast<void>(publisher.show(publisher.content_));  // nobody to tell: the next call will
  publisher.mutex_.unlock();
}

}  // namespace vitrine::context
