// FileRules: how the functions of an untrusted file are left. A worker reads the file's CFI and
// is asked for rules as stacks come through its code; its responses are kept here.
//
// The file may crash the worker, stall it or eat its memory. Then it is left without further rules,
// which is reported once, and another worker goes on with the other files.
#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "elf/packed.hpp"
#include "sandbox/files.hpp"
#include "sandbox/worker.hpp"
#include "unwind/frame.hpp"
#include "unwind/go_code.hpp"
#include "unwind/rule.hpp"
#include "unwind/rule_page.hpp"

namespace vitrine::observe {

// What a worker does for the unwinder: it keeps the CFI of files, and returns the rules of their
// code (file_rules.hpp).

struct RuleRequest {
  enum class What : std::uint8_t {
    open,   ///< the file comes with it; the response is a Result<OpenedRules>
    rules,  ///< those around an address: FoundRules
    row,    ///< all that there is of an address: std::optional<unwind::Row>
    // By the instructions, of a pc without CFI:
    interrupted,  ///< the rule where it was: unwind::Rule
    returned,     ///< the rule where a call ends: unwind::Rule
    call,         ///< whether a call ends there: CallBefore
    page,         ///< those of the page around an address, for the kernel: unwind::RulePage
  };
  What what = What::open;
  std::uint32_t file = 0;             ///< its number, given by the caller
  Address address = 0;                ///< one of the file's own
  std::vector<std::uint32_t> closed;  ///< files that will not be asked about any more
};

struct OpenedRules {
  Machine machine = Machine::x86_64;
  std::vector<elf::Segment> segments;         ///< those that are executed
  std::string problem;                        ///< what of the CFI could not be used; empty: nothing
  std::optional<unwind::GoThread> go_thread;  ///< of a Go program
};

struct FoundRules {
  unwind::Rule rule;         ///< of the address itself
  unwind::RuleBlock around;  ///< and what is worth knowing with it; may be empty
};

struct CallBefore {
  bool is_there = false;
};

constexpr RuleRequest::What last(RuleRequest::What) {
  return RuleRequest::What::page;
}

template <pack::Of<CallBefore> T>
auto fields(T& call) {
  auto& [is_there] = call;
  return std::tie(is_there);
}

template <pack::Of<RuleRequest> T>
auto fields(T& request) {
  auto& [what, file, address, closed] = request;
  return std::tie(what, file, address, closed);
}

template <pack::Of<OpenedRules> T>
auto fields(T& opened) {
  auto& [machine, segments, problem, go_thread] = opened;
  return std::tie(machine, segments, problem, go_thread);
}

template <pack::Of<FoundRules> T>
auto fields(T& found) {
  auto& [rule, around] = found;
  return std::tie(rule, around);
}

struct RuleLimits {
  /// Of one request. The response comes in some 40 us; what is sampled meanwhile waits. (Of a parser
  /// that is shared, its own memory limits hold.)
  sandbox::Limits worker{2ULL << 30, std::chrono::seconds(10)};
  /// That one file may take beyond that, in all: a response that does not come at once is slow.
  std::chrono::milliseconds slow{20'000};
  /// Bytes of rules kept of all files: libLLVM has 860,000 rules, which are 20 MiB. Then it begins
  /// anew: what is needed is asked for again.
  std::size_t kept = 128U << 20;
};

class FileRules;

/// The worker of all files whose rules are asked for. Not thread-safe; forks.
class RuleWorker : public std::enable_shared_from_this<RuleWorker> {
 public:
  /// `shares_worker`: with all else that the calling thread has parsed; else it has one of its own.
  static std::shared_ptr<RuleWorker> make(const RuleLimits& limits, bool shares_worker = false);

  /// The rules of a file; of one that it knows (by its identity), the same. `name`: for messages.
  /// Errors: as unwind::FrameTable::open; failed, limit (more than its parser could stand).
  Result<std::shared_ptr<FileRules>> open(std::shared_ptr<sandbox::FileMemory> file,
                                          const std::string& name);

