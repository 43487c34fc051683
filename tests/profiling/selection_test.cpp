// Which processes the kernel refuses for a selection (docs/essays/rows.md): processes that fork, execute, end, get
// numbers of others and declare themselves in random order, against a model.
#include "observe/profile/selection.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <random>
#include <string>

#include "bpf/wire/profile.h"

namespace vitrine::observe {
namespace {

constexpr std::uint32_t numbers = 6;
constexpr const char* wanted = "shop";

/// What a process executes, as the world has it.
struct Execution {
  vitrine_refused_process identity{};  // without the selection
  std::string service;
  std::uint64_t declared_in = 0;  // the interval in which it became selected
};

struct Sample {
  std::uint32_t tgid = 0;
  vitrine_refused_process identity{};
  std::shared_ptr<Execution> execution;
};

class World {
 public:
  explicit World(std::uint64_t seed) : random_(seed) { selection_.services = {wanted}; }

  void step() {
    const std::uint32_t tgid = some(numbers);
    auto& process = processes_[tgid];
    switch (some(12)) {
      case 0:  // ends; the number is another's later
        process = nullptr;
        return;
      case 1:  // executes another program, which may be at the same addresses
        if (process != nullptr) execute(process, process->identity.start_ns);
        return;
      case 2:  // publishes its service, or another one
        if (process != nullptr) declare(*process);
        return;
      case 3:
        return fork(tgid);
      case 4:
      case 5:
        return take();
      case 6:
        if (some(8) == 0) end_interval();
        return;
      default:
        if (process == nullptr) begin(process);
        return sample(tgid);
    }
  }

  void finish() {
    while (!ring_.empty()) take();
    EXPECT_EQ(fired_, refused_in_kernel_ + refused_here_ + kept_);
  }

  std::uint64_t refused_in_kernel_ = 0, refused_here_ = 0, kept_ = 0;

 private:
  std::uint32_t some(std::uint32_t most) { return static_cast<std::uint32_t>(random_() % most); }

  void begin(std::shared_ptr<Execution>& process) {
    process = std::make_shared<Execution>();
    process->identity = {++clock_, some(3) + 1, 0, 0};
    if (some(4) == 0) declare(*process);
  }

  void execute(std::shared_ptr<Execution>& process, std::uint64_t start_ns) {
    const std::uint32_t exec_id = process->identity.exec_id + 1;
    process = std::make_shared<Execution>();
    process->identity = {start_ns, some(3) + 1, exec_id, 0};
    if (some(3) == 0) declare(*process);
  }

  void declare(Execution& process) {
    process.service = some(2) == 0 ? wanted : "other";
    if (process.service == wanted) process.declared_in = interval_;
  }

  void fork(std::uint32_t parent) {
    auto& child = processes_[(parent + 1) % numbers];
    if (processes_[parent] == nullptr || child != nullptr) return;
    child = std::make_shared<Execution>(*processes_[parent]);
    child->identity.start_ns = ++clock_;
    child->service.clear();  // an environment's would be its own, too
  }

  // The kernel:

  void sample(std::uint32_t tgid) {
    const auto& process = processes_[tgid];
    vitrine_refused_process now = process->identity;
    now.selection = kernel_selection_;
    ++fired_;
    const auto refused = kernel_refused_.find(tgid);
    if (refused == kernel_refused_.end() || !vitrine_is_refused(&refused->second, &now)) {
      ring_.push_back({tgid, now, process});
      return;
    }
    ++refused_in_kernel_;
    // What has declared itself in an interval before this one is never refused.
    EXPECT_FALSE(process->service == wanted && process->declared_in < interval_);
    EXPECT_TRUE(seen_.contains(process.get())) << "no sample of this program has come in";
    if (some(50) == 0) kernel_refused_.erase(refused);  // least recently used
  }

  // The reader:

