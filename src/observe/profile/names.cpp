#include "observe/profile/names.hpp"

#include <fcntl.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <functional>
#include <set>
#include <span>
#include <utility>

#include "base/interner.hpp"
#include "base/pack.hpp"
#include "base/signals.hpp"
#include "base/text.hpp"
#include "elf/file.hpp"
#include "elf/notes.hpp"
#include "sandbox/worker.hpp"
#include "symbol/function_symbols.hpp"
#include "target/mapped_files.hpp"
#include "target/maps.hpp"
#include "target/proc_file.hpp"

namespace vitrine::observe {
namespace {

constexpr std::size_t max_kernel_notes = 64 * 1024;

/// Of what a profile has seen of CPUs, and of its duration, debug information may take so much where profiles
/// follow one another: two per mille, and a tenth of that.
constexpr std::uint64_t part_of_cpus = 500, part_of_duration = 5000;

using profile::Index;
using profile::none;

struct FunctionHash {
  std::size_t operator()(const profile::Function& function) const {
    constexpr std::hash<std::string_view> text;
    return mix(mix(text(function.name), text(function.system_name)),
               text(function.file) + function.start_line);
  }
};

/// Functions of a profile, each once.
class Functions {
 public:
  profile::Line line_of(const symbol::Frame& frame) {
    return {
        all_.add(profile::Function{frame.name, frame.system_name, frame.file, frame.start_line}),
        frame.line};
  }
  std::vector<profile::Function> take() { return all_.take(); }

 private:
  Interner<profile::Function, FunctionHash> all_;
};

std::chrono::nanoseconds time_for_details(const profile::Profile& profile) {
  std::uint64_t on_cpu = 0;
  for (const profile::Sample& sample : profile.samples)
    if (sample.measure == profile::Measure::on_cpu) on_cpu += sample.value_ns;
  return std::chrono::nanoseconds(on_cpu / part_of_cpus + profile.duration_ns / part_of_duration);
}

/// Of the running kernel; empty: it has none.
std::string kernel_build_id() {
  const auto notes = target::read_file_at(AT_FDCWD, "/sys/kernel/notes", max_kernel_notes);
  if (!notes) return {};
  return hex_text(elf::build_id(std::as_bytes(std::span<const char>(*notes)), elf::Encoding{}, 4));
}

/// .NET writes JIT code through one mapping of a memfd, and executes it in another.
bool is_jit_code(const MappedCode& mapped) {
  return mapped.file != nullptr && mapped.file->rules == nullptr &&
         mapped.mapping.name.starts_with("/memfd:");
}

bool has_file(const MappedCode& mapped) {
  return mapped.file != nullptr && mapped.file->file != nullptr;
}

/// The places that one file has a name for.
struct Asked {
  const MappedCode* mapped = nullptr;  // one that the file has
  std::vector<Index> places;
  std::vector<Address> addresses;  // the file's own
};

/// The files of a profile that are asked for names.
class AskedFiles {
 public:
  AskedFiles(std::span<const SampledPrograms::Program> processes,
             std::span<const MappedCode> mappings)
      : processes_(processes),
        mappings_(mappings),
        our_root_(target::open_at(AT_FDCWD, "/", O_PATH | O_DIRECTORY)) {}

  /// A place that a file may have a name for. Other places are left alone.
  void add(const Place& place, Index at) {
    if (place.kind == profile::FrameKind::kernel || place.mapping == none) return;
    const MappedCode& mapped = mappings_[place.mapping];
    if (!has_file(mapped) || mapped.file->rules == nullptr) return;
    Asked& of_file = asked_[{mapped.file.get(), {root_of(mapped.process), mapped.mapping.name}}];
    of_file.mapped = &mapped;
    of_file.places.push_back(at);
    of_file.addresses.push_back(place.address - mapped.bias);
  }

  [[nodiscard]] std::string path_of(const MappedCode& mapped) const {
    if (!has_file(mapped)) return target::without_deleted(mapped.mapping.name);
    const auto& root = processes_[mapped.process]->root;
    return target::without_deleted(mapped.mapping.name, mapped.file->file->original(),
                                   root ? root->get() : -1);
  }

  [[nodiscard]] symbol::File file_of(const MappedCode& mapped) const {
    symbol::File file;
    file.path = path_of(mapped);
    file.descriptor = mapped.file->file->descriptor();
    file.identity = mapped.file->file->identity();
    // Where the process looks, then where we do.
    const SampledProgram& program = *processes_[mapped.process];
    if (program.root) file.root_dirs.push_back(program.root->get());
    if (our_root_) file.root_dirs.push_back(our_root_->get());
    return file;
  }

