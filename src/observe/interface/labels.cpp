// <vitrine/observe/labels.hpp>, <vitrine/observe/processes.hpp> and <vitrine/observe/helpers.hpp>.
#include "observe/labels/labels.hpp"

#include <vitrine/observe/helpers.hpp>
#include <vitrine/observe/labels.hpp>
#include <vitrine/observe/processes.hpp>

#include "observe/helpers.hpp"
#include "observe/interface/convert.hpp"
#include "observe/ps.hpp"

namespace vitrine::observer {
inline namespace v1 {
namespace {

observe::Mode private_mode(Mode mode) {
  switch (mode) {
    case Mode::snapshot:
      return observe::Mode::snapshot;
    case Mode::ebpf:
      return observe::Mode::ebpf;
    case Mode::ptrace:
      return observe::Mode::ptrace;
  }
  return static_cast<observe::Mode>(mode);  // refused where it is used
}

Evidence public_evidence(observe::Evidence evidence) {
  switch (evidence) {
    case observe::Evidence::proven:
      return Evidence::proven;
    case observe::Evidence::serial:
      return Evidence::serial;
    case observe::Evidence::stopped:
      return Evidence::stopped;
    case observe::Evidence::sampled:
      return Evidence::sampled;
    case observe::Evidence::unproven:
      return Evidence::unproven;
  }
  return Evidence::unproven;
}

ThreadLabels public_thread(observe::ThreadLabels from) {
  ThreadLabels to;
  to.pid = from.pid;
  to.tid = from.tid;
  to.comm = std::move(from.comm);
  to.format = std::string(format::name(from.format));
  to.module = std::move(from.module);
  to.evidence = public_evidence(from.evidence);
  if (from.set)
    to.set = convert::label_set(*from.set);
  else
    to.set = convert::error(std::move(from.set.error()));
  return to;
}

}  // namespace

std::string_view to_string(Mode mode) noexcept {
  return observe::name(private_mode(mode));
}

std::string_view to_string(Evidence evidence) noexcept {
  for (const auto one :
       {observe::Evidence::proven, observe::Evidence::serial, observe::Evidence::stopped,
        observe::Evidence::sampled, observe::Evidence::unproven})
    if (public_evidence(one) == evidence) return observe::name(one);
  return "unproven";
}

struct LabelReader::State {
  std::unique_ptr<observe::LabelReader> reader;
};

LabelReader::LabelReader(std::unique_ptr<State> state) noexcept : state_(std::move(state)) {}
LabelReader::LabelReader(LabelReader&&) noexcept = default;
LabelReader& LabelReader::operator=(LabelReader&&) noexcept = default;
LabelReader::~LabelReader() = default;

Result<LabelReader> LabelReader::open(int pid, const LabelOptions& options) {
  observe::LabelOptions inner;
  inner.mode = private_mode(options.mode);
  inner.tids = options.tids;
  inner.may_stop = options.may_stop;
  inner.sample_hz = options.sample_hz;
  inner.stop = options.stop;
  return convert::opened<LabelReader>(observe::LabelReader::open(pid, inner), [](auto reader) {
    return LabelReader(std::make_unique<State>(State{std::move(reader)}));
  });
}

Result<LabelReading> LabelReader::read(std::chrono::milliseconds window) {
  return convert::opened<LabelReading>(state_->reader->read(window), [](observe::Snapshot from) {
    LabelReading to;
    to.threads.reserve(from.threads.size());
    for (observe::ThreadLabels& thread : from.threads)
      to.threads.push_back(public_thread(std::move(thread)));
    to.notes = std::move(from.notes);
    return to;
  });
}

Result<LabelReading> read_labels(int pid) {
  auto reader = LabelReader::open(pid);
  if (!reader) return reader.error();
  return reader->read();
}

Result<ProcessList> list_processes(const ListOptions& options) {
  observe::ListOptions inner;
  inner.with_probes = options.with_probes;
  return convert::opened<ProcessList>(observe::list_publishers(inner),
                                      [](observe::PublisherList from) {
                                        ProcessList to;
                                        to.looked_at = from.looked_at;
                                        to.not_permitted = from.not_permitted;
                                        for (observe::Publisher& one : from.publishers) {
                                          Process process;
                                          process.pid = one.pid;
                                          process.comm = std::move(one.comm);
                                          process.threads = one.threads;
                                          for (const format::Format format : one.formats)
                                            process.formats.emplace_back(format::name(format));
                                          process.has_context = one.has_context;
                                          process.service = std::move(one.service);
                                          process.probes = one.probes;
                                          process.problems = std::move(one.problems);
                                          to.processes.push_back(std::move(process));
                                        }
                                        return to;
                                      });
}

void end_helpers() {
  observe::end_helpers();
}

}  // namespace v1
}  // namespace vitrine::observer
