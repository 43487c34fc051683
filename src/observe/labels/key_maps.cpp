#include "observe/labels/key_maps.hpp"

#include <elf.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/limits.hpp"
#include "base/text.hpp"
#include "format/process_context.hpp"
#include "target/maps.hpp"

namespace vitrine::observe {
namespace {

using Outcome = format::ContextAttempt::Outcome;

constexpr std::chrono::milliseconds look_interval{1000};
constexpr std::chrono::milliseconds look_interval_of_several{
    20};  // each may go through thousands of mappings
/// Of all modules with records, in one search: twenty milliseconds. The library's own variables are 20 KiB.
constexpr std::uint64_t searched_variables = 64U << 20;
/// After a search, until the next: that costs little beside the time it takes.
constexpr std::chrono::nanoseconds pause_per_byte{15};
constexpr std::size_t search_piece = 256 * 1024;
constexpr std::size_t page = 4096;
constexpr std::uint64_t word = sizeof(Address);
constexpr const char* one_copy = "link one copy of the library into the process";

/// Which of `headers` (ascending) are in words of a module's writable memory; nullopt: that has more than `left` bytes.
std::optional<std::vector<Address>> addresses_in(Memory& memory, const target::Module& module,
                                                 std::span<const Address> headers,
                                                 std::uint64_t& left) {
  std::vector<std::byte> piece(search_piece);
  std::vector<Address> found;
  for (const Elf64_Phdr& segment : module.image.segments) {
    if (segment.p_type != PT_LOAD || (segment.p_flags & PF_W) == 0) continue;
    if (segment.p_memsz > left) return std::nullopt;
    left -= segment.p_memsz;
    const Address begin = align_up(module.image.bias + segment.p_vaddr, word);
    const Address end = module.image.bias + segment.p_vaddr + segment.p_memsz;
    for (Address at = begin; at < end;) {
      const std::size_t size = std::min<std::uint64_t>(end - at, piece.size());
      const std::size_t got = memory.read_some(at, std::span(piece).first(size));
      for (std::size_t i = 0; i + word <= got; i += word) {
        Address value = 0;
        std::memcpy(&value, piece.data() + i, word);
        if (value % page == 0 && std::ranges::binary_search(headers, value)) found.push_back(value);
      }
      // What cannot be read is passed over by pages.
      at = got == size ? at + size : align_up(at + got + 1, page);
    }
  }
  std::ranges::sort(found);
  found.erase(std::unique(found.begin(), found.end()), found.end());
  return found;
}

}  // namespace

bool has_keys_in_context(format::Format format) {
  switch (format) {
    case format::Format::v2_draft_b:
    case format::Format::v2_draft_c:
    case format::Format::v2_draft_d:
    case format::Format::otel_thread_ctx_v1:
      return true;
    default:
      return false;
  }
}

void KeyMaps::forget_modules() {
  users_.clear();
  chosen_.clear();
  is_searched_ = are_several_ = are_too_many_ = false;
}

bool KeyMaps::refresh(target::Process& process, std::span<const Definition> definitions,
                      std::span<const target::Module> modules, bool all) {
  if (users_.empty()) find_users(definitions, modules);
  const auto now = Clock::now();
  if (users_.empty() || (!all && now < next_look_)) return false;
  next_look_ = now + (users_.size() < 2 ? look_interval : look_interval_of_several);
  auto tables = read_tables(process);
  if (!tables) return false;
  // A map only grows: another one at the same address is another context's.
  const auto is_same = [](const Table& before, const Table& now_there) {
    const auto& names = before.schema.keys.names;
    const auto& more = now_there.schema.keys.names;
    return before.header == now_there.header && names.size() <= more.size() &&
           std::equal(names.begin(), names.end(), more.begin());
  };
  if (!std::ranges::equal(tables_, *tables, is_same)) is_searched_ = false;
  tables_ = std::move(*tables);
  are_several_ = tables_.size() > 1 || users_.size() > 1;
  // A publisher may keep the address after its context can be found.
  const bool is_open =
      std::ranges::any_of(chosen_, [](const Chosen& one) { return one.choice.schema == nullptr; });
  if (are_several_ && (!is_searched_ || is_open) && now >= next_search_)
    next_search_ = now + pause_per_byte * search_users(process.memory(), modules);
  return choose_all(definitions);
}

/// The contexts that declare thread records, by address; nullopt: they cannot be looked for.
std::optional<std::vector<KeyMaps::Table>> KeyMaps::read_tables(target::Process& process) const {
  const auto found = target::context_mappings(process.proc_dir());
  if (!found) return std::nullopt;
  std::vector<Table> tables;
  for (const target::Mapping& mapping : found->mappings) {
    const auto known = std::ranges::find(tables_, mapping.start, &Table::header);
    const bool is_known = known != tables_.end();
    auto attempt =
        format::attempt_context(process.memory(), mapping.start, is_known ? known->stamp : 0);
    if (!attempt) continue;  // no context
    if (attempt->outcome != Outcome::complete) {
      // Of one that is being changed, what it declared stays; nothing is known of a new one.
      tables.push_back(is_known ? *known : Table{mapping.start, 0, {}});
      continue;
    }
    const auto context = format::decode_payload(attempt->header.version, attempt->payload);
    if (!context) continue;
    if (auto schema = format::schema_of(*context))
      tables.push_back({mapping.start, attempt->header.stamp, std::move(*schema)});
  }
  std::ranges::sort(tables, {}, &Table::header);
  return tables;
}

void KeyMaps::find_users(std::span<const Definition> definitions,
                         std::span<const target::Module> modules) {
  for (const Definition& definition : definitions) {
    if (!has_keys_in_context(definition.format)) continue;
    for (const std::size_t module : definition.modules) {
      if (module >= modules.size() ||
          std::ranges::find(users_, module, &User::module) != users_.end())
        continue;
      if (users_.size() < limits::definitions)
        users_.push_back({module, modules[module].path, {}, false});
      else
        are_too_many_ = true;
    }
  }
}

/// Returns how many bytes it has read.
std::uint64_t KeyMaps::search_users(Memory& memory, std::span<const target::Module> modules) {
  std::vector<Address> headers;
  for (const Table& table : tables_) headers.push_back(table.header);
  std::uint64_t left = searched_variables;
  for (User& user : users_) {
    if (headers.empty()) break;
    auto kept = addresses_in(memory, modules[user.module], headers, left);
    user.is_known = kept.has_value();
    user.kept = kept ? std::move(*kept) : std::vector<Address>();
  }
  is_searched_ = true;
  return searched_variables - left;
}

/// Those that have the address of a context.
std::string KeyMaps::owners_of(Address header) const {
  std::string owners;
  for (const User& user : users_)
    if (std::ranges::binary_search(user.kept, header))
      owners += (owners.empty() ? "" : ", ") + user.path;
  return owners;
}

KeyMaps::Choice KeyMaps::choose(const Definition& definition) const {
  if (tables_.empty()) return {};
  if (!is_searched_) return {nullptr, 0, "the process contexts have just changed"};
  std::vector<const Table*> own, free;
  for (const Table& table : tables_) {
    const bool is_own = std::ranges::any_of(users_, [&](const User& user) {
      return std::ranges::find(definition.modules, user.module) != definition.modules.end() &&
             std::ranges::binary_search(user.kept, table.header);
    });
    if (is_own) own.push_back(&table);
    if (owners_of(table.header).empty()) free.push_back(&table);
  }
  const bool are_all_known = !are_too_many_ && std::ranges::all_of(users_, &User::is_known);
  const auto& left = own.empty() ? free : own;
  if (left.empty()) {
    const Address other = tables_.front().header;
    return {
        nullptr, 0,
        fmt::format("it has no key map, and that at {} is of {}", hex(other), owners_of(other))};
  }
  if (own.empty() && !are_all_known)
    return {nullptr, 0, "the modules with records have too many variables to be searched"};
  const bool are_alike = std::ranges::all_of(
      left, [&](const Table* one) { return one->schema.keys == left.front()->schema.keys; });
  if (!are_alike)
    return {nullptr, 0,
            fmt::format("{} key maps with different names could be its own", left.size())};
  return {&left.front()->schema, left.front()->header, {}};
}

/// Returns whether a choice is another than before.
bool KeyMaps::choose_all(std::span<const Definition> definitions) {
  std::vector<Chosen> chosen;
  for (const Definition& definition : definitions) {
    if (!are_several_ || !has_keys_in_context(definition.format)) continue;
    const auto before = std::ranges::find(chosen_, &definition, &Chosen::definition);
    chosen.push_back(
        {&definition, choose(definition), before != chosen_.end() && before->is_missed});
  }
  const auto same = [](const Chosen& left, const Chosen& right) {
    return left.definition == right.definition && left.choice.header == right.choice.header &&
           left.choice.problem == right.choice.problem;
  };
  const bool is_other = !std::ranges::equal(chosen, chosen_, same);
  chosen_ = std::move(chosen);
  return is_other;
}

void KeyMaps::miss(const Definition& definition) {
  const auto found = std::ranges::find(chosen_, &definition, &Chosen::definition);
  if (found != chosen_.end()) found->is_missed = true;
}

std::vector<std::string> KeyMaps::notes() const {
  std::vector<std::string> notes;
  for (const Chosen& one : chosen_) {
    const std::string& module = one.definition->module;
    if (one.is_missed && !one.choice.problem.empty())
      notes.push_back(fmt::format("thread records of {} are read without their attributes: {}; {}",
                                  module, one.choice.problem, one_copy));
    else if (one.choice.schema != nullptr && users_.size() > 1 && tables_.size() > 1)
      notes.push_back(
          fmt::format("thread records of {} have their names from the process context at {}, "
                      "one of {}; {}",
                      module, hex(one.choice.header), tables_.size(), one_copy));
  }
  return notes;
}

const KeyMaps::Choice& KeyMaps::choice(const Definition& definition) const {
  const auto found = std::ranges::find(chosen_, &definition, &Chosen::definition);
  return found == chosen_.end() ? none_ : found->choice;
}

}  // namespace vitrine::observe
