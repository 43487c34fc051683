#include "observe/profile/program.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <span>
#include <utility>

#include "base/limits.hpp"
#include "bpf/event.hpp"
#include "sandbox/files.hpp"
#include "target/mapped_files.hpp"
#include "target/proc_file.hpp"
#include "target/process_memory.hpp"
#include "target/threads.hpp"

namespace vitrine::observe {
namespace {

constexpr std::uint64_t vdso_bytes = 1U << 20;  // two to four pages

/// The vdso is an ELF file that only memory has.
Result<std::vector<std::byte>> read_image(int proc_dir, const target::Mapping& mapping) {
  const auto live = TRY(target::live_thread(proc_dir));
  target::ProcessMemory memory(live, proc_dir, ~Address{0});
  const std::uint64_t size = std::min(mapping.end - mapping.start, vdso_bytes);
  std::vector<std::byte> bytes(static_cast<std::size_t>(size));
  bytes.resize(memory.read_some(mapping.start, bytes));
  if (bytes.empty()) return fail(ErrorCode::failed, "its memory cannot be read");
  return bytes;
}

Result<std::unique_ptr<sandbox::FileMemory>> copy_image(std::span<const std::byte> bytes) {
  target::FileDescriptor copy(::memfd_create("vdso", MFD_CLOEXEC));
  if (!copy ||
      ::write(copy.get(), bytes.data(), bytes.size()) != static_cast<ssize_t>(bytes.size()))
    return fail(ErrorCode::failed, std::string("cannot be copied: ") + std::strerror(errno));
  return sandbox::FileMemory::from(std::move(copy));
}

/// The kernel's, as this process has it; empty: not known.
const std::vector<std::byte>& our_vdso() {
  static const std::vector<std::byte> ours = [] {
    std::vector<std::byte> bytes;
    const auto self = target::open_at(AT_FDCWD, "/proc/self", O_PATH | O_DIRECTORY);
    if (!self) return bytes;
    const auto mappings = target::executable_mappings(self->get());
    if (!mappings) return bytes;
    for (const target::Mapping& mapping : *mappings) {
      if (mapping.name != "[vdso]" || mapping.inode != 0) continue;
      const auto* const at = reinterpret_cast<const std::byte*>(mapping.start);
      bytes.assign(at, at + std::min(mapping.end - mapping.start, vdso_bytes));
    }
    return bytes;
  }();
  return ours;
}

/// Code that a process has made at run time, read in its memory. CPython enters each Python function
/// through a copy of one trampoline (Python/asm_trampoline.S, 3.12 and 3.13, x86-64); about other
/// such code this knows nothing, and it goes by frame pointers.
class MadeCode final : public unwind::RuleSource {
 public:
  MadeCode(pid_t live, target::FileDescriptor proc_dir)
      : proc_dir_(std::move(proc_dir)), memory_(live, proc_dir_.get(), ~Address{0}) {}

  [[nodiscard]] Machine machine() const override { return native_machine; }

  unwind::Rule rule(Address address) override {
    const unwind::Row* found = row(address);
    return found != nullptr ? unwind::compact(*found, machine()) : unwind::Rule{};
  }

  const unwind::Row* row(Address address) override {
    if (machine() != Machine::x86_64) return nullptr;
    const auto at = within_trampoline(address);
    if (!at) return nullptr;
    row_ = {};
    row_.cfa = {unwind::RegisterRule::Kind::in_register, 0, unwind::roles_of(machine()).stack};
    const bool has_frame = *at >= after_sub && *at < after_add;
    row_.cfa_offset = has_frame ? 16 : 8;
    row_.registers[unwind::roles_of(machine()).result] = {unwind::RegisterRule::Kind::at_cfa, 0,
                                                          -8};
    return &row_;
  }

 private:
  // sub $8, %rsp; call *%rcx; add $8, %rsp; ret
  static constexpr std::array<std::uint8_t, 11> trampoline{0x48, 0x83, 0xec, 0x08, 0xff, 0xd1,
                                                           0x48, 0x83, 0xc4, 0x08, 0xc3};
  static constexpr std::size_t after_sub = 4, after_add = 10;

