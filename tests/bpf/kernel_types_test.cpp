// The part of the kernel's types that programs are relocated by has each member where libbpf finds it among all
// types; and bytes that are no type information are refused.
#include "bpf/kernel_types.hpp"

#include <bpf/btf.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <fstream>
#include <map>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

namespace vitrine::bpf {
namespace {

struct Freed {
  void operator()(btf* types) const { btf__free(types); }
};
using Types = std::unique_ptr<btf, Freed>;

std::string types_of_kernel() {
  std::ostringstream types;
  types << std::ifstream("/sys/kernel/btf/vmlinux", std::ios::binary).rdbuf();
  return types.str();
}

std::span<const std::byte> bytes_of(const std::string& text) {
  return std::as_bytes(std::span(text));
}

const std::vector<WantedStruct> wanted = {{"task_struct", {"thread", "start_boottime"}},
                                          {"mm_struct", {"start_code"}},
                                          {"upid", {}},
                                          {"pid", {"numbers"}},
                                          {"thread_struct", {}}};

const std::string& selected() {
  static const std::string selection = [] {
    const auto types = select_types(bytes_of(types_of_kernel()), wanted);
    EXPECT_TRUE(types.has_value()) << types.error().message;
    return types.value_or(std::string());
  }();
  return selection;
}

Types parse(const std::string& types) {
  return Types(btf__new(types.data(), static_cast<__u32>(types.size())));
}

/// Members by name, also those of structs without a name: where they are, in bits, and their sizes.
void add_members(const btf* types, int id, std::uint32_t from,
                 std::map<std::string, std::pair<std::uint32_t, std::int64_t>>& into) {
  const btf_type* type = btf__type_by_id(types, static_cast<__u32>(id));
  const btf_member* members = btf_members(type);
  for (__u16 i = 0; i < btf_vlen(type); ++i) {
    const std::uint32_t at = from + btf_member_bit_offset(type, i);
    const std::string name = btf__name_by_offset(types, members[i].name_off);
    if (!name.empty())
      into[name] = {at, btf__resolve_size(types, members[i].type)};
    else
      add_members(types, btf__resolve_type(types, members[i].type), at, into);
  }
}

auto members_of(const btf* types, const char* name) {
  std::map<std::string, std::pair<std::uint32_t, std::int64_t>> members;
  const int id = btf__find_by_name_kind(types, name, BTF_KIND_STRUCT);
  if (id > 0) add_members(types, id, 0, members);
  return members;
}

TEST(KernelTypes, AreWhereLibbpfFindsThem) {
  const std::string& some = selected();
  EXPECT_LT(some.size(), 128U * 1024);
  const Types few = parse(some);
  const Types all(btf__load_vmlinux_btf());
  ASSERT_TRUE(few && all);
  for (const WantedStruct& each : wanted) {
    const char* const name = each.name.data();
    const auto members = members_of(few.get(), name);
    EXPECT_FALSE(members.empty()) << name;
    EXPECT_EQ(members, members_of(all.get(), name)) << name;
  }
  EXPECT_TRUE(members_of(few.get(), "task_struct").contains("start_boottime"));
  EXPECT_TRUE(members_of(few.get(), "mm_struct").contains("start_code"));
}

TEST(KernelTypes, AreOfTheStructThoughAUnionOfItsNameComesFirst) {
  const Types all(btf__new_empty());
  ASSERT_TRUE(all);
  const int number = btf__add_int(all.get(), "int", 4, BTF_INT_SIGNED);
  ASSERT_GT(btf__add_union(all.get(), "upid", 4), 0);
  ASSERT_EQ(btf__add_field(all.get(), "other", number, 0, 0), 0);
  ASSERT_GT(btf__add_struct(all.get(), "upid", 4), 0);
  ASSERT_EQ(btf__add_field(all.get(), "nr", number, 0, 0), 0);
  __u32 size = 0;
  const void* const bytes = btf__raw_data(all.get(), &size);
  ASSERT_NE(bytes, nullptr);

  const WantedStruct upid[] = {{"upid", {}}};
  const auto some = select_types({static_cast<const std::byte*>(bytes), size}, upid);
  ASSERT_TRUE(some.has_value()) << some.error().message;
  const Types few = parse(*some);
  ASSERT_TRUE(few);
  EXPECT_TRUE(members_of(few.get(), "upid").contains("nr"));
}

// As drivers have them: one may be read before the kernel's own.
TEST(KernelTypes, AreOfTheStructThatHasTheMembersThoughAnotherOfItsNameComesFirst) {
  const Types all(btf__new_empty());
  ASSERT_TRUE(all);
  const int number = btf__add_int(all.get(), "int", 4, BTF_INT_SIGNED);
  const auto add = [&](const char* name, const std::vector<const char*>& members) {
    const int id = btf__add_struct(all.get(), name, static_cast<__u32>(members.size() * 4));
    for (std::size_t i = 0; i < members.size(); ++i)
      btf__add_field(all.get(), members[i], number, static_cast<__u32>(i * 32), 0);
    return id;
  };
  ASSERT_GT(add("file", {"other", "another", "third"}), 0);
  const int within = add(nullptr, {"f_inode"});
  ASSERT_GT(btf__add_struct(all.get(), "file", 8), 0);
  ASSERT_EQ(btf__add_field(all.get(), "f_mode", number, 0, 0), 0);
  ASSERT_EQ(btf__add_field(all.get(), nullptr, within, 32, 0), 0);
  ASSERT_GT(add("file", {"f_mode"}), 0);
  __u32 size = 0;
  const void* const bytes = btf__raw_data(all.get(), &size);
  ASSERT_NE(bytes, nullptr);
  for (const std::vector<std::string_view>& members :
       {std::vector<std::string_view>{"f_mode", "f_inode"}, {"f_mode", "f_inode", "f_gone"}}) {
    const WantedStruct file[] = {{"file", members}};
    const auto some = select_types({static_cast<const std::byte*>(bytes), size}, file);
    ASSERT_TRUE(some.has_value()) << some.error().message;
    const Types few = parse(*some);
    ASSERT_TRUE(few);
    const auto found = members_of(few.get(), "file");
    EXPECT_EQ(found.size(), 2U);
    EXPECT_TRUE(found.contains("f_mode") && found.contains("f_inode"));
  }
}

TEST(KernelTypes, AreNotOfStructsThatNobodyNames) {
  const Types few = parse(selected());
  ASSERT_TRUE(few);
  EXPECT_TRUE(members_of(few.get(), "sched_entity").empty());
  const int id = btf__find_by_name_kind(few.get(), "sched_entity", BTF_KIND_STRUCT);
  const Types all(btf__load_vmlinux_btf());
  const int there = btf__find_by_name_kind(all.get(), "sched_entity", BTF_KIND_STRUCT);
  ASSERT_TRUE(id > 0 && there > 0);
  EXPECT_EQ(btf__resolve_size(few.get(), static_cast<__u32>(id)),
            btf__resolve_size(all.get(), static_cast<__u32>(there)));
}

TEST(KernelTypes, ThatEndTooEarlyAreRefused) {
  const std::string& some = selected();
  ASSERT_FALSE(some.empty());
  for (std::size_t length = 0; length < some.size(); length += length < 256 ? 1 : 1009)
    EXPECT_FALSE(select_types(bytes_of(some.substr(0, length)), wanted)) << length;
}

TEST(KernelTypes, OfAnyBytesEndInTypesOrInAnError) {
  const std::string& some = selected();
  ASSERT_FALSE(some.empty());
  for (std::size_t at = 0; at < some.size(); at += 61) {
    for (const char other : {'\0', '\x7f', '\xff'}) {
      std::string changed = some;
      changed[at] = other;
      (void)select_types(bytes_of(changed), wanted);
    }
  }
}

}  // namespace
}  // namespace vitrine::bpf
