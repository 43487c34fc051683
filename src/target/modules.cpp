#include "target/modules.hpp"

#include <elf.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <set>
#include <string_view>

#include "base/limits.hpp"
#include "elf/notes.hpp"
#include "elf/symbols.hpp"

namespace vitrine::target {
namespace {

constexpr int namespaces_max = 64;  // glibc's DL_NNS is 16
constexpr std::size_t debug_v1_bytes = 40;
constexpr std::uint64_t search_step = 4096;
constexpr std::uint64_t image_search_bytes = 256ULL << 20;
/// Of all modules together, at each reading of the list. Few are linked to an address of their own,
/// and those have their header near.
constexpr std::uint64_t image_search_pages = 4 * image_search_bytes / search_step;
/// Modules that could not be read, reported one by one; the others are counted.
constexpr std::size_t max_unread_notes = limits::search_notes / 2;
/// Of how many modules the headers are read at once, and how much of each of the two places.
constexpr std::size_t modules_at_once = 64;
constexpr std::size_t read_ahead_bytes = 512;

bool has_dynamic_at(const elf::Image& image, Address dynamic) {
  const Elf64_Phdr* segment = image.find(PT_DYNAMIC);
  return segment != nullptr && image.bias + segment->p_vaddr == dynamic;
}

// A module's image, found by its dynamic section. As a rule its ELF header is at its bias; a module
// linked to another address has it somewhere before its dynamic section.
// `pages_left`: how many may be looked at for it; `windows`: of `memory`.
Result<elf::Image> image_with(Memory& memory, Memory& windows, Address bias, Address dynamic,
                              std::uint64_t& pages_left) {
  auto image = elf::read_image(windows, bias);
  if (image && has_dynamic_at(*image, dynamic)) return image;
  constexpr std::size_t batch = 512;
  std::vector<std::uint32_t> magic(batch);
  std::vector<ReadRequest> requests(batch);
  std::uint32_t wanted = 0;
  std::memcpy(&wanted, ELFMAG, SELFMAG);
  const Address last = dynamic / search_step * search_step;
  for (std::uint64_t back = 0; back < image_search_bytes; back += batch * search_step) {
    if (pages_left < batch)
      return fail(ErrorCode::limit,
                  fmt::format("the search for ELF headers of its modules ended after {} pages",
                              image_search_pages));
    pages_left -= batch;
    for (std::size_t i = 0; i < batch; ++i)
      requests[i] = {last - back - i * search_step, std::as_writable_bytes(std::span(&magic[i], 1)),
                     0};
    memory.read(requests);
    for (std::size_t i = 0; i < batch; ++i) {
      if (!requests[i].complete() || magic[i] != wanted) continue;
      image = elf::read_image(memory, requests[i].address);
      if (image && has_dynamic_at(*image, dynamic)) return image;
    }
    if (last < back + 2 * batch * search_step) break;
  }
  return fail(ErrorCode::malformed,
              fmt::format("no ELF header belongs to the dynamic section at {:#x}", dynamic));
}

}  // namespace

Result<bool> Modules::refresh(Memory& memory) {
  if (complete_ && stable_ && !watched_.changed(memory)) return false;
  Source source{memory, WindowMemory(memory, limits::search_windows)};
  auto image = TRY(elf::read_image_by_headers(source.windows, program_.address, program_.count));
  modules_.clear();
  watched_.clear();
  notes_.clear();
  stable_ = true;
  begun_ = false;
  nodes_left_ = limits::modules;
  // A list that never stays the same is read over and over: what was searched in vain is not
  // searched each time.
  constexpr std::uint64_t part = 16;
  pages_left_ = pages_left_ ? std::min(image_search_pages, *pages_left_ + image_search_pages / part)
                            : image_search_pages;
  unread_ = 0;
  held_bytes_ = 0;
  read_executable(source, std::move(image));
  const std::optional<Address> debug = find_debug(source);
  if (debug && *debug != 0) walk_namespaces(source, *debug);
  if (unread_ > max_unread_notes)
    notes_.add(fmt::format("{} more modules could not be read", unread_ - max_unread_notes));
  // A dynamic executable whose linker has not yet published where its list is: look again.
  complete_ = !debug || *debug != 0;
  return true;
}

namespace {

bool is_relative(const Module& module) {
  return module.path.find('/') != std::string::npos && module.path.front() != '/';
}

}  // namespace

bool Modules::has_relative() const {
  return std::ranges::any_of(modules_, is_relative);
}

void Modules::name_relative(std::span<const Mapping> mappings) {
  for (Module& module : modules_) {
    if (!is_relative(module)) continue;
    const auto mapped = std::ranges::find_if(mappings, [&](const Mapping& one) {
      return one.inode != 0 && module.image.holds(one.start, 1);
    });
    if (mapped != mappings.end()) module.path = without_deleted(mapped->name);
  }
}

void Modules::read_executable(Source& source, elf::Image image) {
  Module module;
  module.path = executable_path_;
  module.executable = true;
  module.image = std::move(image);
  auto dynamic = elf::read_dynamic(source.windows, module.image);
  if (dynamic)
    module.dynamic = *dynamic;
  else if (dynamic.error().code != ErrorCode::not_found)
    notes_.add(fmt::format("{}: {}", module.path, dynamic.error().message));
  modules_.push_back(std::move(module));
}

// struct r_debug: named by DT_DEBUG of the executable; failing that, by the dynamic linker's own
// symbols: `_r_debug` is the structure in glibc, `_dl_debug_addr` points at it in musl. A linker
// that was called as a command is itself what the kernel started. 0: not known yet; none: a static
// program, position-independent or not, that no dynamic linker will name a list for.
std::optional<Address> Modules::find_debug(Source& source) const {
  const Module& executable = modules_.front();
  if (!executable.dynamic) return std::nullopt;
  if (executable.dynamic->debug != 0) return executable.dynamic->debug;
  const auto linker = program_.interpreter != 0
                          ? elf::read_image(source.windows, program_.interpreter)
                          : Result<elf::Image>(executable.image);
  if (!linker) return 0;
  const auto dynamic = elf::read_dynamic(source.windows, *linker);
  if (!dynamic) return 0;
  constexpr std::array<std::string_view, 2> names{"_r_debug", "_dl_debug_addr"};
  const auto symbols = elf::find_symbols(source.windows, *dynamic, names);
  const bool named = symbols && ((*symbols)[0] || (*symbols)[1]);
  if (!named && program_.interpreter == 0) return std::nullopt;
  if (!symbols) return 0;
  if (const auto& structure = (*symbols)[0]) return linker->bias + structure->value;
  if (!(*symbols)[1]) return 0;
  const auto pointer =
      source.windows.read_value<Address>(linker->bias + (*symbols)[1]->value, "_dl_debug_addr");
  // Until musl's linker has relocated itself, it is an address of the file.
  return pointer && *pointer >= linker->bias ? *pointer : 0;
}

void Modules::walk_namespaces(Source& source, Address debug) {
  std::set<Address> seen;
  for (int link_namespace = 0; debug != 0 && link_namespace < namespaces_max; ++link_namespace) {
    if (!seen.insert(debug).second) return;
    Debug raw{};
    auto bytes = std::as_writable_bytes(std::span(&raw, 1));
    if (source.windows.read_some(debug, bytes) < debug_v1_bytes) {
      notes_.add(fmt::format("the dynamic linker's r_debug at {:#x} is not readable", debug));
      return;
    }
    if (raw.version < 2) raw.next = 0;
    watched_.add(debug, bytes.first(raw.version < 2 ? debug_v1_bytes : sizeof raw));
    if (raw.version != 0 && raw.map != 0) begun_ = true;
    if (raw.state != 0) stable_ = false;  // RT_ADD or RT_DELETE: it is changing the list
    walk_list(source, raw.map, link_namespace);
    debug = raw.next;
  }
}

void Modules::walk_list(Source& source, Address first, int link_namespace) {
  const std::vector<Entry> entries = list_entries(source, first);
  std::span<const Entry> left = entries;
  if (link_namespace == 0 && !left.empty()) {
    take_first(source, left.front());
    left = left.subspan(1);
  }
  for (; !left.empty(); left = left.subspan(std::min(modules_at_once, left.size())))
    take_modules(source, left.first(std::min(modules_at_once, left.size())), link_namespace);
}

std::vector<Modules::Entry> Modules::list_entries(Source& source, Address first) {
  std::vector<Entry> entries;
  std::set<Address> seen;
  for (Address at = first; at != 0; at = entries.back().node.next) {
    if (nodes_left_ == 0) {
      notes_.add(fmt::format("only the first {} modules were read", limits::modules));
      break;
    }
    --nodes_left_;
    if (!seen.insert(at).second) {
      notes_.add(fmt::format("the module list has a cycle at {:#x}", at));
      break;
    }
    const auto node = source.windows.read_value<Node>(at, "an entry of the module list");
    if (!node) {
      notes_.add(node.error().message);
      break;
    }
    entries.push_back({at, *node});
  }
  return entries;
}

/// Reads modules whose headers come by one read of the process.
void Modules::take_modules(Source& source, std::span<const Entry> entries, int link_namespace) {
  std::vector<std::array<std::byte, read_ahead_bytes>> bytes(2 * entries.size());
  std::vector<ReadRequest> ahead;
  for (const Entry& entry : entries)
    for (const Address at : {entry.node.bias, entry.node.dynamic})
      ahead.push_back({at, bytes[ahead.size()], 0});
  source.windows.read(ahead);  // what it has read, it keeps
  for (const Entry& entry : entries) {
    if (held_bytes_ > limits::module_bytes) {
      notes_.add(fmt::format("only the first {} modules were read: they exceed {} MiB",
                             modules_.size(), limits::module_bytes >> 20));
      return;
    }
    watched_.add_value(entry.link_map, entry.node);
    held_bytes_ += 2 * sizeof entry.node;
    if (auto module = read_library(source, entry)) {
      module->link_namespace = link_namespace;
      watch(source, *module, entry.node);
      // What is watched of it is there twice.
      held_bytes_ += sizeof *module + 2 * module->path.size() +
                     2 * module->image.segments.size() * sizeof module->image.segments[0];
      modules_.push_back(std::move(*module));
    } else if (++unread_ <= max_unread_notes) {
      notes_.add(module.error().message);
    }
  }
}

// The first of the list is the executable, which we have from the kernel, unless the command line
// started the dynamic linker, which loaded the executable.
void Modules::take_first(Source& source, const Entry& entry) {
  watched_.add_value(entry.link_map, entry.node);
  held_bytes_ += 2 * sizeof entry.node;
  Module& front = modules_.front();
  if (!has_dynamic_at(front.image, entry.node.dynamic)) {
    auto module = read_library(source, entry);
    if (!module) {
      notes_.add(module.error().message);
      return;
    }
    front = std::move(*module);
    front.executable = true;
  }
  front.link_map = entry.link_map;
}

Result<Module> Modules::read_library(Source& source, const Entry& entry) {
  Module module;
  module.path =
      elf::read_string(source.windows, entry.node.name, limits::name_bytes, "a module's name")
          .value_or(fmt::format("module at {:#x}", entry.node.bias));
  module.link_map = entry.link_map;
  module.image = TRY_WHILE(module.path, image_with(source.memory, source.windows, entry.node.bias,
                                                   entry.node.dynamic, *pages_left_));
  module.dynamic = TRY_WHILE(module.path, elf::read_dynamic(source.windows, module.image));
  return module;
}

// A library that is unloaded may be followed by another at the same place, whose record is the same
// byte for byte.
void Modules::watch(Source& source, const Module& module, const Node& node) {
  if (const auto name =
          elf::read_string(source.windows, node.name, limits::name_bytes, "a module's name"))
    watched_.add(node.name, std::as_bytes(std::span(name->c_str(), name->size() + 1)));
  watched_.add(module.image.headers, std::as_bytes(std::span(module.image.segments)));
  const auto note = elf::build_id_note(source.windows, module.image);
  std::vector<std::byte> id(note ? note->size : 0);
  if (note && source.windows.read_exact(note->description, id, "the build id"))
    watched_.add(note->description, id);
}

namespace {

constexpr std::size_t max_entries = 512;  // the kernel writes some twenty

/// The words of a stack, from a given one on, in reads of a page.
class StackWords {
 public:
  StackWords(Memory& memory, Address start) : memory_(memory), at_(start) {}

