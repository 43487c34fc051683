#include "symbol/symboliser.hpp"

#include <fcntl.h>
#include <malloc.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "base/interner.hpp"
#include "base/limits.hpp"
#include "sandbox/files.hpp"
#include "sandbox/worker.hpp"
#include "symbol/debug_file.hpp"
#include "symbol/file_names.hpp"

namespace vitrine::symbol {
namespace {

constexpr std::size_t max_open_files = 64;  // in one worker
/// Of memory that is free, but not the kernel's again; or this part of what open files may have.
constexpr std::size_t max_free = 1U << 20;
constexpr std::uint64_t free_part = 16;

/// How much of a file is parsed: what it could not stand is not tried again.
enum class Extent { all, symbol_tables, nothing };

struct KnownFile {
  Extent extent = Extent::all;
  std::string problem;         ///< why it is not all
  std::string worker_problem;  ///< the worker's last report
  std::uint32_t number = 0;    ///< for the worker
  std::unordered_map<Address, Frames> frames;
  std::uint64_t used = 0;  ///< when it was last asked about
};

std::vector<std::byte> respond_to_naming(std::span<const std::byte> request, FileDescriptor file) {
  static const auto service = make_naming_service();  // of this worker
  return service->respond(request, std::move(file));
}

}  // namespace

struct Symboliser::State {
  State(const Limits& its_limits, Place its_place)
      : limits(its_limits),
        place(its_place),
        parser({limits.worker_memory, limits.time, limits.worker_data, limits.stop, limits.idle,
                limits.kept_memory, limits.trimmed_memory},
               "vitrine-symbols") {}

  Limits limits;
  Place place;
  sandbox::Parser parser;
  std::map<FileKey, KnownFile> files;
  std::uint32_t numbers = 0;  ///< given to files so far
  std::uint64_t requests = 0;

