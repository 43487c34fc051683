#include "check/context_subject.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <ctime>

#include "abi/thread_context.hpp"
#include "observe/events/event_labels.hpp"
#include "target/maps.hpp"
#include "target/proc_file.hpp"

namespace vitrine::check {
namespace {

constexpr std::size_t status_bytes = 64 * 1024;
constexpr std::uint64_t second = 1'000'000'000;

/// NSpid of its status: its id in our namespace, then in those below.
std::vector<std::int64_t> pids_of(const target::Process& process) {
  std::vector<std::int64_t> pids{process.pid()};
  const auto status = target::read_file_at(process.proc_dir(), "status", status_bytes);
  const auto field = status ? target::status_field(*status, "NSpid") : std::nullopt;
  if (!field) return pids;
  const char* at = field->data();
  const char* end = at + field->size();
  while (at != end) {
    std::int64_t pid = 0;
    const auto [stop, error] = std::from_chars(at, end, pid);
    if (error == std::errc()) pids.push_back(pid);
    at = stop == at ? at + 1 : stop;
  }
  return pids;
}

/// What of `before` is not the same in `now`: names may be added to a key map, not changed.
std::string changed_name(const format::KeyMap& before, const format::KeyMap& now) {
  for (std::size_t i = 0; i < before.names.size(); ++i) {
    if (i < now.names.size() && before.names[i] == now.names[i]) continue;
    return fmt::format("key {} was {} and is {}", i, before.names[i].value_or("without a name"),
                       i < now.names.size() ? now.names[i].value_or("without a name") : "gone");
  }
  return {};
}

}  // namespace

const ContextCandidate* ContextSubject::chosen() const {
  const auto good = std::ranges::find_if(candidates, [&](const ContextCandidate& one) {
    return state ? one.mapping.start == state->header : one.header.has_value();
  });
  return good == candidates.end() ? nullptr : &*good;
}

ContextWatch::ContextWatch(target::Process& process) : process_(process) {
  subject_.tick_ns = second / static_cast<std::uint64_t>(::sysconf(_SC_CLK_TCK));
  subject_.started_ns = process.identity().start_time * subject_.tick_ns;
  subject_.pids = pids_of(process);
}

Result<void> ContextWatch::look() {
  find_candidates();
  // A new reader each time: one that has read takes an equal stamp for an equal content.
  const auto reader = observe::ContextReader::of(process_);
  const auto state = reader->refresh();
  subject_.seen_ns = observe::now_ns(CLOCK_BOOTTIME);
  ++subject_.looks;
  TRY(process_.verify());
  subject_.problem.reset();
  if (!state) {
    if (state.error().code == ErrorCode::not_permitted) return tl::unexpected(state.error());
    subject_.problem = state.error();
  } else if (*state != nullptr) {
    take(**state);
  }
  return {};
}

void ContextWatch::find_candidates() {
  const auto found = target::context_mappings(process_.proc_dir());
  if (!found) {
    subject_.search_problem = found.error().message;
    return;
  }
  subject_.search_problem = {};
  std::vector<ContextCandidate> candidates;
  for (const target::Mapping& mapping : found->mappings) {
    ContextCandidate one{mapping, format::read_context_header(process_.memory(), mapping.start),
                         std::nullopt};
    const auto known = std::ranges::find_if(subject_.candidates, [&](const ContextCandidate& old) {
      return old.mapping.start == mapping.start;
    });
    if (known != subject_.candidates.end()) {
      one.forked = known->forked;
    } else if (const auto flags = target::mapping_flags(process_.proc_dir(), mapping.start)) {
      one.forked = std::ranges::count(*flags, target::flag_not_forked) == 0;
    }
    candidates.push_back(std::move(one));
  }
  if (!candidates.empty()) subject_.candidates = std::move(candidates);
}

void ContextWatch::take(const observe::ContextState& state) {
  auto schema = format::schema_of(state.context);
  if (const auto& before = subject_.state; before && !(before->context == state.context)) {
    ++subject_.updates;
    const bool same_stamp = before->header == state.header &&
                            before->context.published_at_ns == state.context.published_at_ns;
    if (same_stamp && state.context.version >= 2)
      subject_.unstamped_change =
          fmt::format("both were published at {} ns", state.context.published_at_ns);
    if (subject_.schema && schema && subject_.key_map_change.empty())
      subject_.key_map_change = changed_name(subject_.schema->keys, schema->keys);
  }
  subject_.schema = std::move(schema);
  const auto has = [](const format::KeyValueList& list) {
    return format::find(list, abi::thread_context::schema_version_key) != nullptr ||
           format::find(list, abi::thread_context::key_map_key) != nullptr;
  };
  subject_.schema_in_resource = has(state.context.resource) && !has(state.context.attributes);
  subject_.state = state;
}

}  // namespace vitrine::check