  Result<std::uint64_t> next() {
    if (taken_ == have_) {
      if (++reads_ > limits::stack_reads)
        return fail(ErrorCode::limit, "too many arguments to find the auxiliary vector");
      have_ = memory_.read_some(at_, std::as_writable_bytes(std::span(words_))) / sizeof words_[0];
      taken_ = 0;
      if (have_ == 0)
        return fail(ErrorCode::malformed, "the stack ends before the auxiliary vector");
      at_ += have_ * sizeof words_[0];
    }
    return words_[taken_++];
  }

  /// Passes words up to and including a null.
  Result<void> pass_list() {
    for (;;) {
      const auto word = TRY(next());
      if (word == 0) return {};
    }
  }

 private:
  Memory& memory_;
  Address at_;
  std::array<std::uint64_t, 512> words_{};
  std::size_t have_ = 0;
  std::size_t taken_ = 0;
  std::size_t reads_ = 0;
};

}  // namespace

Result<std::string> auxv_on_stack(Memory& memory, Address stack_start) {
  if (stack_start < limits::lowest_address)
    return fail(ErrorCode::malformed, "the kernel does not report the start of the stack");
  StackWords words(memory, stack_start);
  TRY(words.next());
  for (int list = 0; list < 2; ++list)  // the arguments, then the environment
    TRY(words.pass_list());
  std::string bytes;
  for (std::size_t i = 0; i < max_entries; ++i) {
    std::array<std::uint64_t, 2> entry{};
    for (std::uint64_t& word : entry) {
      word = TRY(words.next());
    }
    bytes.append(reinterpret_cast<const char*>(entry.data()), sizeof entry);
    if (entry[0] == AT_NULL) return bytes;
  }
  return fail(ErrorCode::malformed, "the auxiliary vector on the stack is not terminated");
}

}  // namespace vitrine::target