  void learn(SampledProgram& program, const Execution& execution) {
    program.learnt = true;
    program.facts.context.clear();
    if (!execution.service.empty())
      program.facts.context.push_back({"service.name", execution.service});
  }

  void take() {
    if (ring_.empty()) return;
    const Sample sample = ring_.front();
    ring_.pop_front();
    const auto& execution = sample.execution;
    seen_[execution.get()] = execution;
    auto& program = programs_[execution.get()];
    if (program == nullptr) {
      program = std::make_shared<SampledProgram>();
      program->looked_at = some(5) != 0;
      if (program->looked_at) learn(*program, *execution);
    } else if (!program->looked_at) {
      program->looked_at = true;
      learn(*program, *execution);
    }
    const Selected selected =
        selected_by(selection_, *program, [&](SampledProgram& its) { learn(its, *execution); });
    if (selected == Selected::yes) {
      ++kept_;
      return;
    }
    ++refused_here_;
    if (selected == Selected::unknown) return;
    kernel_refused_[sample.tgid] = sample.identity;
    kernel_refused_[sample.tgid].selection = kernel_selection_;
  }

  void end_interval() {
    ++interval_;
    ++kernel_selection_;
    for (auto& [execution, program] : programs_) {
      program->learnt = false;
      if (some(2) == 0) learn(*program, *seen_.at(execution));  // SampledPrograms::tidy
    }
  }

  std::mt19937_64 random_;
  ProcessSelection selection_;
  std::uint64_t clock_ = 0, interval_ = 1, fired_ = 0;
  std::uint32_t kernel_selection_ = 1;
  std::array<std::shared_ptr<Execution>, numbers> processes_;
  std::map<std::uint32_t, vitrine_refused_process> kernel_refused_;
  std::deque<Sample> ring_;
  std::map<const Execution*, std::shared_ptr<Execution>> seen_;
  std::map<const Execution*, std::shared_ptr<SampledProgram>> programs_;
};

TEST(Selection, RefusesNoProcessThatHasDeclaredItselfBeforeTheInterval) {
  std::uint64_t refused_in_kernel = 0, kept = 0;
  for (std::uint64_t seed = 1; seed <= 300; ++seed) {
    World world(seed);
    for (int i = 0; i < 2000; ++i) world.step();
    world.finish();
    refused_in_kernel += world.refused_in_kernel_;
    kept += world.kept_;
    if (HasFailure()) FAIL() << "seed " << seed;
  }
  EXPECT_GT(refused_in_kernel, 0U);
  EXPECT_GT(kept, 0U);
}

// Before it has a sample: labels of one that is not selected are not looked for.
TEST(Selection, OfAProcessThatHasNotBeenLookedAtGoesByItsFileAndItsGroups) {
  SampledProgram program;
  program.pid = ::getpid();
  const auto may_be = [&](const ProcessSelection& selection) {
    return may_be_selected(selection, program);
  };
  ProcessSelection by_file, by_group, by_any_group, by_service;
  by_file.programs = by_service.services = {wanted};
  by_group.cgroups = {"/no-such-group"};
  by_any_group.cgroups = {"*"};
  EXPECT_TRUE(may_be({}));
  EXPECT_TRUE(may_be(by_file));  // it is not known
  program.facts.executable = "/usr/bin/other";
  EXPECT_FALSE(may_be(by_file));
  program.facts.executable = std::string("/usr/bin/") + wanted;
  EXPECT_TRUE(may_be(by_file));
  program.facts.cgroup = by_group.cgroups.front();  // its parent's
  EXPECT_FALSE(may_be(by_group));
  EXPECT_TRUE(may_be(by_any_group));
  EXPECT_TRUE(may_be(by_service));
  program.looked_at = true;
  EXPECT_FALSE(may_be(by_service));
  program.facts.context.push_back({"service.name", wanted});
  EXPECT_TRUE(may_be(by_service));
}

}  // namespace
}  // namespace vitrine::observe
