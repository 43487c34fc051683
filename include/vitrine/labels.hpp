// vitrine/labels.hpp: publishes labels of the running thread for profilers and debuggers.
//
//   #include <vitrine/labels.hpp>
//   namespace labels = vitrine::labels;
//
//   static const labels::Key tenant{"tenant"}, route{"route"};       // interned once
//
//   void serve(const Request& request) {
//     labels::Scope scope{{tenant, request.tenant}, {route, request.route}};   // set together
//     pool.post(labels::bind([] { work(); }));                       // the task carries the set
//   }                                                                // restores the previous set
//
// C++17 and later; never throws and needs no exceptions. A set in force is never edited: a scope
// builds a new immutable set in the thread's own arena and puts it in force by one store, so an
// observer sees the old set or the new one. After a thread's first use no function calls malloc
// or takes a lock, except the constructor of a Key with a new name. Scopes and captures may be used
// in signal handlers; construct keys outside of them. Such a handler must return to what it interrupted:
// if it leaves a function of the library by siglongjmp, the thread may use no memory again, and grow.
//
// Fork: the child starts without labels, in C++ and in C. The labels of the thread that forks are removed in
// the child, because it does not continue that thread's request; those of the parent stay. Scopes and
// attachments that are open across the fork end in the child without effect. To keep the labels there,
// capture them before, and attach the set in the child: sets stay valid, and all functions work. A child
// that shares its parent's memory (vfork, posix_spawn) shows the labels of its parent until it executes
// a program. So does a child of the bare system call, which runs no fork handlers, until it changes them.
//
// Errors: a scope that could not be built has ok() == false, and the previous labels stay in force.
#pragma once

#include <vitrine/export.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <iterator>
#include <optional>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vitrine/detail/memo.hpp>
#include <vitrine/detail/slot.hpp>
#include <vitrine/status.hpp>

#pragma push_macro("Status")  // of <X11/Xlib.h>
#undef Status