  std::optional<std::size_t> within_trampoline(Address address) {
    for (std::size_t at = 0; at < trampoline.size(); ++at) {
      std::array<std::byte, trampoline.size()> bytes{};
      if (memory_.read_some(address - at, bytes) == bytes.size() &&
          std::equal(trampoline.begin(), trampoline.end(), bytes.begin(),
                     [](std::uint8_t a, std::byte b) { return std::byte{a} == b; }))
        return at;
    }
    return std::nullopt;
  }

  target::FileDescriptor proc_dir_;
  target::ProcessMemory memory_;
  unwind::Row row_;
};

std::shared_ptr<MadeCode> made_code(int proc_dir) {
  const auto live = target::live_thread(proc_dir);
  target::FileDescriptor copy(::fcntl(proc_dir, F_DUPFD_CLOEXEC, 0));
  return live && copy ? std::make_shared<MadeCode>(*live, std::move(copy)) : nullptr;
}

/// Files that may be open: others need descriptors, too.
std::size_t max_files() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return limits::code_files;
  return std::min<std::size_t>(limits::code_files, limit.rlim_cur / 2);
}

}  // namespace

CodeReader::OpenedFile CodeReader::open(int proc_dir, const target::Mapping& mapping) {
  if (files_.size() >= max_files()) forget_unused();
  if (files_.size() >= max_files()) return fail(ErrorCode::limit, "too many files are open");
  return target::open_mapped(proc_dir, {mapping.device, mapping.inode, mapping.name, {mapping}})
      .and_then(
          [](sandbox::OpenedFile opened) { return sandbox::FileMemory::from(std::move(opened)); });
}

CodeReader::File CodeReader::made_of(const std::string& name, OpenedFile file) {
  auto code = std::make_shared<CodeFile>();
  code->name = name;
  if (!file) {
    rules_->report(name, file.error().message);
    return code;
  }
  code->file = std::move(*file);
  auto rules = rules_->open(code->file, name);
  if (rules)
    code->rules = std::move(*rules);
  else if (!name.starts_with("/memfd:"))  // code made at run time: no file has rules for it
    rules_->report(name, rules.error().message);
  if (code->rules && code->rules->vdso_call())
    go_files_.push_back({code->file, *code->rules->vdso_call()});
  return code;
}

/// A process can write to its own: only what equals ours is shared with other processes.
CodeReader::File CodeReader::vdso_of(int proc_dir, const target::Mapping& mapping) {
  auto image = read_image(proc_dir, mapping);
  if (!image) return made_of(mapping.name, tl::unexpected(std::move(image.error())));
  const bool is_kernels = *image == our_vdso();
  if (is_kernels && vdso_ != nullptr) return vdso_;
  File file = made_of(mapping.name, copy_image(*image));
  if (is_kernels) vdso_ = file;
  return file;
}

/// It may have been written to since: what is mapped is what it says now.
const CodeReader::File& CodeReader::up_to_date(File& code) {
  if (code->file->has_changed()) code = made_of(code->name, code->file->reopened());
  return code;
}

/// What cannot be opened is this process's own trouble: another one may have the file.
CodeReader::File CodeReader::file_of(int proc_dir, const target::Mapping& mapping) {
  if (mapping.inode == 0) return mapping.name == "[vdso]" ? vdso_of(proc_dir, mapping) : nullptr;
  const Key key(mapping.device, mapping.inode);
  if (const auto known = files_.find(key); known != files_.end() && known->second.as_in_maps)
    return up_to_date(known->second.code);
  OpenedFile file = open(proc_dir, mapping);
  if (!file) return made_of(mapping.name, std::move(file));
  const Key opened((*file)->identity().device, (*file)->identity().inode);
  const auto [known, is_new] = files_.try_emplace(opened);
  if (!is_new) return up_to_date(known->second.code);
  known->second = {made_of(mapping.name, std::move(file)), opened == key};
  return known->second.code;
}