  /// All that were added, and what the files of `mappings` are.
  void ask(symbol::BackgroundSymboliser& symboliser, std::span<const MappedCode> mappings) const {
    for (const auto& [key, its] : asked_) symboliser.ask(file_of(*its.mapped), its.addresses);
    for (const MappedCode& mapped : mappings)
      if (has_file(mapped)) symboliser.ask(file_of(mapped), {});
  }

  /// By file, and by the process that it is of where that looks elsewhere for debug files.
  using Files =
      std::map<std::pair<const CodeFile*, std::pair<sandbox::PlaceIdentity, std::string>>, Asked>;
  [[nodiscard]] const Files& all() const { return asked_; }

 private:
  sandbox::PlaceIdentity root_of(Index process) {
    const auto [known, is_new] = roots_.try_emplace(process);
    const SampledProgram& program = *processes_[process];
    if (is_new && program.root) known->second = sandbox::place_identity(program.root->get());
    return known->second;
  }

  std::span<const SampledPrograms::Program> processes_;
  std::span<const MappedCode> mappings_;
  Result<target::FileDescriptor> our_root_;
  Files asked_;
  std::map<Index, sandbox::PlaceIdentity> roots_;  // of processes
};

/// Functions of Go's runtime that are a thread's first, or where a stack of its own begins (g0).
bool is_root_of_go(std::string_view name) {
  constexpr std::array roots{"runtime.mcall",
                             "runtime.mstart",
                             "runtime.clone",
                             "runtime.goexit",
                             "runtime.rt0_go",
                             "runtime.morestack",
                             "runtime.sigreturn__sigaction"};
  return std::ranges::find(roots, name) != roots.end();
}

/// Whether a thread returns from `clone` for the first time: its stack has no frames yet.
bool is_new_thread(const profile::Profile& profile, const profile::Stack& stack) {
  if (stack.locations.size() < 2) return false;
  const profile::Location& entry = profile.locations[stack.locations[stack.locations.size() - 2]];
  return entry.kind == profile::FrameKind::kernel && !entry.lines.empty() &&
         profile.functions[entry.lines.back().function].name.starts_with("ret_from_fork");
}

/// Stacks that end where a stack begins, which no call frame information records.
void mark_whole(profile::Profile& profile) {
  for (profile::Stack& stack : profile.stacks) {
    if (stack.end != profile::StackEnd::no_rule && stack.end != profile::StackEnd::bad) continue;
    if (stack.locations.empty()) continue;
    const profile::Location& last = profile.locations[stack.locations.back()];
    if (is_new_thread(profile, stack) ||
        (!last.lines.empty() && is_root_of_go(profile.functions[last.lines.back().function].name)))
      stack.end = profile::StackEnd::outermost;
  }
}

/// What a profile has of the JIT code of a process.
struct RuntimeCode {
  bool named = false, unnamed = false;
  std::size_t stacks = 0, cut_stacks = 0;  ///< that it is in, and that end in it

