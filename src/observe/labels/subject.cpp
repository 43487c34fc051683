#include "observe/labels/subject.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace vitrine::observe {
namespace {

constexpr std::chrono::seconds search_interval{1};
/// A process that changes its libraries or its program at each attempt is reported as unreadable.
constexpr int max_attempts = 5;

}  // namespace

Result<std::unique_ptr<Subject>> Subject::open(int pid, const limits::LabelLimits& limits,
                                               const sandbox::WorkBudget& budget) {
  std::unique_ptr<Subject> subject(new Subject(limits));
  TRY(subject->reopen(pid, budget));
  return subject;
}

Result<void> Subject::reopen(int pid, const sandbox::WorkBudget& budget) {
  auto process = TRY(target::Process::open(pid));
  state_ = std::make_unique<State>(std::move(process));
  refresh_schema();
  auto found = state_->finder.refresh(state_->schema, budget);
  if (found) {
    refresh_key_maps(true);
    return {};
  }
  // It has ended, or executed another program, since it was opened.
  TRY(state_->process.verify());
  return tl::unexpected(state_->process.memory().explain(std::move(found.error())));
}

Result<Change> Subject::refresh(const sandbox::WorkBudget& budget) {
  refresh_schema();
  return refresh_definitions(budget);
}

Result<Change> Subject::refresh_definitions(const sandbox::WorkBudget& budget) {
  if (auto same = process().verify(); !same) {
    if (same.error().code != ErrorCode::another_program) return tl::unexpected(same.error());
    TRY(reopen(process().pid(), budget));
    return Change::program;
  }
  auto changed = state_->finder.refresh(state_->schema, budget);
  if (!changed) {
    // Its headers went away under us: the process did, or executed another program, since verify().
    TRY(process().verify());
    return tl::unexpected(process().memory().explain(std::move(changed.error())));
  }
  if (*changed) state_->key_maps.forget_modules();
  // Names from another map are others: what was read with those of before does not count.
  const bool are_others = refresh_key_maps(*changed);
  if (!*changed && !are_others) return Change::none;
  state_->draft_a_keys.clear();
  return Change::definitions;
}

Result<Snapshot> Subject::read_unchanged(const std::atomic<bool>* stop,
                                         const std::function<Result<Snapshot>(Change)>& read) {
  auto change = refresh(sandbox::WorkBudget(stop));
  for (int attempt = 0; attempt < max_attempts; ++attempt) {
    const Change found = TRY(change);
    if (definitions().empty()) return tl::unexpected(why_none());
    auto snapshot = read(found);
    if (!snapshot && snapshot.error().code == ErrorCode::interrupted) return snapshot;
    // What was found out before the reading must have held to its end. Nor can what it changed then have
    // failed for a reason that holds: threads that an exec ends cannot be stopped.
    change = refresh_definitions(sandbox::WorkBudget(stop));
    if (change && *change == Change::none) return snapshot;
    if (stop != nullptr && stop->load())
      return fail(ErrorCode::interrupted, "the reading was stopped");
  }
  return fail(ErrorCode::changing,
              "the process changed its libraries or its program during each of several readings",
              "try again");
}

/// A known context costs one small read. To look for one goes through all mappings, of which a
/// process with many threads has many: not for each of many readings a second.
void Subject::refresh_schema() {
  if (state_->schema || std::chrono::steady_clock::now() >= state_->context_search) search_schema();
}

std::uint64_t Subject::look_for_schema() {
  refresh_schema();
  return schema_version_;
}

void Subject::search_schema() {
  state_->context_search = std::chrono::steady_clock::now() + search_interval;
  state_->context_problem.clear();
  auto context = state_->context->refresh();
  if (!context) {
    state_->context_problem = context.error().message;
    return;  // the last known schema stays: key maps only grow
  }
  auto schema = *context == nullptr ? std::nullopt : format::schema_of((*context)->context);
  schema_version_ += schema != state_->schema;
  state_->schema = std::move(schema);
}

/// Returns whether records have their names from another context than before.
bool Subject::refresh_key_maps(bool all) {
  const bool are_others = state_->key_maps.refresh(state_->process, state_->finder.all(),
                                                   state_->finder.modules(), all);
  schema_version_ += are_others;
  return are_others;
}