Result<ProcessCode> CodeReader::read(int proc_dir, std::span<const target::Mapping> before,
                                     std::span<const File> files) {
  ProcessCode code;
  code.mappings = TRY(target::executable_mappings(proc_dir));
  std::vector<unwind::Region> regions;
  std::size_t at = 0;  // in `before`, which is by address, too
  std::shared_ptr<MadeCode> made;
  for (const target::Mapping& mapping : code.mappings) {
    while (at < before.size() && before[at].start < mapping.start) ++at;
    const bool is_known = at < before.size() && at < files.size() && before[at] == mapping &&
                          files[at] != nullptr &&
                          (files[at]->file == nullptr || !files[at]->file->has_changed());
    code.files.push_back(is_known ? files[at] : file_of(proc_dir, mapping));
    unwind::Region region{mapping.start, mapping.end, 0, nullptr};
    const auto rules = code.files.back() ? code.files.back()->rules : nullptr;
    if (const auto bias = rules ? rules->bias(mapping.start, mapping.offset) : std::nullopt) {
      region.bias = *bias;
      region.rules = rules;
    }
    if (mapping.inode == 0 && mapping.name.empty()) {
      if (made == nullptr) made = made_code(proc_dir);
      region.rules = made;
    }
    regions.push_back(std::move(region));
  }
  code.map = unwind::CodeMap(std::move(regions));
  return code;
}

void CodeReader::forget_unused() {
  std::erase_if(files_, [](const auto& entry) { return entry.second.code.use_count() == 1; });
}

namespace {

using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

constexpr std::size_t programs_kept = 4;  // of one process
/// Between two looks at the mappings of a process. A program that runs outside of all code that is
/// known, and goes on to, is looked at ever more seldom.
constexpr milliseconds after_mapping{2};
constexpr milliseconds min_budget{10};
constexpr milliseconds max_budget{1000};

bool is_of(const SampledProgram& program, const vitrine_event_header& moment) {
  return program.image == 0 || moment.image == 0 || program.image == moment.image;
}

const SampledPrograms::Program& keep(ProgramHistory& its, SampledPrograms::Program program) {
  its.push_front(std::move(program));
  if (its.size() > programs_kept) its.pop_back();
  return its.front();
}

/// Of a process whose end was not reported, or not in time. Its last samples may still come: it is
/// so only the second time that it is found gone.
bool is_over(SampledProgram& program) {
  const bool was_sampled = std::exchange(program.sampled, false);
  if (!program.proc_dir) return !was_sampled;
  const bool is_gone = ::faccessat(program.proc_dir.get(), "stat", F_OK, 0) != 0;
  return std::exchange(program.gone, is_gone) && is_gone;
}

void learn_facts(SampledProgram& program) {
  ProcessFacts facts = read_facts(program.pid, program.proc_dir.get());
  if (!facts.command.empty()) program.facts = std::move(facts);  // else it is gone
}

/// What its parent says of itself that cannot hold for it. The rest does until it is looked at.
void of_a_child(ProcessFacts& facts) {
  facts.inner.pid = 0;
  std::erase_if(facts.context, [](const profile::Attribute& attribute) {
    return attribute.key == "process.pid" || attribute.key == "service.instance.id";
  });
}

}  // namespace

SampledPrograms::Program SampledPrograms::of(const vitrine_event_header& moment,
                                             ProgramHistory& its, bool has_pid) {
  for (const Program& program : its) {
    if (!is_of(*program, moment)) continue;
    program->sampled = true;
    if (program->stale && Clock::now() - program->read_at >= after_mapping) refresh(*program);
    return program;
  }
  Program program = has_pid ? read(moment.pid) : nullptr;
  if (program != nullptr && is_of(*keep(its, program), moment)) {
    if (program->facts.command.empty()) program->facts.command = bpf::comm_of(moment);  // a zombie
    return program;
  }
  // It is gone, or executes another program by now.
  auto unseen = std::make_shared<SampledProgram>();
  unseen->pid = moment.pid > 0 ? moment.pid : 0;
  unseen->image = moment.image;
  unseen->facts.command = bpf::comm_of(moment);
  return keep(its, std::move(unseen));
}

