#include "publish/context/publisher.hpp"

#include <unistd.h>

#include <atomic>
#include <utility>

#include "abi/thread_context.hpp"
#include "publish/base/at_fork.hpp"
#include "publish/base/bytes.hpp"
#include "publish/base/local_atomic.hpp"
#include "publish/context/environment.hpp"
#include "vitrine/context.hpp"

namespace vitrine::publish {
namespace {

std::atomic<void (*)() noexcept> to_retry{nullptr};
std::atomic<bool> has_records{false};

}  // namespace

std::optional<std::uint8_t> otel_key_index(std::string_view name, bool* later) noexcept {
  using KeyIndex = context::Publisher::KeyIndex;
  const KeyIndex got = context::Publisher::instance().key_index(name);
  if (later != nullptr) *later = got.outcome == KeyIndex::not_now;
  if (got.outcome != KeyIndex::assigned) return std::nullopt;
  return got.index;
}

void declare_records() noexcept {
  has_records.store(true, std::memory_order_relaxed);
}

void retry_keys_by(void (*retry)() noexcept) noexcept {
  to_retry.store(retry, std::memory_order_release);
}

void retry_keys() noexcept {
  if (const auto retry = to_retry.load(std::memory_order_acquire)) retry();
}

}  // namespace vitrine::publish