  /// The frames of addresses that are not known yet, a batch at a time.
  void learn(const File& file, KnownFile& known, std::span<const Address> addresses, Depth depth);
  bool ask(const File& file, KnownFile& known, std::span<const Address> addresses, Depth depth);
  Result<Resolved> ask_once(const File& file, KnownFile& known, std::span<const Address> addresses,
                            Depth depth);
  void make_room(const KnownFile& present);
};

Symboliser::Symboliser(Limits limits, Place place)
    : state_(std::make_unique<State>(limits, place)) {}

Symboliser::~Symboliser() = default;

sandbox::Parser& Symboliser::parser() {
  return state_->parser;
}

/// With the parser held.
Result<Resolved> Symboliser::State::ask_once(const File& file, KnownFile& known,
                                             std::span<const Address> addresses, Depth depth) {
  const DebugPlaces places{file.root_dirs, file.path};
  const Request request{std::vector(addresses.begin(), addresses.end()),
                        places.search(),
                        known.extent == Extent::all && depth == Depth::all,
                        place,
                        known.number,
                        limits.open_memory,
                        static_cast<std::uint32_t>(limits.inline_depth),
                        static_cast<std::uint32_t>(limits.name_bytes)};
  auto bytes = TRY(
      parser.ask_bytes(&respond_to_naming, pack::pack(request), file.descriptor, places.open()));
  if (bytes.size() > limits::symbol_response) return parser.invalid_response();
  auto resolved = decode_response(bytes, addresses.size(), limits);
  if (!resolved) return parser.invalid_response();
  return resolved;
}

/// False: the worker did not survive that. What one that had other files before does not survive may be
/// their work: it is tried again.
bool Symboliser::State::ask(const File& file, KnownFile& known, std::span<const Address> addresses,
                            Depth depth) {
  for (bool again = false;; again = true) {
    const auto held = parser.hold();
    if (!held) {  // that is not the file's fault
      known.worker_problem = held.error().message;
      return true;
    }
    const bool is_alone = parser.responses() == 0;
    auto resolved = ask_once(file, known, addresses, depth);
    if (!resolved) {
      if (!again && !is_alone && !parser.took_too_long()) continue;
      known.problem = resolved.error().message;
      return false;
    }
    known.worker_problem = std::move(resolved->problem);
    for (std::size_t i = 0; i < addresses.size(); ++i)
      known.frames[addresses[i]] = std::move(resolved->frames[i]);
    return true;
  }
}

void Symboliser::State::learn(const File& file, KnownFile& known,
                              std::span<const Address> addresses, Depth depth) {
  for (std::size_t at = 0; at < addresses.size(); at += limits::symbol_batch) {
    const auto batch = addresses.subspan(at, std::min(limits::symbol_batch, addresses.size() - at));
    while (known.extent != Extent::nothing && !ask(file, known, batch, depth)) {
      const bool tables_left = known.extent == Extent::all && depth == Depth::all;
      known.extent = tables_left ? Extent::symbol_tables : Extent::nothing;
      known.problem += tables_left ? "; names come from its symbol table" : "; it has no names";
    }
  }
}

/// Forgets the files that were asked about longest ago.
void Symboliser::State::make_room(const KnownFile& present) {
  for (;;) {
    std::size_t frames = 0;
    auto oldest = files.end();
    for (auto at = files.begin(); at != files.end(); ++at) {
      frames += at->second.frames.size();
      if (&at->second == &present) continue;
      if (oldest == files.end() || at->second.used < oldest->second.used) oldest = at;
    }
    if (oldest == files.end() ||
        (files.size() <= limits::symbol_files && frames <= limits::symbol_frames))
      return;
    files.erase(oldest);
  }
}

FileKey key_of(const File& file) {
  return {file.identity.value_or(sandbox::FileIdentity{}),
          DebugPlaces{file.root_dirs, file.path}.key()};
}

Resolved Symboliser::resolve(const File& file, std::span<const Address> addresses, Depth depth) {
  Resolved resolved;
  resolved.frames.resize(addresses.size());
  auto identity = file.identity;
  if (!identity) {
    auto memory =
        sandbox::FileMemory::from(FileDescriptor(::fcntl(file.descriptor, F_DUPFD_CLOEXEC, 0)));
    if (!memory) {
      resolved.problem = memory.error().message;
      return resolved;
    }
    identity = (*memory)->identity();
  }
  KnownFile& known = state_->files[{*identity, DebugPlaces{file.root_dirs, file.path}.key()}];
  if (known.number == 0) known.number = ++state_->numbers;
  known.used = ++state_->requests;
  if (known.frames.size() > limits::symbol_frames) known.frames.clear();
  std::vector<Address> fresh;
  for (const Address address : addresses)
    if (!known.frames.contains(address)) fresh.push_back(address);
  std::sort(fresh.begin(), fresh.end());
  fresh.erase(std::unique(fresh.begin(), fresh.end()), fresh.end());
  if (!fresh.empty()) {
    state_->learn(file, known, fresh, depth);
    state_->make_room(known);
  }
  for (std::size_t i = 0; i < addresses.size(); ++i)
    if (const auto found = known.frames.find(addresses[i]); found != known.frames.end())
      resolved.frames[i] = found->second;
  if (!state_->limits.keeps_names || depth != Depth::all)
    std::unordered_map<Address, Frames>().swap(
        known.frames);  // an assignment would keep its buckets
  resolved.reduced = known.extent != Extent::all;
  resolved.problem = known.problem.empty() ? known.worker_problem : known.problem;
  return resolved;
}

namespace {

constexpr std::size_t problem_bytes = 64 * 1024;

/// A frame, its strings as positions: name, system name, file, line, start line, offset.
using FoldedFrame = std::array<std::uint32_t, 6>;

constexpr std::uint32_t no_offset = ~0U;

/// A response in which each string is there once: names come again and again.
struct Folded {
  std::string problem;
  std::vector<std::string> strings;
  std::vector<std::vector<FoldedFrame>> frames;
};

template <pack::Of<Folded> T>
auto fields(T& folded) {
  auto& [problem, strings, frames] = folded;
  return std::tie(problem, strings, frames);
}

/// Texts, each once, and how many bytes they need.
class Strings {
 public:
  std::uint32_t position(const std::string& text) {
    const std::size_t before = all_.size();
    const std::uint32_t at = all_.add(text);
    if (all_.size() != before) bytes_ += text.size() + sizeof(std::uint32_t);
    return at;
  }
  [[nodiscard]] std::size_t bytes() const { return bytes_; }
  std::vector<std::string> take() { return all_.take(); }

 private:
  StringInterner all_;
  std::size_t bytes_ = 0;
};

}  // namespace

std::vector<std::byte> encode_response(const Resolved& resolved) {
  Folded folded;
  folded.problem = resolved.problem.substr(0, problem_bytes / 2);
  Strings strings;
  bool full = false;
  std::size_t unfolded = 0, frame_bytes = 0;
  for (const Frames& frames : resolved.frames) {
    for (const Frame& frame : frames)
      unfolded += frame.name.size() + frame.system_name.size() + frame.file.size();
    frame_bytes += sizeof(std::uint32_t) + frames.size() * sizeof(FoldedFrame);
    full = full || unfolded > limits::symbol_unfolded ||
           strings.bytes() + frame_bytes > limits::symbol_response / 2;
    auto& into = folded.frames.emplace_back();
    if (full) continue;
    for (const Frame& frame : frames)
      into.push_back({strings.position(frame.name), strings.position(frame.system_name),
                      strings.position(frame.file), frame.line, frame.start_line,
                      frame.offset.value_or(no_offset)});
  }
  folded.strings = strings.take();
  if (full && folded.problem.empty())
    folded.problem = "some names are omitted: they exceed the size limit";
  return pack::pack(folded);
}

Result<Resolved> decode_response(std::span<const std::byte> bytes, std::size_t addresses,
                                 const Limits& limits) {
  const auto malformed = [] {
    return fail(ErrorCode::malformed, "the worker returned an invalid response");
  };
  auto folded = pack::unpack<Folded>(bytes);
  if (!folded || folded->frames.size() != addresses || folded->problem.size() > problem_bytes)
    return malformed();
  const auto& strings = folded->strings;
  for (const std::string& one : strings)
    if (one.size() > limits.name_bytes) return malformed();
  Resolved resolved;
  resolved.problem = std::move(folded->problem);
  resolved.frames.resize(addresses);
  // Short positions of long strings: what they unfold to is bounded as well.
  std::size_t unfolded = 0;
  for (std::size_t i = 0; i < addresses; ++i) {
    if (folded->frames[i].size() > limits.inline_depth) return malformed();
    for (const auto& [name, system_name, file, line, start_line, offset] : folded->frames[i]) {
      if (std::max({name, system_name, file}) >= strings.size()) return malformed();
      unfolded += strings[name].size() + strings[system_name].size() + strings[file].size();
      if (unfolded > limits::symbol_unfolded) return malformed();
      resolved.frames[i].push_back({strings[name], strings[system_name], strings[file], line,
                                    start_line,
                                    offset == no_offset ? std::nullopt : std::optional(offset)});
    }
  }
  return resolved;
}

namespace {

class NamingService final : public sandbox::Service {
 public:
  std::vector<std::byte> respond(std::span<const std::byte> request, FileDescriptor file) override {
    const auto asked = pack::unpack<Request>(request);
    if (!asked) return {};
    auto response = respond(*asked, std::move(file));
    make_room(asked->open_memory);
    return response;
  }