/// What has the names of a definition's records; null: nothing does, or it is not known which.
const format::ThreadSchema* Subject::schema_of(const Definition& definition) const {
  if (state_->key_maps.are_several()) return state_->key_maps.choice(definition).schema;
  return state_->schema ? &*state_->schema : state_->key_maps.only();
}

std::span<const Definition> Subject::definitions() const {
  const auto all = state_->finder.all();
  return all.first(std::min(all.size(), limits::definitions));
}

std::string Subject::left_out() const {
  const std::size_t all = state_->finder.all().size();
  return all > limits::definitions
             ? fmt::format("read {} of {} definitions", limits::definitions, all)
             : std::string();
}

std::vector<std::string> Subject::notes() const {
  std::vector<std::string> notes = state_->finder.notes();
  if (auto text = left_out(); !text.empty()) notes.push_back(std::move(text));
  if (!state_->context_problem.empty()) notes.push_back(state_->context_problem);
  const auto of_keys = state_->key_maps.notes();
  notes.insert(notes.end(), of_keys.begin(), of_keys.end());
  if (!state_->pointers.cut().empty()) notes.push_back(state_->pointers.cut());
  if (auto why = state_->process.memory().withheld(); !why.empty()) notes.push_back(std::move(why));
  return notes;
}

void Subject::complete_thread_pointers(std::span<SeenThread> threads) {
  std::vector<target::Thread> lacking;
  std::vector<std::size_t> indexes;
  for (std::size_t i = 0; i < threads.size(); ++i) {
    if (threads[i].thread_pointer != 0) continue;
    lacking.push_back({threads[i].id, threads[i].name(), 'S'});
    indexes.push_back(i);
  }
  if (lacking.empty()) return;
  state_->pointers.keep_only(lacking);
  const auto found =
      state_->pointers.find(state_->process, lacking, state_->finder.thread_layout());
  for (std::size_t i = 0; i < found.size(); ++i)
    threads[indexes[i]].thread_pointer = found[i].value_or(0);
}

format::DecodeContext Subject::decode_context(const Definition& definition,
                                              std::size_t* bytes_left) {
  format::DecodeContext context;
  context.limits = limits_;
  context.bytes_left = bytes_left;
  context.address_mask = process().memory().untag(~Address{0});
  if (definition.reference)
    context.keys = &state_->draft_a_keys[&definition];
  else if (const format::ThreadSchema* schema = schema_of(definition))
    context.keys = &schema->keys;
  return context;
}

Result<format::LabelSet> Subject::decode(const Definition& definition, Memory& memory,
                                         Address record, Address thread_pointer,
                                         std::size_t* bytes_left,
                                         std::vector<const Definition*>* refreshed, bool is_copy) {
  const auto once = [&] {
    format::DecodeContext context = decode_context(definition, bytes_left);
    context.is_copy = is_copy;
    return format::decode_record(definition.format, memory, record, context);
  };
  const std::size_t bytes_before = bytes_left == nullptr ? 0 : *bytes_left;
  auto decoded = TRY(once());
  if (!decoded.needs_key_map_refresh) return std::move(decoded.set);
  if (refreshed != nullptr) {
    if (std::ranges::find(*refreshed, &definition) != refreshed->end())
      return std::move(decoded.set);
    refreshed->push_back(&definition);
  }
  refresh_keys(definition, thread_pointer);
  if (bytes_left != nullptr) *bytes_left = bytes_before;  // charged once
  return TRY(once()).set;
}

/// `thread_pointer`: of a thread that has a record with an index that the key map lacks (draft A).
void Subject::refresh_keys(const Definition& definition, Address thread_pointer) {
  if (!definition.reference) {
    search_schema();
    refresh_key_maps(false);
    state_->key_maps.miss(definition);
    return;
  }
  Memory& memory = process().memory();
  const auto slot =
      target::evaluate(*definition.reference, process().machine(), thread_pointer, memory);
  if (!slot || !*slot) return;
  const auto reference = memory.read_value<Address>(**slot, "draft A reference");
  if (!reference || *reference == 0) return;
  auto keys =
      format::read_key_table(memory, *reference, decode_context(definition, nullptr).address_mask);
  if (keys) state_->draft_a_keys[&definition] = std::move(*keys);
}

}  // namespace vitrine::observe