SampledPrograms::Program SampledPrograms::read(pid_t pid) {
  auto dir = target::open_at(AT_FDCWD, fmt::format("/proc/{}", pid), O_RDONLY | O_DIRECTORY);
  if (!dir) return nullptr;
  // What follows takes the lock that `stat` is read under, or waits for it.
  const auto stat = target::read_blocking_at(dir->get(), "stat", target::proc_file_bytes);
  if (!stat && stat.error().code == ErrorCode::limit)
    refusals_.insert(fmt::format("process {}: {}", pid, stat.error().message));
  if (!stat) return nullptr;
  auto program = std::make_shared<SampledProgram>();
  program->pid = pid;
  program->proc_dir = std::move(*dir);
  const int proc_dir = program->proc_dir.get();
  program->image = target::program_image(proc_dir);
  program->facts = read_facts(pid, proc_dir);
  if (auto root = target::open_at(proc_dir, "root", O_PATH | O_DIRECTORY)) {
    program->root = std::move(*root);
  } else if (root.error().code == ErrorCode::not_permitted) {
    const Error refused = target::access_refused(pid, proc_dir, "read the files of");
    refusals_.insert(refused.message + "; " + refused.remedy);
  }
  refresh(*program);
  program->budget = min_budget;
  // It executed another program meanwhile: the next sample finds that one.
  return target::program_image(proc_dir) == program->image ? program : nullptr;
}

bool SampledPrograms::refresh(SampledProgram& program) {
  program.read_at = Clock::now();
  program.stale = false;
  if (!program.proc_dir) return false;
  // Of a process that executes another program the mappings are not this one's.
  const int proc_dir = program.proc_dir.get();
  if (program.image != 0 && target::program_image(proc_dir) != program.image) return false;
  // It publishes its context once it runs, and it was looked at before that.
  if (program.facts.context.empty()) learn_facts(program);
  auto code = reader_.read(proc_dir, program.mappings, program.files);
  if (!code || code->mappings == program.mappings || code->mappings.empty()) return false;
  program.unwinder.replace(std::move(code->map));
  program.mappings = std::move(code->mappings);
  program.files = std::move(code->files);
  ++program.version;
  program.mapping_indices.clear();
  program.budget = min_budget;
  return true;
}

bool SampledPrograms::look_again(SampledProgram& program) {
  if (Clock::now() - program.read_at < program.budget) return false;
  if (refresh(program)) return true;
  program.budget = std::min(program.budget * 2, max_budget);
  return false;
}

void SampledPrograms::look_at(pid_t pid, ProgramHistory& its) {
  if (!its.empty()) {
    SampledProgram& last = *its.front();
    if (last.proc_dir && target::program_image(last.proc_dir.get()) == last.image) {
      refresh(last);
      return;
    }
  }
  if (Program program = read(pid)) keep(its, std::move(program));
}

ProgramHistory SampledPrograms::forked(pid_t child, const ProgramHistory& parent) {
  if (parent.empty()) return {};
  const SampledProgram& from = *parent.front();
  auto program = std::make_shared<SampledProgram>();
  program->pid = child;
  program->image = from.image;
  program->facts = from.facts;
  of_a_child(program->facts);
  program->mappings = from.mappings;
  program->files = from.files;
  program->unwinder.replace(from.unwinder.code());
  program->budget = min_budget;
  // What it maps itself is read from its own directory.
  if (auto dir = target::open_at(AT_FDCWD, fmt::format("/proc/{}", child), O_RDONLY | O_DIRECTORY))
    program->proc_dir = std::move(*dir);
  if (program->proc_dir)
    if (auto root = target::open_at(program->proc_dir.get(), "root", O_PATH | O_DIRECTORY))
      program->root = std::move(*root);
  return {std::move(program)};
}

void SampledPrograms::mapped(ProgramHistory& its) {
  if (!its.empty()) its.front()->stale = true;
}

bool SampledPrograms::tidy(ProgramHistory& its) {
  if (its.empty()) return false;
  SampledProgram& program = *its.front();
  const bool sampled = program.sampled;
  if (is_over(program)) return true;
  if (sampled && program.proc_dir && !program.gone &&
      target::program_image(program.proc_dir.get()) == program.image)
    learn_facts(program);
  return false;
}

std::vector<std::string> SampledPrograms::take_problems() {
  std::vector<std::string> problems(refusals_.begin(), refusals_.end());
  refusals_.clear();
  for (; reported_ < reader_.problems().size(); ++reported_)
    problems.push_back(reader_.problems()[reported_]);
  return problems;
}

}  // namespace vitrine::observe
