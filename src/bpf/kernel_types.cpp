// The layout is the kernel's: Documentation/bpf/btf.rst and <linux/btf.h>. Here, as libbpf has no way to look for a
// few types without parsing, checking and copying all 120,000.
#include "bpf/kernel_types.hpp"

#include <bpf/btf.h>
#include <bpf/libbpf.h>
#include <fcntl.h>
#include <linux/btf.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <bitset>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <optional>
#include <type_traits>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "base/file_descriptor.hpp"

namespace vitrine::bpf {
namespace {

constexpr char all_types[] = "/sys/kernel/btf/vmlinux";
constexpr std::size_t max_bytes = 256U << 20;
constexpr unsigned deepest = 32;  ///< structs, arrays and modifiers within each other

/// Those of kernel/kernel_types.bpf.h that programs look into: one that lacks here is not found by libbpf.
constexpr const char* structs_of_programs[] = {"bpf_iter__task",
                                               "bpf_iter_meta",
                                               "file",
                                               "inode",
                                               "mm_struct",
                                               "ns_common",
                                               "pid",
                                               "pid_namespace",
                                               "super_block",
                                               "task_struct",
                                               "thread_info",
                                               "thread_struct",
                                               "upid",
                                               "vm_unmapped_area_info"};

/// How many bytes of a type follow its btf_type. Nothing: a kind that is not known.
std::optional<std::size_t> bytes_behind(std::uint32_t info) {
  const std::size_t count = BTF_INFO_VLEN(info);
  switch (BTF_INFO_KIND(info)) {
    case BTF_KIND_INT:
    case BTF_KIND_VAR:
    case BTF_KIND_DECL_TAG:
      return sizeof(std::uint32_t);
    case BTF_KIND_ARRAY:
      return sizeof(struct btf_array);
    case BTF_KIND_STRUCT:
    case BTF_KIND_UNION:
      return count * sizeof(btf_member);
    case BTF_KIND_ENUM:
      return count * sizeof(struct btf_enum);
    case BTF_KIND_ENUM64:
      return count * sizeof(struct btf_enum64);
    case BTF_KIND_FUNC_PROTO:
      return count * sizeof(btf_param);
    case BTF_KIND_DATASEC:
      return count * sizeof(btf_var_secinfo);
    case BTF_KIND_PTR:
    case BTF_KIND_FWD:
    case BTF_KIND_TYPEDEF:
    case BTF_KIND_VOLATILE:
    case BTF_KIND_CONST:
    case BTF_KIND_RESTRICT:
    case BTF_KIND_FUNC:
    case BTF_KIND_FLOAT:
    case BTF_KIND_TYPE_TAG:
      return 0;
    default:
      return std::nullopt;
  }
}

/// BTF as it is in memory: a header, types one after the other, and strings.
class AllTypes {
 public:
  static Result<AllTypes> read(std::span<const std::byte> btf) {
    btf_header header{};
    if (btf.size() < sizeof header) return malformed();
    std::memcpy(&header, btf.data(), sizeof header);
    if (header.magic != BTF_MAGIC || header.hdr_len > btf.size()) return malformed();
    const auto sections = btf.subspan(header.hdr_len);
    if (!has(sections, header.type_off, header.type_len) ||
        !has(sections, header.str_off, header.str_len))
      return malformed();
    AllTypes types;
    types.types_ = sections.subspan(header.type_off, header.type_len);
    types.strings_ = sections.subspan(header.str_off, header.str_len);
    if (types.strings_.empty() || types.strings_.back() != std::byte{0}) return malformed();
    return types;
  }

  static tl::unexpected<Error> malformed() {
    return fail(ErrorCode::malformed, "the kernel's type information is invalid");
  }

  /// Reads on until a type is known. False: there is none of this number.
  Result<bool> reach(std::uint32_t id) {
    while (id >= places_.size() && !is_at_end()) TRY(read_next());
    return id != 0 && id < places_.size();
  }
  /// The first struct behind type `after` that has a name, by its number; 0: there is none. (A union of the same name
  /// may come first.)
  Result<std::uint32_t> next_struct(std::uint32_t after) {
    while (TRY(reach(++after)))
      if (BTF_INFO_KIND(at(after).info) == BTF_KIND_STRUCT && at(after).name_off != 0) return after;
    return 0;
  }

  [[nodiscard]] btf_type at(std::uint32_t id) const { return at_place<btf_type>(places_[id]); }

  /// What is behind a type, of which it has that many.
  template <class T>
  [[nodiscard]] T behind(std::uint32_t id, std::size_t index = 0) const {
    return at_place<T>(places_[id] + sizeof(btf_type) + index * sizeof(T));
  }

  [[nodiscard]] std::string_view name(std::uint32_t offset) const {
    if (offset >= strings_.size()) return {};
    return reinterpret_cast<const char*>(strings_.data() + offset);  // the last string ends, too
  }

 private:
  static bool has(std::span<const std::byte> bytes, std::uint64_t offset, std::uint64_t length) {
    return offset + length <= bytes.size();
  }

