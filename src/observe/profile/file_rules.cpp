#include "observe/profile/file_rules.hpp"

#include <elf.h>
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <unordered_map>
#include <utility>

#include "base/limits.hpp"
#include "sandbox/files.hpp"
#include "unwind/frame_table.hpp"

namespace vitrine::observe {
namespace {

class RuleService {
 public:
  std::vector<std::byte> respond(std::span<const std::byte> bytes, FileDescriptor file) {
    const auto request = pack::unpack<RuleRequest>(bytes);
    if (!request) return {};
    for (const std::uint32_t number : request->closed) tables_.erase(number);
    if (request->what == RuleRequest::What::open)
      return pack::pack(open(request->file, std::move(file)));
    const auto known = tables_.find(request->file);
    if (known == tables_.end()) return {};
    unwind::FrameTable& table = *known->second;
    if (request->what == RuleRequest::What::rules)
      return pack::pack(rules(table, request->address));
    if (request->what == RuleRequest::What::call)
      return pack::pack(CallBefore{table.follows_call(request->address)});
    if (request->what == RuleRequest::What::page)
      return pack::pack(unwind::make_rule_page(table, request->address));
    if (request->what != RuleRequest::What::row)
      return pack::pack(
          table.rule_by_code(request->address, request->what == RuleRequest::What::returned));
    std::optional<unwind::Row> found;
    if (const unwind::Row* row = table.row(request->address)) found = *row;
    return pack::pack(found);
  }

 private:
  Result<OpenedRules> open(std::uint32_t number, FileDescriptor file) {
    auto memory = TRY(sandbox::FileMemory::from(std::move(file)));
    auto table = TRY(unwind::FrameTable::open(std::move(memory)));
    OpenedRules opened{table->machine(),
                       {},
                       table->problem().substr(0, limits::name_bytes),
                       unwind::find_go_thread(table->file(), table->elf())};
    for (const elf::Segment& segment : table->segments())
      if (segment.type == PT_LOAD && (segment.flags & PF_X) != 0)
        opened.segments.push_back(segment);
    tables_[number] = std::move(table);
    return opened;
  }

  static FoundRules rules(unwind::FrameTable& table, Address address) {
    FoundRules found{{}, table.rules_around(address)};
    const unwind::Rule* rule = found.around.find(address);
    found.rule = rule != nullptr ? *rule : table.rule(address);
    return found;
  }