  /// Stubs of a runtime may have no callers in any case.
  [[nodiscard]] bool lacks_callers() const { return cut_stacks * 10 > stacks; }
};

/// What the user must add for a runtime's functions to have names and callers; empty: nothing, or not
/// known.
std::string remedy_of(const SampledProgram& program, const CodeSince& code,
                      const RuntimeCode& jit) {
  const std::string& path = program.facts.executable;
  const std::string name = path.substr(path.rfind('/') + 1);
  const auto maps = [&](std::string_view file) {
    return std::ranges::any_of(code.mappings, [&](const target::Mapping& mapping) {
      const std::size_t at = mapping.name.rfind('/') + 1;
      return mapping.name.compare(at, file.size(), file) == 0;
    });
  };
  if (maps("libjvm.so")) {
    constexpr std::string_view map =
        "a perf map (jcmd PID Compiler.perfmap, or the agent perf-map-agent)";
    const bool has_map = jit.named;  // as it was when that was written
    if (jit.unnamed && !has_map && jit.lacks_callers())
      return fmt::format(
          "Java code has no names or callers: start it with -XX:+PreserveFramePointer and {}", map);
    if (jit.lacks_callers())
      return "Java code has no callers: start it with -XX:+PreserveFramePointer";
    if (jit.unnamed && has_map)
      return "Java code that is newer than its perf map has no names: write the map again (jcmd "
             "PID "
             "Compiler.perfmap)";
    return jit.unnamed ? fmt::format("Java code has no names: it needs {}", map) : std::string();
  }
  if (jit.named) return {};
  if ((name == "node" || name == "nodejs") && jit.unnamed)
    return "JavaScript functions have no names: start it with node --perf-basic-prof";
  // CPython has this since 3.12.
  for (int minor = 12; minor <= 19; ++minor) {
    const std::string version = "3." + std::to_string(minor);
    if (name == "python" + version || maps("libpython" + version))
      return "Python functions have no names: start it with python3 -X perf";
  }
  return {};
}

/// One sentence for each process of a runtime that was not prepared.
void advise(const UnnamedProfile& unnamed, profile::Profile& profile) {
  std::vector<RuntimeCode> jit(unnamed.processes.size());
  for (std::size_t i = 0; i < unnamed.places.size(); ++i) {
    const Index process = unnamed.places[i].process;
    if (process == none || process >= jit.size()) continue;
    RuntimeCode& its = jit[process];
    (profile.locations[i].kind == profile::FrameKind::jit ? its.named : its.unnamed) = true;
  }
  for (const profile::Stack& stack : profile.stacks) {
    const auto process_at = [&](Index location) { return unnamed.places[location].process; };
    const auto at = std::ranges::find_if(
        stack.locations, [&](Index location) { return process_at(location) < jit.size(); });
    if (at == stack.locations.end()) continue;
    RuntimeCode& its = jit[process_at(*at)];
    ++its.stacks;
    if (stack.end == profile::StackEnd::no_rule && process_at(stack.locations.back()) != none)
      ++its.cut_stacks;
  }
  // One that has executed another program is there more than once, and may have begun without names.
  std::set<pid_t> named;
  for (std::size_t i = 0; i < jit.size(); ++i)
    if (jit[i].named) named.insert(unnamed.processes[i]->pid);
  constexpr std::size_t max_advice = 8;
  std::size_t given = 0;
  for (std::size_t i = 0; i < unnamed.processes.size() && given < max_advice; ++i) {
    const SampledProgram& program = *unnamed.processes[i];
    jit[i].named = named.contains(program.pid);
    const std::string remedy = remedy_of(program, *unnamed.codes[i], jit[i]);
    if (remedy.empty()) continue;
    ++given;
    profile.problems.push_back("process " + std::to_string(program.pid) + " (" +
                               program.facts.command + "): " + remedy);
  }
}

}  // namespace

void ProfileNames::begin_kernel() {
  const auto read = [] {
    try {
      auto symbols = target::open_at(AT_FDCWD, "/proc/kallsyms", O_RDONLY)
                         .and_then([](const target::FileDescriptor& file) {
                           return symbol::KernelSymbols::read(file.get());
                         });
      if (symbols) return Kernel{std::move(*symbols), {}};
      const Error& error = symbols.error();
      return Kernel{
          {}, "[kernel]: " + error.message + (error.remedy.empty() ? "" : "; " + error.remedy)};
    } catch (const std::bad_alloc&) {
      return Kernel{{}, "[kernel]: not enough memory for its symbols"};
    }
  };
  // Where no thread can be started, they are read when they are needed.
  std::call_once(kernel_begun_, [&] {
    const SignalsBlocked blocked;  // signals are for the other threads
    *kernel_ = std::async(std::launch::async | std::launch::deferred, read).share();
  });
}

profile::Profile ProfileNames::name(UnnamedProfile& unnamed, bool symbols,
                                    const symbol::BackgroundSymboliser::TimeBudget& budget) {
  profile::Profile profile = std::move(unnamed.profile);
  Functions functions;
  const auto put = [&](Index place, const symbol::Frames& frames) {
    for (const symbol::Frame& frame : frames)
      profile.locations[place].lines.push_back(functions.line_of(frame));
  };
  AskedFiles files(unnamed.processes, unnamed.mappings);
  bool has_kernel = false;
  std::set<Index> jit_read;  // processes whose perf map has been read
  jit_memory_.begin_round();
  const auto put_jit = [&](Index place, Index process, Address address) {
    SampledProgram& program = *unnamed.processes[process];
    if (program.root && jit_read.insert(process).second) {
      const target::InnerIdentity& identity = unnamed.identities[process];
      const std::shared_ptr<symbol::JitSymbols> symbols(unnamed.processes[process], &program.jit);
      auto problem =
          jit_memory_.refresh(symbols, program.root->get(), identity.pid, identity.owner);
      if (!problem.empty()) profile.problems.push_back(std::move(problem));
    }
    const auto function = program.jit.find(address);
    if (!function) return;
    put(place, {{std::string(function->name), {}, {}, 0, 0}});
    profile.locations[place].kind = profile::FrameKind::jit;
  };
  for (std::size_t i = 0; i < unnamed.places.size(); ++i) {
    const Place& place = unnamed.places[i];
    const auto at = static_cast<Index>(i);
    const bool is_text = place.mapping == none && place.process == none;
    profile.locations.push_back({place.mapping, is_text ? 0 : place.address, place.kind, {}, {}});
    if (!symbols && !is_text) continue;
    if (place.kind == profile::FrameKind::kernel) {
      if (const auto name = ask_kernel_ ? ask_kernel_(place.address) : std::nullopt) {
        if (!name->empty()) put(at, {{*name, {}, {}, 0, 0}});
        continue;
      }
      has_kernel = true;
      begin_kernel();
      const auto& known = kernel_->get().symbols;
      const auto function = known ? known->find(place.address) : std::nullopt;
      if (function) put(at, {{std::string(function->name), {}, {}, 0, 0}});
    } else if (is_text) {
      put(at, {{unnamed.texts[place.address], {}, {}, 0, 0}});
    } else if (place.mapping == none) {
      put_jit(at, place.process, place.address);
    } else if (is_jit_code(unnamed.mappings[place.mapping])) {
      put_jit(at, unnamed.mappings[place.mapping].process, place.address);
    } else {
      files.add(place, at);
    }
  }

  if (has_kernel && !kernel_->get().problem.empty())
    profile.problems.push_back(kernel_->get().problem);
  symboliser_->allow(time_for_details(profile));
  files.ask(*symboliser_, unnamed.mappings);
  symboliser_->wait(budget);
  for (const auto& [key, its] : files.all()) {
    const symbol::File file = files.file_of(*its.mapped);
    auto known = symboliser_->names(symbol::key_of(file), its.addresses);
    std::string& problem = known.resolved.problem;
    if (known.unresolved != 0 && problem.empty()) problem = "it was not parsed in time";
    profile.losses.unnamed += known.unresolved;
    for (std::size_t n = 0; n < its.places.size(); ++n) {
      symbol::Frames& frames = known.resolved.frames[n];
      // A function that only its frame's start names.
      if (frames.size() == 1 && frames[0].name.starts_with("+0x"))
        frames[0].name.insert(0, file.path.substr(file.path.rfind('/') + 1));
      put(its.places[n], frames);
    }
    if (problem.empty()) continue;
    profile.problems.push_back(file.path + ": " + problem);
    for (const Index place : its.places)
      if (profile.locations[place].lines.empty()) profile.locations[place].problem = problem;
  }
  profile.functions = functions.take();
  mark_whole(profile);
  if (symbols) advise(unnamed, profile);

  for (const MappedCode& mapped : unnamed.mappings) {
    profile::Mapping mapping{mapped.mapping.start,
                             mapped.mapping.end,
                             mapped.mapping.offset,
                             files.path_of(mapped),
                             {},
                             {}};
    if (mapped.file == nullptr) {
      mapping.build_id = kernel_build_id();
    } else if (has_file(mapped)) {
      symbol::FileNumbers numbers = symboliser_->numbers(symbol::key_of(files.file_of(mapped)));
      mapping.build_id = std::move(numbers.build_id);
      mapping.content_hash = std::move(numbers.content_hash);
    }
    profile.mappings.push_back(std::move(mapping));
  }
  return profile;
}

void ProfileNames::ask_ahead(const ProfileBuilder& builder) {
  const auto places = builder.places();
  const auto mappings = builder.mappings();
  if (places.size() < places_asked_ || mappings.size() < mappings_asked_)
    places_asked_ = mappings_asked_ = 0;  // it is of another profile
  if (places.size() == places_asked_ && mappings.size() == mappings_asked_) return;
  AskedFiles files(builder.processes(), mappings);
  for (std::size_t at = places_asked_; at < places.size(); ++at) {
    if (!ask_kernel_ && places[at].kind == profile::FrameKind::kernel) begin_kernel();
    files.add(places[at], static_cast<Index>(at));
  }
  files.ask(*symboliser_, mappings.subspan(mappings_asked_));
  places_asked_ = places.size();
  mappings_asked_ = mappings.size();
}

}  // namespace vitrine::observe
