#include "observe/profile/kernel_stacks.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "unwind/rule_page.hpp"

namespace vitrine::observe {
namespace {

constexpr std::size_t max_differences = 5;        // that are reported
constexpr std::size_t shown_frames = 8;           // around the first that differs
constexpr std::size_t max_given = 8;              // spaces of a process, remembered
constexpr std::size_t max_seen_words = 1U << 20;  // 8 MiB

/// Why stacks are unwound from copies, by enum vitrine_unwound.
constexpr std::array<std::string_view, VITRINE_UNWOUNDS> reasons{
    "no unwinding in the kernel", "",
    "process not known yet",      "mappings just changed",
    "code not known yet",         "rules not loaded yet",
    "no rule for the kernel",     "stack not resident",
    "inconsistent stack",         "too many frames"};

std::uint32_t page_of(Address address) {
  return static_cast<std::uint32_t>(address >> VITRINE_UNWIND_PAGE_BITS);
}

/// The rules of a region, if they are a file's.
FileRules* rules_of(const CodeSince& code, std::uint32_t region) {
  if (region >= code.files.size() || code.files[region] == nullptr) return nullptr;
  const auto& rules = code.files[region]->rules;
  return rules != nullptr && code.unwinder.code()[region].rules == rules ? rules.get() : nullptr;
}

std::uint32_t file_of(const CodeSince& code, std::uint32_t region) {
  if (const FileRules* rules = rules_of(code, region)) return rules->number();
  return code.unwinder.code()[region].rules != nullptr ? VITRINE_UNWIND_JIT_CODE
                                                       : VITRINE_UNWIND_NO_FILE;
}

std::string text_of(const CodeSince& code, const std::vector<unwind::Frame>& frames,
                    std::size_t from) {
  std::string text;
  for (std::size_t n = from; n < std::min(frames.size(), from + shown_frames); ++n) {
    const std::uint32_t region = code.unwinder.code().find(frames[n].lookup());
    const bool is_known = region < code.mappings.size();
    const std::string& name = is_known ? code.mappings[region].name : std::string();
    text += fmt::format("{}{}+{:#x}", text.empty() ? "" : " < ", name.substr(name.rfind('/') + 1),
                        frames[n].pc - (is_known ? code.unwinder.code()[region].bias : Address{0}));
  }
  return text.empty() ? "nothing" : text;
}

}  // namespace

std::size_t SeenStacks::Hash::operator()(const Seen& seen) const {
  std::size_t hash = mix(seen.process, seen.version);
  for (const std::uint64_t word : seen.words) hash = mix(hash, word);
  return hash;
}

profile::Index SeenStacks::find(profile::Index process, std::uint64_t version,
                                const bpf::StackSample& sample) {
  last_.process = process;
  last_.version = version;
  last_.words.assign(sample.kernel_stack.begin(), sample.kernel_stack.end());
  last_.words.push_back(sample.kernel_stack.size());
  last_.words.insert(last_.words.end(), sample.frames.begin(), sample.frames.end());
  const auto [at, there] = seen_.find(last_);
  return there ? stacks_[at] : profile::none;
}

void SeenStacks::add(profile::Index stack) {
  words_ += last_.words.size();
  if (words_ > max_seen_words) clear();
  seen_.add(last_);
  stacks_.push_back(stack);
}

void SeenStacks::clear() {
  seen_.take();
  stacks_.clear();
  words_ = 0;
}

void KernelStacks::require_space(const bpf::StackSample& sample, const SampledProgram& program,
                                 const CodeHistory::Code& code, std::uint64_t known_ns) {
  if (program.image == 0 || !program.code.is_last(*code) || code->mappings.empty()) return;
  const vitrine_event_header& event = sample.head.event;
  const pid_t kernel_tgid = event.kernel_tgid;
  const std::uint64_t execution = vitrine_execution_of(
      event.process_start_ns, static_cast<std::uint32_t>(kernel_tgid), sample.head.exec_id);
  Known& known = known_[kernel_tgid];
  if (known.execution == execution && known.version == code->version &&
      known.epoch == tables_->epoch()) {
    if (sample.head.unwound == VITRINE_UNWOUND_CHANGED)
      tables_->confirm_space(kernel_tgid, known_ns);
    return;
  }
  std::vector<vitrine_unwind_region> regions;
  const auto& its = code->unwinder.code().regions();
  for (std::uint32_t n = 0; n < its.size(); ++n)
    regions.push_back({its[n].start, its[n].end, its[n].bias, file_of(*code, n), 0});
  ++given_;
  const std::uint32_t id = tables_->set_space(kernel_tgid, execution, regions, known_ns);
  known.execution = execution;
  known.version = code->version;
  known.epoch = tables_->epoch();
  if (id != 0) known.given.emplace_front(id, code);
  if (known.given.size() > max_given) known.given.pop_back();
}

void KernelStacks::require_page(const CodeSince& code, Address lookup) {
  const std::uint32_t region = code.unwinder.code().find(lookup);
  FileRules* rules = rules_of(code, region);
  if (rules == nullptr) return;
  const Address address = lookup - code.unwinder.code()[region].bias;
  if (tables_->has_page(rules->number(), page_of(address))) return;
  ++given_;
  tables_->add_page(rules->number(), page_of(address), rules->page(address), rules->machine());
}

bool KernelStacks::were_known(const bpf::StackSample& sample, const CodeSince& code,
                              const std::vector<unwind::Frame>& frames) {
  const auto its = known_.find(sample.head.event.kernel_tgid);
  const CodeSince* given = nullptr;
  if (its != known_.end())
    for (const auto& [id, its_code] : its->second.given)
      if (id == sample.head.space) given = its_code.get();
  if (given != nullptr && given->version == code.version) return true;
  const bool are_same =
      given != nullptr && std::ranges::all_of(frames, [&](const unwind::Frame& frame) {
        const std::uint32_t at = given->unwinder.code().find(frame.lookup());
        if (at == unwind::no_region || frame.region == unwind::no_region) return at == frame.region;
        const unwind::Region& now = code.unwinder.code()[frame.region];
        const unwind::Region& then = given->unwinder.code()[at];
        return now.bias == then.bias && now.rules == then.rules;
      });
  if (!are_same) {
    --counts_[VITRINE_UNWOUND_WHOLE];
    count(VITRINE_UNWOUND_CHANGED, 1);
  }
  return are_same;
}

void KernelStacks::take(const bpf::StackSample& sample, const SampledProgram& program,
                        const CodeHistory::Code& code, std::uint64_t known_ns) {
  if (sample.registers.empty()) {
    count(without_user_code, 1);
    return;
  }
  count(sample.head.unwound, 1);
  if (on()) require_space(sample, program, code, known_ns);
}

bool KernelStacks::frames_of(const bpf::StackSample& sample, const unwind::CodeMap& code,
                             std::vector<unwind::Frame>& into) {
  into.clear();
  if (sample.head.unwound != VITRINE_UNWOUND_WHOLE) return false;
  std::uint32_t last = unwind::no_region;  // a caller is most often in the same region
  const auto add = [&](std::uint64_t word) {
    unwind::Frame frame{word & ~VITRINE_UNWIND_RETURNS, last, (word & VITRINE_UNWIND_RETURNS) != 0};
    const Address lookup = frame.lookup();
    if (last == unwind::no_region || lookup < code[last].start || lookup >= code[last].end)
      last = frame.region = code.find(lookup);
    into.push_back(frame);
  };
  const std::size_t kept = sample.frames.size(), half = kept / 2;
  if (sample.head.frames <= kept || half == 0) {
    for (const std::uint64_t word : sample.frames) add(word);
    return true;
  }
  for (std::size_t n = 0; n < half; ++n) add(sample.frames[n]);
  // For what is not there: of a stack deeper than what is kept, the middle is left out.
  into.push_back(into.back());
  for (std::size_t n = 0; n < half; ++n) add(sample.frames[half + (sample.head.frames + n) % half]);
  return true;
}

void KernelStacks::learn(const bpf::StackSample& sample, const CodeSince& code,
                         const std::vector<unwind::Frame>& frames) {
  if (!on() || sample.head.unwound == VITRINE_UNWOUND_WHOLE) return;
  for (const unwind::Frame& frame : frames) require_page(code, frame.lookup());
  if (sample.head.unwound == VITRINE_UNWOUND_NO_PAGE) require_page(code, sample.head.unwound_to);
}

void KernelStacks::compare(const SampledProgram& program, const CodeSince& code,
                           const std::vector<unwind::Frame>& in_kernel,
                           const std::vector<unwind::Frame>& copied, unwind::End end) {
  if (in_kernel.size() > VITRINE_UNWIND_FRAMES) return;  // its middle is not there
  // The kernel sees all of the stack; of a copy its end may be missing.
  const bool is_cut = end == unwind::End::truncated || end == unwind::End::other_stack;
  const auto [in_copy, theirs] =
      std::mismatch(copied.begin(), copied.end(), in_kernel.begin(), in_kernel.end());
  ++compared_;
  if (in_copy == copied.end() && (theirs == in_kernel.end() || is_cut)) {
    ++agreed_;
    return;
  }
  if (compared_ - agreed_ > max_differences) return;
  const auto at = static_cast<std::size_t>(in_copy - copied.begin());
  const std::size_t from = at == 0 ? 0 : at - 1;
  notes_.push_back(fmt::format("process {}: frame {} differs: in the kernel {}; from the copy {}",
                               program.pid, at, text_of(code, in_kernel, from),
                               text_of(code, copied, from)));
}

void KernelStacks::departed(pid_t kernel_tgid) {
  if (known_.erase(kernel_tgid) != 0) tables_->forget(kernel_tgid);
}

bool KernelStacks::copies_often() const {
  std::uint64_t all = 0, copies = 0;
  for (std::size_t n = 0; n < without_user_code; ++n) {
    all += counts_[n];
    if (n >= VITRINE_UNWOUND_NO_RULE) copies += counts_[n];
  }
  return copies * 100 > all;
}

UnwindCounts KernelStacks::counts() const {
  UnwindCounts out;
  out.in_kernel = counts_[VITRINE_UNWOUND_WHOLE];
  out.without_user_code = counts_[without_user_code];
  out.compared = compared_;
  out.agreed = agreed_;
  for (std::size_t n = 0; n < reasons.size(); ++n)
    if (n != VITRINE_UNWOUND_WHOLE && counts_[n] != 0)
      out.from_copies.emplace_back(reasons[n], counts_[n]);
  return out;
}

}  // namespace vitrine::observe