namespace vitrine::labels {
inline namespace VITRINE_DETAIL_ABI_NAMESPACE {

namespace detail {
struct KeyData;  // an interned key
struct Name {    // custom_labels_string_t
  std::size_t size;
  const char* data;
};
struct Entry {  // custom_labels_label_t
  Name key;
  Name value;
};
struct Entries {
  const Entry* data;
  std::size_t size;
};
/// The labels in force: complete during its lifetime, even if a thread changes a set of the C
/// interface.
class EntriesInForce {
 public:
  VITRINE_EXPORT EntriesInForce() noexcept;
  EntriesInForce(const EntriesInForce&) = delete;
  EntriesInForce& operator=(const EntriesInForce&) = delete;
  VITRINE_EXPORT ~EntriesInForce();
  [[nodiscard]] const Entries& all() const noexcept { return all_; }

 private:
  Entries all_;
  alignas(8) unsigned char room_[24];
};
}  // namespace detail

/// Longest value, in bytes. A longer one is refused, not cut.
inline constexpr std::size_t max_value_bytes = 64 * 1024;
/// Longest key, in bytes: the default limit of observers.
inline constexpr std::size_t max_key_bytes = 1024;
/// Maximum number of labels of one set, including inherited ones.
inline constexpr std::size_t max_labels = 4096;

/// Why a scope or a set could not be built: bad_key, value_too_large, set_too_large, out_of_memory or
/// thread_exiting.
using vitrine::Errc;
using vitrine::Status;

/// A label's name: any bytes. The constructor interns it (may lock and allocate; the name is kept
/// for the life of the process); afterwards a key is as cheap to copy and to compare as a pointer.
/// Construct each key once.
///
/// Interning publishes the name in the key map of the OpenTelemetry thread records. If that fails
/// (no memory, a system call refused), the key is ok() and its labels are in label sets, but not in
/// records. The next Key constructor, context::publish() or update() tries again.
class Key {
 public:
  VITRINE_EXPORT explicit Key(std::string_view name) noexcept;
  explicit Key(std::nullptr_t) = delete;

  /// False: longer than max_key_bytes, or more than 65,000 different keys in this process, or no
  /// memory.
  [[nodiscard]] bool ok() const noexcept { return data_ != nullptr; }
  [[nodiscard]] VITRINE_EXPORT std::string_view name() const noexcept;

  friend bool operator==(Key a, Key b) noexcept { return a.data_ == b.data_; }
  friend bool operator!=(Key a, Key b) noexcept { return a.data_ != b.data_; }

 private:
  friend struct Access;
  friend class Scope;
  const detail::KeyData* data_;
};

/// A label to be set. The value is any bytes, copied when the scope or set is built. The attributes
/// of an OpenTelemetry thread record are text: a label whose key or value is not valid UTF-8 is only
/// in the label set.
struct Label {
  Label(Key label_key, std::string_view label_value) noexcept
      : key(label_key), value(label_value) {}
  Label(Key, std::nullptr_t) = delete;

  Key key;
  std::string_view value;
};

/// The 16-byte ID of a trace, as in W3C Trace Context. All zero: no trace.
struct TraceId {
  std::array<std::uint8_t, 16> bytes{};
};

/// The 8-byte ID of a span.
struct SpanId {
  std::array<std::uint8_t, 8> bytes{};
};

/// The trace that a thread is serving. Published as the IDs of the OpenTelemetry thread record and
/// as the labels `trace_id` (32 hex digits) and `span_id` (16). Readers of records ask the process context
/// for their layout, which a Key publishes: a program that has no Key calls context::publish().
struct Trace {
  Trace() = default;
  Trace(TraceId trace, SpanId span, std::uint8_t trace_flags = 0) noexcept
      : trace_id(trace), span_id(span), flags(trace_flags) {}

  TraceId trace_id;
  SpanId span_id;
  std::uint8_t flags = 0;
};

/// A label of a set, as it is read.
struct LabelView {
  std::string_view key;
  std::string_view value;
};

/// An immutable label set, or the empty one. A handle: copies share the set, which lives until the
/// last copy is destroyed. Safe to pass to another thread.
///
///   for (const auto& [key, value] : labels::capture()) …
class Set {
 public:
  class Iterator;

  /// The empty set.
  Set() noexcept = default;

  /// A set of exactly these labels, e.g. one prepared at start-up. Of two labels with one key the
  /// first counts.
  [[nodiscard]] static Set of(std::initializer_list<Label> labels) noexcept {
    return make(labels.begin(), labels.size(), nullptr);
  }
  [[nodiscard]] static Set of(const Trace& trace,
                              std::initializer_list<Label> labels = {}) noexcept {
    return make(labels.begin(), labels.size(), &trace);
  }

  VITRINE_EXPORT Set(const Set& other) noexcept;
  Set(Set&& other) noexcept
      : block_(std::exchange(other.block_, nullptr)), status_(other.status_) {}
  Set& operator=(Set other) noexcept {
    std::swap(block_, other.block_);
    status_ = other.status_;
    return *this;
  }
  ~Set() {
    if (block_ != nullptr) release();
  }

  /// This set with labels on top: of a key that is in both, the new value counts. The trace is that
  /// of this set, or `trace`. Not ok(): this set is not, or the new one could not be made.
  [[nodiscard]] Set with(Key key, std::string_view value) const noexcept {
    const Label label(key, value);
    return derive(&label, 1, nullptr);
  }
  Set with(Key, std::nullptr_t) const = delete;
  [[nodiscard]] Set with(std::initializer_list<Label> labels) const noexcept {
    return derive(labels.begin(), labels.size(), nullptr);
  }
  [[nodiscard]] Set with(const Trace& trace,
                         std::initializer_list<Label> labels = {}) const noexcept {
    return derive(labels.begin(), labels.size(), &trace);
  }

  [[nodiscard]] bool ok() const noexcept { return status_ == Errc::ok; }
  [[nodiscard]] Status status() const noexcept { return status_; }
  [[nodiscard]] bool empty() const noexcept { return size() == 0; }
  /// Over the labels, as LabelView, in no order that is promised; each key once. What the views refer
  /// to is valid while this handle, or a copy of it, lives.
  [[nodiscard]] Iterator begin() const noexcept;
  [[nodiscard]] Iterator end() const noexcept;
  [[nodiscard]] VITRINE_EXPORT std::size_t size() const noexcept;
  /// The value of a key; valid while this handle, or a copy of it, lives.
  [[nodiscard]] VITRINE_EXPORT std::optional<std::string_view> get(Key key) const noexcept;
  /// The words that a hop stores to put it in force.
  [[nodiscard]] VITRINE_EXPORT detail::Words words() const noexcept;

 private:
  friend struct Access;
  friend class Attach;
  VITRINE_EXPORT static Set make(const Label* labels, std::size_t count,
                                 const Trace* trace) noexcept;
  [[nodiscard]] VITRINE_EXPORT Set derive(const Label* labels, std::size_t count,
                                          const Trace* trace) const noexcept;
  [[nodiscard]] VITRINE_EXPORT detail::Entries entries() const noexcept;
  VITRINE_EXPORT void release() noexcept;

  detail::Block* block_ = nullptr;
  Errc status_ = Errc::ok;
};

class Set::Iterator {
 public:
  using iterator_category = std::input_iterator_tag;
  using value_type = LabelView;
  using difference_type = std::ptrdiff_t;
  using pointer = const LabelView*;
  using reference = LabelView;

  Iterator() noexcept = default;
  [[nodiscard]] LabelView operator*() const noexcept {
    return {{at_->key.data, at_->key.size}, {at_->value.data, at_->value.size}};
  }
  Iterator& operator++() noexcept {
    ++at_;
    return *this;
  }
  Iterator operator++(int) noexcept { return Iterator(at_++); }
  friend bool operator==(Iterator a, Iterator b) noexcept { return a.at_ == b.at_; }
  friend bool operator!=(Iterator a, Iterator b) noexcept { return a.at_ != b.at_; }

 private:
  friend class Set;
  explicit Iterator(const detail::Entry* at) noexcept : at_(at) {}

  const detail::Entry* at_ = nullptr;
};

inline Set::Iterator Set::begin() const noexcept {
  return Iterator(entries().data);
}
inline Set::Iterator Set::end() const noexcept {
  const detail::Entries all = entries();
  return Iterator(all.data + all.size);
}

/// The set in force on this thread, as a handle that can be moved to another thread. Not ok() only
/// if memory ran out or the thread is exiting.
[[nodiscard]] VITRINE_EXPORT Set capture() noexcept;

/// During its lifetime, its labels are in force on this thread in addition to the previous ones; an
/// inner scope's value hides an outer one's. Entering the same scope repeatedly costs a few ns: the
/// previous set is reused while it exists.
///
/// End it on the thread, or in the labelled coroutine, that opened it. Scopes usually end in reverse
/// order. A scope that ends out of order removes only its own labels, at any position among the
/// scopes and attachments of its thread; the other labels stay. Captured sets never change.
class [[nodiscard]] Scope {
 public:
  [[nodiscard]] VITRINE_DETAIL_ALWAYS_INLINE Scope(Key key, std::string_view value) noexcept
      : in_(open_one(key, value)) {}
  Scope(Key, std::nullptr_t) = delete;
  [[nodiscard]] VITRINE_DETAIL_ALWAYS_INLINE explicit Scope(const Label& label) noexcept
      : in_(open_one(label.key, label.value)) {}
  [[nodiscard]] Scope(std::initializer_list<Label> labels) noexcept
      : in_(open(labels.begin(), labels.size(), nullptr)) {}
  [[nodiscard]] explicit Scope(const Trace& trace,
                               std::initializer_list<Label> labels = {}) noexcept
      : in_(open(labels.begin(), labels.size(), &trace)) {}
  [[nodiscard]] Scope(const Label* labels, std::size_t count) noexcept
      : in_(open(labels, count, nullptr)) {}
  [[nodiscard]] Scope(const Trace& trace, const Label* labels, std::size_t count) noexcept
      : in_(open(labels, count, &trace)) {}

  Scope(const Scope&) = delete;
  Scope& operator=(const Scope&) = delete;
  static void* operator new(std::size_t) = delete;
  static void* operator new[](std::size_t) = delete;
  VITRINE_DETAIL_ALWAYS_INLINE ~Scope() {
    if (__builtin_expect(in_.block != nullptr, 1)) close(in_);
  }

  [[nodiscard]] bool ok() const noexcept { return in_.block != nullptr; }
  [[nodiscard]] Status status() const noexcept {
    return ok() ? Errc::ok : static_cast<Errc>(in_.outer[0]);
  }

 private:
  /// The set put in force, and the previous state. A value, so that the compiler can keep it in
  /// registers.
  struct Entered {
    detail::Words outer;       // not ok: the status
    detail::Block* block;      // null: not ok
    detail::Segment* segment;  // the enclosing one; compared, never dereferenced
  };

  VITRINE_EXPORT static Entered open(const Label* labels, std::size_t count,
                                     const Trace* trace) noexcept;
  VITRINE_EXPORT static Entered open_new(Key key, std::string_view value) noexcept;
  VITRINE_EXPORT static void close_unusual(Entered in) noexcept;
  VITRINE_DETAIL_ON_THREAD static Entered open_one(Key key, std::string_view value) noexcept;
  VITRINE_DETAIL_ON_THREAD static void close(const Entered& in) noexcept;
  static Entered open_unasked(const Label* labels, std::size_t count, const Trace* trace) noexcept;
  static Entered open_other(Key key, std::string_view value) noexcept;
  static Entered open_hiding(const detail::MemoKey& memo_key, Key key,
                             std::string_view value) noexcept;
  static Entered failed(Errc why) noexcept;
  static Entered open_unlike(const Label* labels, std::size_t count) noexcept;
  static Entered open_unknown(const detail::MemoKey& memo_key, const Label* labels,
                              std::size_t count) noexcept;
  static Entered enter(detail::Thread& thread, const detail::Words& outer,
                       detail::Block* block) noexcept;

  Entered in_;
};

inline Scope::Entered Scope::enter(detail::Thread& thread, const detail::Words& outer,
                                   detail::Block* block) noexcept {
  detail::put_in_force(thread, detail::Links::of(block).words);
  return {outer, block, thread.segment};
}

Scope::Entered Scope::open_one(Key key, std::string_view value) noexcept {
  detail::Thread& thread = detail::vitrine_labels_thread;
  if (__builtin_expect(value.size() <= detail::Ends::all && detail::has_arena(thread) &&
                           !detail::is_abandoned(thread.segment),
                       1)) {
    const volatile std::uint64_t* outer = detail::words_in_force(thread);
    const detail::MemoKey memo_key{{outer[0], outer[1]},
                                   detail::MemoKey::one(key.data_, value.size()),
                                   detail::Ends::of(value.data(), value.size())};
    const auto& known = static_cast<const detail::Recall*>(thread.arena)[memo_key.entry()];
    const detail::Recall::Found found = known.find(memo_key);
    if (__builtin_expect(found.block != nullptr, 1)) return enter(thread, found.outer, found.block);
  }
  return open_new(key, value);
}

void Scope::close(const Entered& in) noexcept {
  detail::Thread& thread = detail::vitrine_labels_thread;
  const detail::Links& links = detail::Links::of(in.block);
  detail::PageHead* page = links.page;
  const volatile std::uint64_t* now = detail::words_in_force(thread);
  // Only a coroutine takes a scope to a thread that did not make it. (Where the set below ended
  // before, this one is not in force any more: what is has another block.)
  if (__builtin_expect(now[0] != links.words[0], 0) ||
      __builtin_expect(now[1] != links.words[1], 0) ||
      __builtin_expect(in.segment != thread.segment, 0) ||
      (__builtin_expect(thread.segment != nullptr, 0) && page->owner != thread.arena))
    return close_unusual(in);
  detail::put_in_force(thread, in.outer);
  detail::local_increment(page->closed);
}

/// During its lifetime, exactly this set is in force on this thread, and scopes opened meanwhile
/// extend it. At its end the previous labels are restored, without those of scopes that ended since.
/// End it on the thread, or in the labelled coroutine, that constructed it.
class [[nodiscard]] Attach {
 public:
  [[nodiscard]] explicit Attach(Set set) noexcept : set_(std::move(set)) { open(); }
  Attach(const Attach&) = delete;
  Attach& operator=(const Attach&) = delete;
  static void* operator new(std::size_t) = delete;
  static void* operator new[](std::size_t) = delete;
  ~Attach() {
    if (segment_ != nullptr) close();
  }

  /// False: the set was not ok(), memory ran out, or the thread is exiting. The previous labels then
  /// stay in force.
  [[nodiscard]] bool ok() const noexcept { return segment_ != nullptr; }

 private:
  VITRINE_EXPORT void open() noexcept;
  VITRINE_EXPORT void close() noexcept;
  void open_slowly() noexcept;

  Set set_;
  detail::Segment* segment_ = nullptr;  // null: not ok
};

/// Puts a set in force for the life of the returned object.
[[nodiscard]] inline Attach attach(Set set) noexcept {
  return Attach(std::move(set));
}
/// Not callable without a set.
Attach attach() = delete;

namespace detail {

template <class Type, class = void>
inline constexpr bool has_target = false;
template <class Type>
inline constexpr bool has_target<Type, std::void_t<decltype(*std::declval<Type>())>> = true;

/// The object of a call by a pointer to member: itself, or what a pointer or a std::reference_wrapper refers to.
template <class Class, class Object>
decltype(auto) object_of(Object&& object) {
  if constexpr (std::is_base_of_v<Class, std::decay_t<Object>>)
    return std::forward<Object>(object);
  else if constexpr (has_target<Object>)
    return *std::forward<Object>(object);
  else
    return object.get();
}

#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Warray-bounds"  // of a vtable that classes without one have not
#endif
template <class Member, class Class, class Object, class... Args>
decltype(auto) invoke_member(Member Class::*member, Object&& object, Args&&... args) {
  if constexpr (std::is_function_v<Member>)
    return (object_of<Class>(std::forward<Object>(object)).*member)(std::forward<Args>(args)...);
  else
    return (object_of<Class>(std::forward<Object>(object)).*member);  // a reference
}

#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic pop
#endif

/// std::invoke, whose header would double the time that this one takes to compile.
template <class Function, class... Args>
std::invoke_result_t<Function&, Args...> invoke(Function& function, Args&&... args) {
  if constexpr (std::is_member_pointer_v<Function>)
    return invoke_member(function, std::forward<Args>(args)...);
  else
    return function(std::forward<Args>(args)...);
}

}  // namespace detail

/// A callable together with a set: each call runs with exactly that set in force. It can be called with
/// what the callable can be called with, including an object for a pointer to member.
template <class Function>
class Bound {
 public:
  Bound(Set set, Function function) : set_(std::move(set)), callable_(std::move(function)) {}

  template <class... Args>
  std::invoke_result_t<Function&, Args...> operator()(Args&&... args) {
    Attach attached(set_);
    return detail::invoke(callable_, std::forward<Args>(args)...);
  }
  template <class... Args>
  std::invoke_result_t<const Function&, Args...> operator()(Args&&... args) const {
    Attach attached(set_);
    return detail::invoke(callable_, std::forward<Args>(args)...);
  }

  /// The callable, e.g. for properties that a framework associates with the type of a handler.
  [[nodiscard]] const Function& callable() const noexcept { return callable_; }

 private:
  Set set_;
  Function callable_;
};

/// Binds a callable to the set in force now: for a pool's task, a callback, a new thread's
/// function.
template <class Function>
[[nodiscard]] Bound<std::decay_t<Function>> bind(Function&& callable) {
  return {capture(), std::forward<Function>(callable)};
}
template <class Function>
[[nodiscard]] Bound<std::decay_t<Function>> bind(Set set, Function&& callable) {
  return {std::move(set), std::forward<Function>(callable)};
}

/// The value in force on this thread for a key. Valid until the labels in force change.
[[nodiscard]] VITRINE_EXPORT std::optional<std::string_view> get(Key key) noexcept;

/// The trace in force on this thread.
[[nodiscard]] VITRINE_EXPORT std::optional<Trace> trace() noexcept;

/// Calls `visit(std::string_view key, std::string_view value)` for each label in force.
template <class Function>
void for_each(Function&& visit) {
  const detail::EntriesInForce in_force;
  const detail::Entries& entries = in_force.all();
  for (std::size_t i = 0; i < entries.size; ++i) {
    const detail::Entry& entry = entries.data[i];
    if (entry.key.data == nullptr) continue;
    visit(std::string_view(entry.key.data, entry.key.size),
          std::string_view(entry.value.data, entry.value.size));
  }
}

/// The addresses that observers read on this thread: the public label slot
/// (custom_labels_current_set, or custom_labels_thread_local_data in the v0 library) and
/// otel_thread_ctx_v1 (null when built without it). For self-checks.
[[nodiscard]] VITRINE_EXPORT const void* slot_address() noexcept;
[[nodiscard]] VITRINE_EXPORT const void* record_slot_address() noexcept;

namespace detail {

/// A segment for a coroutine that starts with this set, suspended. Without memory the result is a
/// segment that is always running and never on a thread: such a coroutine has no labels of its own.
VITRINE_EXPORT Segment* make_segment(const Set& set) noexcept;
/// The coroutine was destroyed: removes its segment from a thread on which it still runs.
VITRINE_EXPORT void drop_segment(Segment& segment) noexcept;
/// The coroutine stops running on this thread: also if segments within it did not end, or if it does
/// not run here. `frame` as in `leave`.
VITRINE_EXPORT bool leave_segment(Segment& segment, void* frame) noexcept;

}  // namespace detail

}  // namespace VITRINE_DETAIL_ABI_NAMESPACE
}  // namespace vitrine::labels

#pragma pop_macro("Status")