  /// Notes that a file's stacks are unwound without rules, and why.
  void report(const std::string& name, const std::string& why);

  /// Files without rules, and why; each once, as a sentence.
  [[nodiscard]] const std::vector<std::string>& problems() const { return problems_; }

 private:
  friend FileRules;
  RuleWorker(const RuleLimits& limits, bool shares_worker)
      : limits_(limits), shares_worker_(shares_worker), own_parser_(limits.worker) {}

  sandbox::Parser& parser() {
    return shares_worker_ ? sandbox::Parser::of_this_thread() : own_parser_;
  }

  Result<std::vector<std::byte>> ask(RuleRequest request, int descriptor);
  void make_room(std::size_t bytes);
  /// It is asked about: the one that was asked about longest ago may have to be closed for it.
  void used(FileRules& file);

  RuleLimits limits_;
  bool shares_worker_;
  sandbox::Parser own_parser_;
  std::vector<std::uint32_t> closed_;  ///< not sent to the worker yet
  std::vector<FileRules*> open_;       ///< in the worker, or one before; that used last is last
  std::map<sandbox::FileIdentity, std::weak_ptr<FileRules>> files_;
  std::size_t kept_ = 0;  ///< bytes
  std::vector<std::string> problems_;
};

class FileRules final : public unwind::RuleSource {
 public:
  FileRules(std::shared_ptr<RuleWorker> worker, std::shared_ptr<sandbox::FileMemory> file,
            std::string name, std::uint32_t number);
  FileRules(const FileRules&) = delete;
  FileRules& operator=(const FileRules&) = delete;
  ~FileRules() override;

  [[nodiscard]] Machine machine() const override { return opened_.machine; }
  unwind::Rule rule(Address address) override;
  const unwind::Row* row(Address address) override;
  unwind::Rule rule_by_code(Address pc, bool is_return) override;
  bool follows_call(Address address) override;

  /// For the unwinder in the kernel: the page of rules around an address. Where it cannot be had, one
  /// that leaves all to user space.
  unwind::RulePage page(Address address);

  /// Of this file alone.
  [[nodiscard]] std::uint32_t number() const { return number_; }

  /// As unwind::bias_of.
  [[nodiscard]] std::optional<Address> bias(Address start, std::uint64_t offset) const;

  [[nodiscard]] const std::optional<unwind::GoThread>& go_thread() const {
    return opened_.go_thread;
  }

 private:
  friend RuleWorker;
  using Blocks = std::map<Address, unwind::RuleBlock>;  // by their start

  Result<void> open();
  Result<void> require_open();
  void close();
  template <class Task>
  auto with_worker(Task task) -> decltype(task());
  template <class Response>
  Result<Response> ask(RuleRequest::What what, Address address);
  template <class Response>
  std::optional<Response> learn(RuleRequest::What what, Address address);
  [[nodiscard]] const unwind::Rule* find(Address address) const;
  void keep(Address address, FoundRules found);
  void make_room(std::size_t bytes);
  void forget();

  std::shared_ptr<RuleWorker> worker_;
  std::shared_ptr<sandbox::FileMemory> file_;
  std::string name_;
  std::uint32_t number_;
  std::uint64_t opened_in_ = 0;  ///< the worker that has it open, by Parser::worker_number()
  bool was_opened_ = false;
  OpenedRules opened_;
  bool given_up_ = false;
  std::chrono::nanoseconds slow_{0};  ///< what slow responses took

  std::size_t kept_ = 0;        ///< bytes of all below
  Blocks functions_, without_;  ///< code that CFI is about, and code without
  std::unordered_map<Address, unwind::Rule> singles_;
  std::unordered_map<Address, std::optional<unwind::Row>> rows_;
  std::unordered_map<Address, unwind::Rule> by_code_[2];  ///< of pcs: interrupted, returned to
  std::unordered_map<Address, bool> calls_;
};

}  // namespace vitrine::observe