  template <class T>
  [[nodiscard]] T at_place(std::size_t place) const {
    static_assert(std::is_trivially_copyable_v<T>);
    T value{};
    std::memcpy(&value, types_.data() + place, sizeof value);
    return value;
  }

  [[nodiscard]] bool is_at_end() const { return read_ >= types_.size(); }

  Result<void> read_next() {
    if (types_.size() - read_ < sizeof(btf_type)) return malformed();
    const auto type = at_place<btf_type>(read_);
    const auto behind = bytes_behind(type.info);
    if (!behind || types_.size() - read_ - sizeof(btf_type) < *behind) return malformed();
    places_.push_back(static_cast<std::uint32_t>(read_));
    read_ += sizeof(btf_type) + *behind;
    return {};
  }

  std::span<const std::byte> types_, strings_;
  std::size_t read_ = 0;
  std::vector<std::uint32_t> places_{0};  // type 0 is void
};

class Selection {
 public:
  Selection(AllTypes& all, std::span<const WantedStruct> wanted) : all_(all), wanted_(wanted) {
    for (const WantedStruct& each : wanted) likely_.set(place_of(each.name));
  }

  /// Reads no farther than to the last that is asked for: most are among the first tenth.
  Result<void> take_structs() {
    struct Found {
      std::uint32_t id = 0;
      std::size_t members = 0;  // that are wanted
    };
    std::unordered_map<const WantedStruct*, Found> found;
    std::size_t missing = wanted_.size();
    for (std::uint32_t id = 0; missing != 0 && (id = TRY(all_.next_struct(id))) != 0;) {
      const WantedStruct* wanted = find(all_.name(all_.at(id).name_off));
      if (wanted == nullptr) continue;
      Found& best = found[wanted];
      if (best.id != 0 && best.members == wanted->members.size()) continue;
      const std::size_t members = TRY(count_members(id, *wanted));
      if (members == wanted->members.size()) --missing;
      if (best.id == 0 || members > best.members) best = {id, members};
    }
    std::vector<std::uint32_t> ids;
    for (const auto& [_, best] : found) ids.push_back(best.id);
    std::sort(ids.begin(), ids.end());
    for (const std::uint32_t id : ids) TRY(take(id, 0));
    return {};
  }

  [[nodiscard]] std::string encoded() const {
    btf_header header{};
    header.magic = BTF_MAGIC;
    header.version = BTF_VERSION;
    header.hdr_len = sizeof header;
    header.type_len = static_cast<std::uint32_t>(types_.size());
    header.str_off = header.type_len;
    header.str_len = static_cast<std::uint32_t>(strings_.size());
    return std::string(reinterpret_cast<const char*>(&header), sizeof header) + types_ + strings_;
  }

 private:
  /// How many of the wanted members a struct has, also in structs and unions without a name within it.
  Result<std::size_t> count_members(std::uint32_t id, const WantedStruct& wanted) {
    std::unordered_set<std::string_view> names;
    std::unordered_set<std::uint32_t> seen{id};
    for (std::vector<std::uint32_t> open{id}; !open.empty();) {
      const std::uint32_t next = open.back();
      open.pop_back();
      if (!TRY(all_.reach(next))) return AllTypes::malformed();
      const btf_type type = all_.at(next);
      const auto kind = BTF_INFO_KIND(type.info);
      if (kind != BTF_KIND_STRUCT && kind != BTF_KIND_UNION) continue;
      for (std::uint32_t i = 0; i < BTF_INFO_VLEN(type.info); ++i) {
        const auto member = all_.behind<btf_member>(next, i);
        if (member.name_off != 0)
          names.insert(all_.name(member.name_off));
        else if (seen.insert(member.type).second)
          open.push_back(member.type);
      }
    }
    return std::count_if(wanted.members.begin(), wanted.members.end(),
                         [&](const std::string_view name) { return names.contains(name); });
  }

  /// Returns the number that a type has here, without typedefs and qualifiers.
  Result<std::uint32_t> take(std::uint32_t id, unsigned depth) {
    if (id == 0) return 0;
    if (depth > deepest || !TRY(all_.reach(id))) return AllTypes::malformed();
    if (const auto known = numbers_.find(id); known != numbers_.end()) return known->second;
    numbers_[id] = 0;  // void, should it be within itself
    btf_type type = all_.at(id);
    std::string behind;
    switch (BTF_INFO_KIND(type.info)) {
      case BTF_KIND_TYPEDEF:
      case BTF_KIND_VOLATILE:
      case BTF_KIND_CONST:
      case BTF_KIND_RESTRICT:
      case BTF_KIND_TYPE_TAG:
        return numbers_[id] = TRY(take(type.type, depth + 1));
      case BTF_KIND_INT:
        append(behind, all_.behind<std::uint32_t>(id));
        break;
      case BTF_KIND_FLOAT:
        break;
      case BTF_KIND_PTR:
        type.type = 0;
        break;
      case BTF_KIND_ENUM:
      case BTF_KIND_ENUM64:
        type.info &= ~0xffffU;
        break;  // its values are not wanted
      case BTF_KIND_ARRAY: {
        auto array = all_.behind<struct btf_array>(id);
        array.type = TRY(take(array.type, depth + 1));
        array.index_type = TRY(take(array.index_type, depth + 1));
        append(behind, array);
        break;
      }
      case BTF_KIND_STRUCT:
      case BTF_KIND_UNION:
        if (type.name_off != 0 && find(all_.name(type.name_off)) == nullptr) {
          type.info &= ~0xffffU;
          break;
        }
        for (std::uint32_t i = 0; i < BTF_INFO_VLEN(type.info); ++i) {
          auto member = all_.behind<btf_member>(id, i);
          member.type = TRY(take(member.type, depth + 1));
          member.name_off = string_of(member.name_off);
          append(behind, member);
        }
        break;
      default:
        return 0;  // void
    }
    type.name_off = string_of(type.name_off);
    append(types_, type);
    types_ += behind;
    return numbers_[id] = ++count_;
  }