namespace vitrine::context {
namespace {

namespace record_abi = vitrine::abi::thread_context;
using publish::Lock;

constexpr std::size_t thread_keys_max = 256;  // an index is one byte

/// Constructed by the compiler, and never destroyed.
union TheOne {
  Publisher publisher;
  constexpr TheOne() noexcept : publisher() {}
  ~TheOne() {}
};
TheOne the_one;

/// Before any thread can fork: the handlers must be there when another thread holds the lock.
__attribute__((constructor(101))) void handle_forks_at_load() {
  Publisher::instance().handle_forks();
}

}  // namespace

Publisher& Publisher::instance() noexcept {
  return the_one.publisher;
}

bool Publisher::handle_forks() noexcept {
  if (!handles_forks_)
    handles_forks_ = publish::at_fork(before_fork, after_fork_in_parent, after_fork_in_child) == 0;
  return handles_forks_;
}

Status Publisher::publish(const std::vector<Attribute>& resource, const Options& options) noexcept {
  const Lock lock(mutex_);
  return show_first(make_content(&resource, &options));
}

Status Publisher::update(const std::vector<Attribute>& resource) noexcept {
  const Lock lock(mutex_);
  Content next;
  if (has_content_) {
    next.resource.set_all(content_.resource);
    next.attributes.set_all(content_.attributes);
    next.environment.set_all(content_.environment);
    next.thread_schema.append(content_.thread_schema.view());
    next.discarded = content_.discarded;
    next.at_fork = content_.at_fork;
  } else {
    next = make_content(nullptr, nullptr);
  }
  for (const Attribute& attribute : resource) next.resource.set(attribute);
  return show_first(std::move(next));
}

void Publisher::drop() noexcept {
  const Lock lock(mutex_);
  if (!notice_fork()) return;
  mapping_.remove();
  content_ = {};
  has_content_ = false;
  dropped_ = true;
}

Publisher::KeyIndex Publisher::key_index(std::string_view name) noexcept {
  const Lock lock(mutex_);
  const std::size_t index = thread_keys_.find(name);
  const KeyIndex assigned{KeyIndex::assigned, static_cast<std::uint8_t>(index)};
  if (index != thread_keys_.size()) return assigned;
  if (index == thread_keys_max || name.empty() || name.size() > string_max ||
      !publish::is_utf8(name))
    return {KeyIndex::refused, 0};

  // A process has one context. Only publish() adds one to that of another library.
  if (!has_content_ && !dropped_ && has_other()) return {KeyIndex::not_now, 0};
  const std::size_t before = thread_keys_.values().size();
  thread_keys_.add(name);
  Errc why = Errc::none;
  if (!thread_keys_.ok())
    why = Errc::out_of_memory;
  else if (!dropped_)  // else the next publish() shows it
    why = (has_content_ ? show(content_) : show_and_keep(content_of_keys())).code();
  if (why == Errc::none) return assigned;
  thread_keys_.remove_last(before);
  const bool for_good = why == Errc::too_large || why == Errc::invalid_attribute;
  return {for_good ? KeyIndex::refused : KeyIndex::not_now, 0};
}

bool Publisher::Content::ok() const noexcept {
  return complete && resource.ok() && attributes.ok() && environment.ok() && thread_schema.ok();
}

Publisher::Content Publisher::make_content(const std::vector<Attribute>* resource,
                                           const Options* options) noexcept {
  Content content;
  std::string_view schema;
  if (options != nullptr) {
    schema = options->thread_schema;
    content.at_fork = options->at_fork;
    for (const Attribute& attribute : options->attributes) content.attributes.set(attribute);
  }
  if (options == nullptr || options->environment) {
    content.complete = resource_from_environment(content.environment, content.discarded);
    if (schema.empty()) schema = thread_schema_from_environment(content.discarded);
  }
  if (schema.empty()) schema = record_abi::schema_version_released;
  content.thread_schema.append(schema);
  if (resource != nullptr) {
    for (const Attribute& attribute : *resource) content.resource.set(attribute);
  }
  return content;
}

/// What there is to publish where keys alone need a context.
Publisher::Content Publisher::content_of_keys() noexcept {
  Content content = make_content(nullptr, nullptr);
  content.age = Age::yielding;
  return content;
}

/// A record of a trace has no key: the slot is declared before there is one. An application that describes
/// records of its own is heard until then.
void Publisher::add_attributes(AttributeList& attributes, const Content& content) const noexcept {
  const auto declare_records = [&] {
    attributes.set(record_abi::schema_version_key, content.thread_schema.view());
    attributes.set(record_abi::key_map_key, thread_keys_);
  };
  const bool has_keys = thread_keys_.size() != 0;
  if (!has_keys && publish::has_records.load(std::memory_order_relaxed)) declare_records();
  attributes.set_all(content.attributes);
  if (has_keys) declare_records();
}

Status Publisher::show(const Content& content) noexcept {
  if (!content.ok() || !handle_forks()) return no_memory();
  if (const Status refused = notice_fork(); !refused) return refused;
  if (!instance_id_.known) instance_id_ = random_uuid();

  AttributeList resource;
  set_defaults(resource, instance_id_);
  resource.set_all(content.environment);
  resource.set_all(content.resource);

  AttributeList attributes;
  add_attributes(attributes, content);
  Buffer payload;
  if (const Status bad = encode(resource, attributes, payload); !bad) return bad;
  if (const Status failed = mapping_.show(std::move(payload), content.age); !failed) return failed;
  dropped_ = false;
  return {Errc::none, content.discarded};
}

Status Publisher::show_and_keep(Content content) noexcept {
  const Status shown = show(content);
  if (shown) {
    content_ = std::move(content);
    has_content_ = true;
  }
  return shown;
}

/// What the application asked for. A context beside another one is published, and reported.
Status Publisher::show_first(Content content) noexcept {
  const bool is_new = !mapping_.present();
  Status shown = show_and_keep(std::move(content));
  if (shown && is_new && shown.message().empty() && has_other())
    return {Errc::none,
            "another library of this process, or another copy of this one, publishes a process "
            "context, too: "
            "readers use one of them; link one copy of the library into the process"};
  return shown;
}

/// Whether another library of the process, or another copy of this one, publishes a context.
bool Publisher::has_other() noexcept {
  if (other_ != 0 && is_context(~other_)) return true;
  const std::uintptr_t found = find_other_context(mapping_.address());
  other_ = found != 0 ? ~found : 0;
  return found != 0;
}

/// Forks that run no handlers (the bare system call) are seen here, at the next use. The mapping
/// shows them as well as the process id does: a child that begins a namespace may have the same one.
Status Publisher::notice_fork() noexcept {
  const bool same_id = pid_ == getpid();
  if (same_id && !mapping_.present()) return {};
  const bool mapped = mapping_.mapped();
  if (same_id && mapped) return {};
  if (mapped)
    return failure(Errc::shared_memory, {"this process shares the memory of process ",
                                         Decimal(static_cast<std::uint64_t>(pid_)).view(),
                                         " (vfork): its context would replace that of the parent"});
  become_child();
  return {};
}

void Publisher::become_child() noexcept {
  mapping_.forget();
  instance_id_ = {};
  pid_ = getpid();
}

void Publisher::before_fork() noexcept {
  pthread_mutex_lock(&instance().mutex_);
}

void Publisher::after_fork_in_parent() noexcept {
  pthread_mutex_unlock(&instance().mutex_);
}

void Publisher::after_fork_in_child() noexcept {
  Publisher& publisher = instance();
  const bool shown = publisher.mapping_.present();
  publisher.become_child();
  if (shown && publisher.content_.at_fork == AtFork::republish)
    static_cast<void>(publisher.show(publisher.content_));  // a failure: the next use tries again
  pthread_mutex_unlock(&publisher.mutex_);
}

inline namespace VITRINE_DETAIL_CONTEXT_NAMESPACE {
namespace {

/// The context is published: so may be keys that could not be before.
Status then_keys(const Status& status) noexcept {
  if (status) publish::retry_keys();
  return status;
}

}  // namespace

// NOLINTBEGIN(performance-unnecessary-value-param): values, by the public header
Status publish(std::vector<Attribute> resource, Options options) noexcept {
  return then_keys(Publisher::instance().publish(resource, options));
}

Status update(std::vector<Attribute> resource) noexcept {
  return then_keys(Publisher::instance().update(resource));
}
// NOLINTEND(performance-unnecessary-value-param)

void drop() noexcept {
  Publisher::instance().drop();
}

}  // namespace VITRINE_DETAIL_CONTEXT_NAMESPACE
}  // namespace vitrine::context