 private:
  struct OpenFile {
    std::vector<sandbox::FileIdentity> identities;
    FileNames names;
    std::uint64_t used = 0;  ///< by the count of requests
    bool has_dwarf = false;  ///< it may be open
  };

  std::vector<std::byte> respond(const Request& asked, FileDescriptor file) {
    OpenFile& open = open_file(asked, std::move(file));
    open.used = ++requests_;
    open.has_dwarf |= asked.with_dwarf;
    Resolved resolved;
    resolved.frames = open.names.find(asked.addresses, asked.with_dwarf, asked.place);
    resolved.problem = open.names.problem();
    return encode_response(resolved);
  }

  /// Mount namespaces have the same files: an open file is found by its identity.
  OpenFile& open_file(const Request& asked, FileDescriptor file) {
    const auto is_open = [&](bool with_dwarf) {
      const auto known = numbered_.find(asked.number);
      return known != numbered_.end() && (known->second->has_dwarf || !with_dwarf);
    };
    if (!is_open(asked.with_dwarf)) make_room_for(file, asked.open_memory);
    if (is_open(false)) return *numbered_.at(asked.number);
    auto sources = NameSources::find(std::move(file), asked.debug);
    auto identities = sources.identities();
    auto same = std::ranges::find_if(files_, [&](const auto& one) {
      return !identities.empty() && one->identities == identities;
    });
    if (same == files_.end()) {
      Limits limits;
      limits.inline_depth = asked.inline_depth;
      limits.name_bytes = asked.name_bytes;
      limits.open_memory = asked.open_memory;
      files_.push_back(std::make_unique<OpenFile>(
          OpenFile{std::move(identities), FileNames(std::move(sources), limits)}));
      same = std::prev(files_.end());
    }
    if (numbered_.size() >= limits::symbol_files) numbered_.clear();
    numbered_.emplace(asked.number, same->get());
    return **same;
  }

  /// A large file is opened with room for half of all.
  void make_room_for(const FileDescriptor& file, std::uint64_t most) {
    struct stat status {};
    if (::fstat(file.get(), &status) != 0) return;
    const auto size = static_cast<std::uint64_t>(std::max<off_t>(status.st_size, 0));
    make_room(most - std::min(most / 2, size));
  }

  /// Closes what was asked for longest ago: debug information first, as it has most of the memory and symbol
  /// tables suffice for names; the last one, too, if it needs all by itself.
  void make_room(std::uint64_t most) {
    std::ranges::sort(files_, {}, [](const auto& file) { return file->used; });
    const auto is_full = [&] { return allocated() > at_first_ + most; };
    for (auto at = files_.begin(); at != files_.end() && is_full(); ++at)
      if (std::exchange((*at)->has_dwarf, false)) (*at)->names.close_dwarf();
    while (!files_.empty() && (files_.size() > max_open_files || is_full())) {
      std::erase_if(numbered_, [&](const auto& one) { return one.second == files_.front().get(); });
      files_.erase(files_.begin());
    }
    if (const struct mallinfo2 now = ::mallinfo2();
        now.fordblks > free_at_first_ + std::max<std::uint64_t>(max_free, most / free_part))
      ::malloc_trim(0);
  }

  std::vector<std::unique_ptr<OpenFile>> files_;
  std::unordered_map<std::uint32_t, OpenFile*> numbered_;  ///< of files_
  std::uint64_t requests_ = 0;
  std::size_t at_first_ = allocated();
  std::size_t free_at_first_ = ::mallinfo2().fordblks;
};

}  // namespace

std::unique_ptr<sandbox::Service> make_naming_service() {
  return std::make_unique<NamingService>();
}

}  // namespace vitrine::symbol
