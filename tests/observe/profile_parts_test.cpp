// What a profile's session is made of, where no process is needed.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <malloc.h>

#include <algorithm>
#include <cstdio>
#include <fstream>

#include "base/interner.hpp"
#include "base/memory.hpp"
#include "observe/process/facts.hpp"
#include "observe/profile/equal_samples.hpp"
#include "observe/profile/program.hpp"
#include "support/child.hpp"
#include "symbol/function_symbols.hpp"

namespace vitrine::observe {
namespace {

const std::string id = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";
const std::string inner = "f" + id.substr(1);

TEST(ContainerId, IsInTheNameOfItsGroup) {
  EXPECT_EQ(container_id("0::/system.slice/docker-" + id + ".scope\n"), id);
  EXPECT_EQ(container_id("12:pids:/docker/" + id + "\n1:name=systemd:/docker/" + id + "\n"), id);
  EXPECT_EQ(
      container_id("0::/kubepods.slice/kubepods-pod1_2.slice/cri-containerd-" + id + ".scope"), id);
}

TEST(ContainerId, OfNestedOnesIsTheInner) {
  EXPECT_EQ(container_id("0::/docker/" + id + "/docker/" + inner + "\n"), inner);
}

TEST(ContainerId, IsNothingElse) {
  EXPECT_EQ(container_id("0::/user.slice/user-0.slice/session-1.scope\n"), "");
  EXPECT_EQ(container_id("0::/" + id + "0\n"), "");  // 65 digits
  EXPECT_EQ(container_id("0::/" + id.substr(1) + "\n"), "");
  EXPECT_EQ(container_id(""), "");
}

TEST(PodUid, ByTheNamesThatKubernetesGivesToGroups) {
  const std::string uid = "01234567-89ab-cdef-0123-456789abcdef", digits = "0123456789abcdef";
  std::string underscores = uid;
  std::replace(underscores.begin(), underscores.end(), '-', '_');
  EXPECT_EQ(pod_uid("0::/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod" +
                    underscores + ".slice/cri-containerd-x.scope\n"),
            uid);
  EXPECT_EQ(pod_uid("0::/kubepods.slice/kubepods-pod" + underscores + ".slice\n"), uid);
  EXPECT_EQ(pod_uid("4:pids:/kubepods/besteffort/pod" + uid + "/0123\n"), uid);
  EXPECT_EQ(pod_uid("0::/kubepods/burstable/pod" + digits + digits + "/0123\n"), digits + digits);
  EXPECT_EQ(pod_uid("0::/kubepods/besteffort/podcast/0123\n"), "");
  EXPECT_EQ(pod_uid("0::/user.slice/pod" + uid + "\n"), "");
  EXPECT_EQ(pod_uid("0::/kubepods"), "");
  EXPECT_EQ(pod_uid(""), "");
}

/// A sample of a thread of a process that has ended before vitrine looked at it.
vitrine_event_header sample_of_ended(pid_t pid, pid_t tid) {
  vitrine_event_header header{};
  header.time_ns = 20;
  header.image = 7;
  header.pid = pid;
  header.tid = tid;
  std::snprintf(header.comm, sizeof header.comm, "worker");
  return header;
}

TEST(SampledPrograms, AnEndedProcessIsNotNamedAfterOneOfItsThreads) {
  constexpr pid_t pid = 0x3fff'fff0;  // beyond pid_max
  target::ProcessEvent event;
  event.kind = target::ProcessEvent::Kind::executed;
  event.pid = pid;
  event.time_ns = 10;
  for (const auto& [tid, name] :
       {std::pair{pid + 1, "a-program-with-"}, std::pair{pid, "worker"}}) {
    SampledPrograms programs;
    ProgramHistory its;
    programs.executed(event, its);
    event.mapping.name = "/nowhere/a-program-with-a-long-name";
    programs.mapped(event, its);
    EXPECT_EQ(programs.of(sample_of_ended(pid, tid), true, its, true)->facts.command, name);
  }
}

TEST(SampledPrograms, ThoseOfOtherPidNamespacesAreAProblem) {
  SampledPrograms programs;
  ProgramHistory its;
  EXPECT_EQ(programs.of(sample_of_ended(0, 0), true, its, false)->pid, 0);
  EXPECT_THAT(programs.take_problems(),
              testing::ElementsAre(testing::HasSubstr("other PID namespaces")));
}

TEST(Resource, HasWhatTheProcessSaysBeforeWhatWeSee) {
  ProcessFacts facts;
  facts.command = "comm";
  facts.executable = "/opt/shop/server";
  facts.container = id;
  facts.context = {{"service.name", "shop"}, {"process.pid", "1"}};
  const auto resource = resource_of(4242, facts);
  using testing::Contains;
  EXPECT_THAT(resource, Contains(profile::Attribute{"service.name", "shop"}));
  EXPECT_THAT(resource, Contains(profile::Attribute{"process.pid", "1"}));
  EXPECT_THAT(resource, testing::Not(Contains(profile::Attribute{"process.pid", "4242"})));
  EXPECT_THAT(resource, Contains(profile::Attribute{"process.executable.name", "server"}));
  EXPECT_THAT(resource,
              Contains(profile::Attribute{"process.executable.path", "/opt/shop/server"}));
  EXPECT_THAT(resource, Contains(profile::Attribute{"container.id", id}));
}

/// By another implementation.
std::string htlhash_by_python(const std::string& path) {
  const auto outcome = test::run(
      {"python3", "-c",
       "import hashlib, sys; b = open(sys.argv[1], 'rb').read(); "
       "print(hashlib.sha256(b[:4096] + b[-4096:] + len(b).to_bytes(8, 'big')).hexdigest()[:32])",
       path});
  return outcome.out.substr(0, outcome.out.find('\n'));
}

TEST(ContentHash, IsThatOfTheSpecification) {
  for (const std::size_t size : {0U, 1U, 4095U, 4096U, 4097U, 8192U, 100'000U}) {
    std::vector<std::byte> bytes(size);
    for (std::size_t i = 0; i < size; ++i) bytes[i] = static_cast<std::byte>(i * 7 + i / 256);
    const std::string path = testing::TempDir() + "content_hash";
    std::ofstream(path, std::ios::binary)
        .write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(size));
    ByteMemory memory(bytes);
    EXPECT_EQ(symbol::content_hash(memory, size), htlhash_by_python(path)) << size;
    std::remove(path.c_str());
  }
}

TEST(EqualSamples, KeepNoMemoryBetweenProfiles) {
  // Mapped or not, by what earlier tests have freed.
  const auto used = [] { return ::mallinfo2().hblkhd + ::mallinfo2().uordblks; };
  EqualSamples samples;
  const std::size_t before = used();
  constexpr std::uint32_t row = 1U << 20;
  samples.begin(row, 0, profile::none);
  EXPECT_GT(used(), before + row);
  samples.end();
  EXPECT_LT(used(), before + row);
}

struct ByValue {
  std::size_t operator()(const std::string& text) const { return text.size(); }  // many collide
};

TEST(Interner, HoldsEachValueOnce) {
  Interner<std::string, ByValue> table;
  std::vector<std::uint32_t> at;
  for (int i = 0; i < 1000; ++i) at.push_back(table.add(std::to_string(i)));
  for (int i = 0; i < 1000; ++i) {
    EXPECT_EQ(table.add(std::to_string(i)), at[static_cast<std::size_t>(i)]);
    EXPECT_EQ(table.values()[at[static_cast<std::size_t>(i)]], std::to_string(i));
  }
  EXPECT_EQ(table.take().size(), 1000U);
  EXPECT_EQ(table.size(), 0U);
  EXPECT_EQ(table.add("again"), 0U);
}

}  // namespace
}  // namespace vitrine::observe