  std::uint32_t string_of(std::uint32_t offset) {
    if (offset == 0) return 0;
    const auto [entry, is_new] = string_offsets_.try_emplace(offset, strings_.size());
    if (is_new) strings_.append(all_.name(offset)).push_back('\0');
    return entry->second;
  }

  template <class T>
  static void append(std::string& into, const T& value) {
    into.append(reinterpret_cast<const char*>(&value), sizeof value);
  }

  static std::size_t place_of(std::string_view name) {
    return name.size() % 64 * 256 + static_cast<unsigned char>(name.empty() ? '\0' : name.front());
  }

  /// Null: it is not wanted.
  [[nodiscard]] const WantedStruct* find(std::string_view name) const {
    if (!likely_.test(place_of(name))) return nullptr;
    for (const WantedStruct& each : wanted_)
      if (each.name == name) return &each;
    return nullptr;
  }

  AllTypes& all_;
  std::span<const WantedStruct> wanted_;
  // Most of the kernel's differ from all of them by length and first letter, which costs less than to compare them.
  std::bitset<64 * 256> likely_;
  std::unordered_map<std::uint32_t, std::uint32_t> numbers_, string_offsets_;
  std::uint32_t count_ = 0;
  std::string types_, strings_ = std::string(1, '\0');
};

/// The kernel's; empty: there are none. Linux maps them from 6.16 on.
std::span<const std::byte> map_types() {
  const FileDescriptor file(::open(all_types, O_RDONLY | O_CLOEXEC));
  struct stat status {};
  if (!file || ::fstat(file.get(), &status) != 0 || status.st_size <= 0 ||
      static_cast<std::size_t>(status.st_size) > max_bytes)
    return {};
  const auto bytes = static_cast<std::size_t>(status.st_size);
  void* mapped = ::mmap(nullptr, bytes, PROT_READ, MAP_PRIVATE, file.get(), 0);
  if (mapped != MAP_FAILED) return {static_cast<const std::byte*>(mapped), bytes};
  mapped = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
  if (mapped == MAP_FAILED) return {};
  std::size_t have = 0;
  while (have < bytes) {
    const ssize_t got = ::read(file.get(), static_cast<char*>(mapped) + have, bytes - have);
    if (got <= 0) break;
    have += static_cast<std::size_t>(got);
  }
  if (have == bytes) return {static_cast<const std::byte*>(mapped), bytes};
  ::munmap(mapped, bytes);
  return {};
}

}  // namespace

Result<std::string> select_types(std::span<const std::byte> btf,
                                 std::span<const WantedStruct> wanted) {
  AllTypes all = TRY(AllTypes::read(btf));
  Selection selection(all, wanted);
  TRY(selection.take_structs());
  return selection.encoded();
}

KernelTypes::KernelTypes() : all_(map_types()) {
  if (all_.empty()) return;
  file_ = FileDescriptor(::memfd_create("vitrine-types", MFD_CLOEXEC));
  std::string path = "/proc/self/fd/" + std::to_string(file_.get());
  if (file_ && ::access(path.c_str(), R_OK) == 0) path_ = std::move(path);
}

KernelTypes::~KernelTypes() {
  if (!all_.empty()) ::munmap(const_cast<std::byte*>(all_.data()), all_.size());
}

int KernelTypes::write(const bpf_object* object) const {
  if (path_.empty()) return 0;
  const btf* own = bpf_object__btf(object);
  std::vector<WantedStruct> wanted;
  for (const char* const name : structs_of_programs) {
    const int id = own != nullptr ? btf__find_by_name_kind(own, name, BTF_KIND_STRUCT) : 0;
    if (id <= 0) continue;
    wanted.push_back({name, {}});
    const btf_type* type = btf__type_by_id(own, static_cast<__u32>(id));
    for (__u16 i = 0; i < btf_vlen(type); ++i)
      wanted.back().members.emplace_back(btf__name_by_offset(own, btf_members(type)[i].name_off));
  }
  const auto types = select_types(all_, wanted);
  // What is not understood here, libbpf may understand.
  const auto chosen = types ? std::as_bytes(std::span(*types)) : all_;
  return write_all(file_.get(), chosen);
}

}  // namespace vitrine::bpf
