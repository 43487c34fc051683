#include "observe/process/context.hpp"

#include <fmt/format.h>

#include <chrono>
#include <thread>

#include "format/process_context.hpp"

namespace vitrine::observe {
namespace {

using format::ContextHeader;
using Outcome = format::ContextAttempt::Outcome;
using std::chrono::microseconds;

// An update takes a publisher some microseconds; one that was killed in the middle never ends.
constexpr microseconds pauses[] = {microseconds(0), microseconds(50), microseconds(100),
                                   microseconds(200), microseconds(400)};

class ProcessSource : public ContextSource {
 public:
  explicit ProcessSource(target::Process& process) : process_(process) {}
  Memory& memory() override { return process_.memory(); }
  Result<target::ContextMappings> mappings() override {
    return target::context_mappings(process_.proc_dir());
  }
  Result<void> verify() override { return process_.verify(); }
  Error explain(Error error) override { return process_.memory().explain(std::move(error)); }

 private:
  target::Process& process_;
};

/// A ProcessSource with its process.
class OwnedProcess : public ContextSource {
 public:
  explicit OwnedProcess(target::Process process)
      : process_(std::move(process)), source_(process_) {}
  Memory& memory() override { return source_.memory(); }
  Result<target::ContextMappings> mappings() override { return source_.mappings(); }
  Result<void> verify() override { return source_.verify(); }
  Error explain(Error error) override { return source_.explain(std::move(error)); }

 private:
  target::Process process_;
  ProcessSource source_;
};

/// Version 2 first, then the newest stamp; one that is just being written comes last.
bool preferred(const ContextHeader& left, const ContextHeader& right) {
  return std::pair(left.version, left.stamp) > std::pair(right.version, right.stamp);
}

Error gave_up(Outcome outcome, const ContextHeader& header, Address at) {
  const std::string context = fmt::format("process context at {}: ", hex(at));
  switch (outcome) {
    case Outcome::updating:
      return {ErrorCode::interrupted, context + "an update is in progress",
              "try again; if this persists, the publisher was killed during an update"};
    case Outcome::unreadable:
      return {ErrorCode::malformed,
              context + fmt::format("its payload of {} bytes at {} is not readable",
                                    header.payload_size, hex(header.payload)),
              {}};
    default:
      return {ErrorCode::interrupted, context + "it changes faster than vitrine can read it",
              "try again"};
  }
}

}  // namespace

Result<std::unique_ptr<ContextReader>> ContextReader::open(int pid) {
  auto process = TRY(target::Process::open(pid));
  return std::make_unique<ContextReader>(std::make_unique<OwnedProcess>(std::move(process)));
}

std::unique_ptr<ContextReader> ContextReader::of(target::Process& process) {
  return std::make_unique<ContextReader>(std::make_unique<ProcessSource>(process));
}

/// Looks for a context among the mappings, and for what else looks like one.
Result<void> ContextReader::locate() {
  TRY(source_->verify());
  auto candidates = TRY(source_->mappings());

  place_.reset();
  notes_.clear();
  std::optional<Error> problem;
  std::optional<ContextHeader> best;
  for (const target::Mapping& mapping : candidates.mappings) {
    auto header = format::read_context_header(source_->memory(), mapping.start);
    if (!header) {
      Error error = source_->explain(header.error());
      const bool withheld = error.message != header.error().message;
      notes_.push_back(error.message);
      if (error.code == ErrorCode::unsupported || withheld) problem = std::move(error);
      continue;
    }
    const bool better = !best || preferred(*header, *best);
    if (best)
      notes_.push_back(fmt::format("process context at {}: ignored, there is another",
                                   hex(better ? place_->header : mapping.start)));
    if (better) {
      best = *header;
      place_ = Place{mapping.start, mapping.name};
    }
  }
  if (candidates.truncated) notes_.push_back("too many mappings: some were not searched");
  if (!place_ && problem) return tl::unexpected(std::move(*problem));
  return {};
}

/// Brings `state_` up to date with what is at `place_`.
Result<void> ContextReader::read() {
  const Address at = place_->header;
  const bool same_place = state_ && state_->header == at;
  const std::uint64_t known = same_place ? state_->context.published_at_ns : 0;
  Outcome outcome{};
  ContextHeader header;
  for (const microseconds pause : pauses) {
    if (pause.count() != 0) std::this_thread::sleep_for(pause);
    auto attempt = format::attempt_context(source_->memory(), at, known);
    if (!attempt) return tl::unexpected(source_->explain(std::move(attempt.error())));
    outcome = attempt->outcome;
    header = attempt->header;
    if (outcome == Outcome::unchanged) {
      state_->stale.clear();
      state_->notes = notes_;
      return {};
    }
    if (outcome != Outcome::complete) continue;
    auto context = TRY(format::decode_payload(header.version, attempt->payload));
    TRY(source_->verify());
    context.published_at_ns = header.stamp;
    state_ = ContextState{std::move(context), at, place_->mapping, {}, notes_};
    return {};
  }
  return tl::unexpected(source_->explain(gave_up(outcome, header, at)));
}

Result<const ContextState*> ContextReader::stale_or(Error problem) {
  if (!state_) return tl::unexpected(std::move(problem));
  state_->stale = std::move(problem.message);
  return &*state_;
}

Result<const ContextState*> ContextReader::refresh() {
  if (place_) {
    auto done = read();
    if (done) return &*state_;
    if (done.error().code == ErrorCode::interrupted) {
      TRY(source_->verify());
      return stale_or(std::move(done.error()));
    }
  }
  TRY(locate());
  if (!place_) {
    state_.reset();
    return nullptr;
  }
  if (auto done = read(); !done) return stale_or(std::move(done.error()));
  return &*state_;
}

}  // namespace vitrine::observe
