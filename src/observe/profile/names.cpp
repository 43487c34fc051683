#include "observe/profile/names.hpp"

#include <fcntl.h>

#include <algorithm>
#include <chrono>
#include <set>
#include <span>
#include <utility>

#include "base/interner.hpp"
#include "base/limits.hpp"
#include "base/text.hpp"
#include "elf/file.hpp"
#include "elf/notes.hpp"
#include "sandbox/worker.hpp"
#include "symbol/executable_symbols.hpp"
#include "target/maps.hpp"
#include "target/proc_file.hpp"

namespace vitrine::observe {
namespace {

using Clock = std::chrono::steady_clock;

/// Of one profile: nobody looks at the ring buffer meanwhile.
constexpr std::chrono::seconds longest_naming{60};

constexpr std::size_t max_kernel_notes = 64 * 1024;

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

/// Of the running kernel; empty: it tells none.
std::string kernel_build_id() {
  const auto notes = target::read_file_at(AT_FDCWD, "/sys/kernel/notes", max_kernel_notes);
  if (!notes) return {};
  return hex_text(elf::build_id(std::as_bytes(std::span<const char>(*notes)), elf::Encoding{}, 4));
}

/// In a worker. Empty: it has none.
Result<std::string> read_build_id(const worker::Nothing&, FileDescriptor descriptor) {
  const auto file = TRY(file::FileMemory::from(std::move(descriptor)));
  const auto elf = TRY(elf::read_file(*file));
  return elf::hex_build_id(*file, elf);
}

/// The places that one file has a name for.
struct Asked {
  const MappedCode* mapped = nullptr;  // one that the file has
  std::vector<Index> places;
  std::vector<Address> addresses;  // the file's own
};

}  // namespace

const ProfileNames::FileNames& ProfileNames::names_of(const CodeFile& code) {
  const auto [known, is_new] = files_.try_emplace(code.file->identity());
  if (!is_new) return known->second;
  FileNames& names = known->second;
  names.build_id = worker::Parser::of_this_thread()
                       .ask<&read_build_id>({}, code.file->descriptor())
                       .value_or(std::string());
  names.content_hash = content_hash(
      *code.file, static_cast<std::uint64_t>(std::max<std::int64_t>(0, known->first.size)));
  return names;
}

void ProfileNames::require_kernel(std::vector<std::string>& problems) {
  if (std::exchange(looked_at_kernel_, true)) return;
  auto symbols =
      target::read_file_at(AT_FDCWD, "/proc/kallsyms", limits::kernel_symbol_bytes)
          .and_then([](std::string text) { return symbol::KernelSymbols::parse(std::move(text)); });
  if (symbols)
    kernel_ = std::move(*symbols);
  else
    problems.push_back("[kernel]: " + symbols.error().message +
                       (symbols.error().remedy.empty() ? "" : "; " + symbols.error().remedy));
}

profile::Profile ProfileNames::name(UnnamedProfile unnamed, bool symbols) {
  profile::Profile profile = std::move(unnamed.profile);
  for (const SampledPrograms::Program& program : unnamed.processes)
    profile.processes.push_back({static_cast<std::uint32_t>(program->pid), program->facts.command,
                                 program->facts.executable,
                                 resource_of(program->pid, program->facts)});

  Functions functions;
  const auto put = [&](Index place, const symbol::Frames& frames) {
    for (const symbol::Frame& frame : frames)
      profile.locations[place].lines.push_back(functions.line_of(frame));
  };
  std::map<const CodeFile*, Asked> asked;
  std::set<Index> made;  // processes whose perf map has been read
  for (std::size_t i = 0; i < unnamed.places.size(); ++i) {
    const Place& place = unnamed.places[i];
    const auto at = static_cast<Index>(i);
    profile.locations.push_back({place.mapping, place.address, place.kind, {}, {}});
    if (!symbols) continue;
    if (place.kind == profile::FrameKind::kernel) {
      require_kernel(profile.problems);
      const auto function = kernel_ ? kernel_->find(place.address) : std::nullopt;
      if (function) put(at, {{std::string(function->name), {}, {}, 0, 0}});
    } else if (place.mapping == none) {
      SampledProgram& program = *unnamed.processes[place.process];
      if (program.root && made.insert(place.process).second)
        if (auto problem = program.made.refresh(program.root.get(), program.facts.inner.pid,
                                                program.facts.inner.owner);
            !problem.empty())
          profile.problems.push_back(std::move(problem));
      if (const auto function = program.made.find(place.address)) {
        put(at, {{std::string(function->name), {}, {}, 0, 0}});
        profile.locations.back().kind = profile::FrameKind::jit;
      }
    } else if (const MappedCode& mapped = unnamed.mappings[place.mapping];
               mapped.file != nullptr && mapped.file->file != nullptr &&
               mapped.file->rules != nullptr) {
      Asked& of_file = asked[mapped.file.get()];
      of_file.mapped = &mapped;
      of_file.places.push_back(at);
      of_file.addresses.push_back(place.address - mapped.bias);
    }
  }

  const auto end = Clock::now() + longest_naming;
  const auto our_root = target::open_at(AT_FDCWD, "/", O_PATH | O_DIRECTORY);
  for (const auto& [code, questions] : asked) {
    symbol::File file;
    file.path = target::without_deleted(code->name);
    file.descriptor = code->file->descriptor();
    // Where the process looks, then where we do.
    const SampledProgram& program = *unnamed.processes[questions.mapped->process];
    if (program.root) file.root_dirs.push_back(program.root.get());
    if (our_root) file.root_dirs.push_back(our_root->get());
    symbol::Answer answer;
    if (Clock::now() < end)
      answer = symboliser_.resolve(file, questions.addresses);
    else
      answer.problem = "no symbols: other files used up the time limit";
    for (std::size_t n = 0; n < questions.places.size() && n < answer.frames.size(); ++n)
      put(questions.places[n], answer.frames[n]);
    if (answer.problem.empty()) continue;
    profile.problems.push_back(file.path + ": " + answer.problem);
    for (const Index place : questions.places)
      if (profile.locations[place].lines.empty()) profile.locations[place].problem = answer.problem;
  }
  profile.functions = functions.take();

  for (const MappedCode& mapped : unnamed.mappings) {
    profile::Mapping mapping{mapped.mapping.start,
                             mapped.mapping.end,
                             mapped.mapping.offset,
                             target::without_deleted(mapped.mapping.name),
                             {},
                             {}};
    if (mapped.file == nullptr) {
      mapping.build_id = kernel_build_id();
    } else if (mapped.file->file != nullptr) {
      const FileNames& names = names_of(*mapped.file);
      mapping.build_id = names.build_id;
      mapping.content_hash = names.content_hash;
    }
    profile.mappings.push_back(std::move(mapping));
  }
  return profile;
}

}  // namespace vitrine::observe