  std::unordered_map<std::uint32_t, std::shared_ptr<unwind::FrameTable>> tables_;
};

std::vector<std::byte> respond_to_rules(std::span<const std::byte> request, FileDescriptor file) {
  static RuleService service;  // of this worker
  return service.respond(request, std::move(file));
}

using Clock = std::chrono::steady_clock;
using unwind::Row;
using unwind::Rule;
using unwind::RuleBlock;

constexpr std::size_t max_problems = 64;
/// Of some hundred KiB each. What stacks need of a file is kept here; to open it again takes some 100 us.
constexpr std::size_t max_open_files = 32;
constexpr std::size_t response_bytes = 32U << 20;  ///< the segments of the worst file: 8 MiB
/// A response that takes longer counts as slow: on a busy machine others do now and then.
constexpr std::chrono::milliseconds slow_response{100};

/// Roughly, with what the containers add.
std::size_t bytes_of(const RuleBlock& block) {
  return 128 + block.spans.size() * sizeof(unwind::RuleSpan);
}
constexpr std::size_t single_bytes = 64;
std::size_t bytes_of(const std::optional<Row>& row) {
  return 64 + sizeof row + (row ? row->expressions.size() : 0);
}

bool is_sound(const OpenedRules& opened) {
  return unwind::is_unwound(opened.machine) && opened.segments.size() <= limits::file_segments &&
         opened.problem.size() <= limits::name_bytes &&
         (!opened.go_thread || unwind::is_sound(*opened.go_thread));
}
bool is_sound(const FoundRules& found) {
  return unwind::is_sound(found.rule) && found.around.is_sound();
}
bool is_sound(const std::optional<Row>& row) {
  return !row || unwind::is_sound(*row);
}
bool is_sound(const unwind::RulePage& page) {
  return page.is_sound();
}
bool is_sound(const CallBefore&) {
  return true;
}
bool is_sound(const Result<OpenedRules>& opened) {
  return !opened || is_sound(*opened);
}

const Rule* find_in(const std::map<Address, RuleBlock>& blocks, Address address) {
  const auto after = blocks.upper_bound(address);
  return after == blocks.begin() ? nullptr : std::prev(after)->second.find(address);
}

}  // namespace

std::shared_ptr<RuleWorker> RuleWorker::make(const RuleLimits& limits, bool shares_worker) {
  return std::shared_ptr<RuleWorker>(new RuleWorker(limits, shares_worker));
}

Result<std::shared_ptr<FileRules>> RuleWorker::open(std::shared_ptr<sandbox::FileMemory> file,
                                                    const std::string& name) {
  std::erase_if(files_, [](const auto& known) { return known.second.expired(); });
  std::weak_ptr<FileRules>& known = files_[file->identity()];
  if (auto shared = known.lock()) return shared;
  // Unlike that of any other RuleWorker: they may share the worker.
  static std::atomic<std::uint32_t> numbers{0};
  auto fresh = std::make_shared<FileRules>(shared_from_this(), std::move(file), name, numbers++);
  TRY(fresh->require_open());
  if (!fresh->opened_.problem.empty()) report(name, fresh->opened_.problem);
  known = fresh;
  return fresh;
}

void RuleWorker::report(const std::string& name, const std::string& why) {
  if (problems_.size() < max_problems)
    problems_.push_back(name + ": stacks are unwound by frame pointers: " + why);
}

/// With the parser held.
Result<std::vector<std::byte>> RuleWorker::ask(RuleRequest request, int descriptor) {
  request.closed = std::exchange(closed_, {});
  const sandbox::Parser::ShortTime time(parser(), limits_.worker.time);
  auto response = TRY(parser().ask_bytes(&respond_to_rules, pack::pack(request), descriptor));
  if (response.size() > response_bytes) return parser().invalid_response();
  return response;
}

void RuleWorker::make_room(std::size_t bytes) {
  if (kept_ + bytes > limits_.kept)
    for (const auto& [identity, known] : files_)
      if (const auto file = known.lock()) file->forget();
  kept_ += bytes;
}

void RuleWorker::used(FileRules& file) {
  std::erase(open_, &file);
  open_.push_back(&file);
  if (open_.size() <= max_open_files) return;
  open_.front()->close();
  open_.erase(open_.begin());
}

FileRules::FileRules(std::shared_ptr<RuleWorker> worker, std::shared_ptr<sandbox::FileMemory> file,
                     std::string name, std::uint32_t number)
    : worker_(std::move(worker)), file_(std::move(file)), name_(std::move(name)), number_(number) {}

FileRules::~FileRules() {
  forget();
  std::erase(worker_->open_, this);
  close();
}

void FileRules::close() {
  if (opened_in_ != 0 && opened_in_ == worker_->parser().worker_number())
    worker_->closed_.push_back(number_);
  opened_in_ = 0;
}

template <class Response>
Result<Response> FileRules::ask(RuleRequest::What what, Address address) {
  const auto began = Clock::now();
  const bool opens = what == RuleRequest::What::open;
  auto bytes = TRY(worker_->ask({what, number_, address, {}}, opens ? file_->descriptor() : -1));
  auto response = pack::unpack<Response>(bytes);
  if (!response || !is_sound(*response)) return worker_->parser().invalid_response();
  const auto took = Clock::now() - began;
  if (took > slow_response) slow_ += took;
  const auto most = worker_->limits_.slow;
  if (slow_ > most)
    return fail(ErrorCode::limit, fmt::format("its parser took longer than {} s in total",
                                              std::chrono::duration<double>(most).count()));
  return response;
}

/// With the parser held: its worker may be another one than that which had the file open.
Result<void> FileRules::open() {
  const std::uint64_t worker = worker_->parser().worker_number();
  worker_->used(*this);
  if (opened_in_ == worker) return {};
  auto opened = TRY(TRY(ask<Result<OpenedRules>>(RuleRequest::What::open, 0)));
  if (!std::exchange(was_opened_, true)) opened_ = std::move(opened);
  opened_in_ = worker;
  return {};
}

/// Of the parser. What a worker that has done other work before does not survive may be
/// that work's fault: it is tried again.
template <class Task>
auto FileRules::with_worker(Task task) -> decltype(task()) {
  for (bool again = false;; again = true) {
    const auto held = worker_->parser().hold();
    if (!held) return tl::unexpected(held.error());
    const bool is_alone = worker_->parser().responses() == 0;
    auto done = task();
    const bool has_survived = worker_->parser().worker_number() != 0;
    if (done || has_survived || again || is_alone || worker_->parser().took_too_long()) return done;
  }
}

Result<void> FileRules::require_open() {
  return with_worker([&] { return open(); });
}

/// What the worker knows; the first time that it cannot be had is the last that it is asked for.
template <class Response>
std::optional<Response> FileRules::learn(RuleRequest::What what, Address address) {
  if (given_up_) return std::nullopt;
  auto response =
      with_worker([&] { return open().and_then([&] { return ask<Response>(what, address); }); });
  if (response) return std::move(*response);
  given_up_ = true;
  worker_->report(name_, response.error().message);
  return std::nullopt;
}

unwind::Rule FileRules::rule(Address address) {
  if (const Rule* known = find(address)) return *known;
  auto found = learn<FoundRules>(RuleRequest::What::rules, address);
  if (!found) return {};
  const Rule rule = found->rule;
  keep(address, std::move(*found));
  return rule;
}

const Row* FileRules::row(Address address) {
  if (rule(address).form == Rule::Form::none) return nullptr;
  auto known = rows_.find(address);
  if (known == rows_.end()) {
    auto row = learn<std::optional<Row>>(RuleRequest::What::row, address);
    if (!row) return nullptr;
    make_room(bytes_of(*row));
    known = rows_.emplace(address, std::move(*row)).first;
  }
  return known->second ? &*known->second : nullptr;
}

Rule FileRules::rule_by_code(Address pc, bool is_return) {
  auto& known = by_code_[is_return ? 1 : 0];
  if (const auto found = known.find(pc); found != known.end()) return found->second;
  const auto what = is_return ? RuleRequest::What::returned : RuleRequest::What::interrupted;
  const auto rule = learn<Rule>(what, pc);
  if (!rule) return {};
  make_room(single_bytes);
  return known[pc] = *rule;
}

bool FileRules::follows_call(Address address) {
  if (const auto found = calls_.find(address); found != calls_.end()) return found->second;
  const auto call = learn<CallBefore>(RuleRequest::What::call, address);
  if (!call) return false;
  make_room(single_bytes);
  return calls_[address] = call->is_there;
}

unwind::RulePage FileRules::page(Address address) {
  auto page = learn<unwind::RulePage>(RuleRequest::What::page, address);
  if (page) return std::move(*page);
  Rule unknown;
  unknown.form = Rule::Form::unknown;
  return {{{0, 0}}, {unknown}};
}

std::optional<Address> FileRules::bias(Address start, std::uint64_t offset) const {
  return unwind::bias_of(opened_.segments, start, offset);
}

const Rule* FileRules::find(Address address) const {
  if (const Rule* rule = find_in(functions_, address)) return rule;
  if (const Rule* rule = find_in(without_, address)) return rule;
  const auto single = singles_.find(address);
  return single == singles_.end() ? nullptr : &single->second;
}

void FileRules::keep(Address address, FoundRules found) {
  RuleBlock& around = found.around;
  if (around.find(address) == nullptr) {
    make_room(single_bytes);
    singles_[address] = found.rule;
    return;
  }
  around.spans.shrink_to_fit();  // there are many, for long
  make_room(bytes_of(around));
  const bool is_without = around.spans.front().rule.form == Rule::Form::none;
  (is_without ? without_ : functions_).insert_or_assign(around.start, std::move(around));
}

void FileRules::make_room(std::size_t bytes) {
  worker_->make_room(bytes);
  kept_ += bytes;
}

void FileRules::forget() {
  worker_->kept_ -= kept_;
  kept_ = 0;
  functions_.clear();
  without_.clear();
  singles_.clear();
  rows_.clear();
  for (auto& rules : by_code_) rules.clear();
  calls_.clear();
}

}  // namespace vitrine::observe
