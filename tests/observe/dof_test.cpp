// Probes of a DOF, from the object step to their fires: one probe type, one code path.
#include "abi/dof.h"

#include <gmock/gmock.h>
#include <signal.h>
#include <sys/wait.h>

#include <algorithm>
#include <cstdio>
#include <cstring>

#include "observe/dof_subject.hpp"
#include "observe/probes/probes.hpp"
#include "observe/trace_subject.hpp"

namespace vitrine::test {
namespace {

using probe::SiteUse;
using probe::StringValue;
using probe::Value;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using usdt::EnabledProtocol;

const probe::Probe* find(const observe::ProbeFile& file, const std::string& name) {
  for (const probe::Probe& one : file.probes)
    if (one.provider == "shop" && one.name == name) return &one;
  return nullptr;
}

std::shared_ptr<const observe::ProbeFile> probes_of(const std::string& path) {
  observe::ProbeFiles files;
  auto file = files.open(path);
  EXPECT_TRUE(file) << file.error().message;
  return file ? *file : nullptr;
}

std::string nm(const std::string& path, const std::string& symbol) {
  FILE* pipe = ::popen(("nm " + path + " | awk '$3==\"" + symbol + "\"{print $1}'").c_str(), "r");
  char line[64] = {};
  if (std::fgets(line, sizeof line, pipe) == nullptr) line[0] = '\0';
  ::pclose(pipe);
  return line;
}

TEST(Dof, SitesAreWhereTheCallsWereWithArgumentsByTheirPrototype) {
  const DofProgram program(EnabledProtocol::semaphore);
  const auto file = probes_of(program.path());
  ASSERT_TRUE(file);
  EXPECT_THAT(file->problems, ElementsAre());
  const auto* plain = find(*file, "plain");
  ASSERT_TRUE(plain != nullptr);
  EXPECT_EQ(plain->kind, probe::Kind::dof);
  const Address behind = std::stoull(nm(program.path(), "behind_plain"), nullptr, 16);
  bool there = false;
  for (const probe::Site& site : plain->sites) there = there || site.address == behind - 5;
  EXPECT_TRUE(there);
  const auto* sold = find(*file, "sold");
  ASSERT_TRUE(sold != nullptr && !sold->sites.empty());
  for (const probe::Site& site : sold->sites) {
    EXPECT_TRUE(site.verified);
    EXPECT_TRUE(site.file_offset);
    EXPECT_THAT(site.problems, ElementsAre());
    ASSERT_EQ(site.arguments.size(), 9U);
    EXPECT_EQ(site.arguments[3], "1@%cl");
    EXPECT_EQ(site.arguments[5], "8@%r9");
    EXPECT_NE(site.semaphore, 0U);
    EXPECT_TRUE(site.semaphore_offset);
    EXPECT_EQ(site.types[1].kind, probe::ValueKind::c_string);
    EXPECT_EQ(site.types[3].type, "uint8_t");
    if (site.function == "sell") {
      EXPECT_EQ(site.arguments[7], "8@8(%rsp)");
    } else {
      EXPECT_THAT(site.function, HasSubstr("__dtrace_"));
      EXPECT_EQ(site.arguments[7], "8@16(%rsp)");
    }
  }
  const auto* mapped = find(*file, "mapped");
  ASSERT_TRUE(mapped != nullptr && !mapped->sites.empty());
  EXPECT_THAT(mapped->sites[0].arguments, ElementsAre("8@%rsi", "-4@%edi"));
}

void expect_sold(const SeenFire& fire, int i) {
  ASSERT_EQ(fire.values.size(), 9U);
  EXPECT_EQ(fire.values[0], Value(std::int64_t{i}));
  EXPECT_EQ(fire.values[1], Value(StringValue{"item " + std::to_string(i), false}));
  EXPECT_EQ(fire.values[2], Value(std::int64_t{1000000000000 + i}));
  EXPECT_EQ(fire.values[3], Value(std::uint64_t{(i + 200U) & 255}));
  EXPECT_EQ(fire.values[4], Value(std::int64_t{-i}));
  EXPECT_EQ(fire.values[5], Value(std::uint64_t{i * 5ULL}));
  EXPECT_EQ(fire.values[6], Value(std::int64_t{i * 3}));
  EXPECT_EQ(fire.values[7], Value(StringValue{"tem " + std::to_string(i), false}));
  EXPECT_EQ(fire.values[8], Value(std::int64_t{-1000000000000 - i}));
}

TEST(Dof, FiresWithTheArgumentsThatWerePassed) {
  for (const char* flags : {"-O2 -pie -fPIE", "-O0 -no-pie", "-Os -static"}) {
    SCOPED_TRACE(flags);
    const DofProgram program(EnabledProtocol::semaphore, flags);
    Child child = start(program);
    const auto trace = open_trace(of_process(child.pid(), {"shop:*"}));
    ASSERT_TRUE(trace);
    EXPECT_EQ(tell(child, "fire 300"), "fire");
    const auto fires = collect(*trace, 1200);
    EXPECT_TRUE(collect_rest(*trace).empty());
    ASSERT_EQ(fires.size(), 1200U);
    for (int i = 0; i < 300; ++i) {
      const SeenFire* four = &fires[static_cast<std::size_t>(i) * 4];
      EXPECT_EQ(four[0].probe, "shop:plain");
      EXPECT_EQ(four[1].probe, "shop:sold");
      expect_sold(four[1], i);
      EXPECT_EQ(four[2].probe, "shop:mapped");
      EXPECT_THAT(four[2].values,
                  ElementsAre(Value(StringValue{"item " + std::to_string(i), false}),
                              Value(std::int64_t{i})));
      EXPECT_EQ(four[3].probe, "shop:checked");
    }
  }
}

TEST(Dof, InstancesOfAProviderAreNamedByTheirProcess) {
  const DofProgram program(EnabledProtocol::semaphore);
  Child child = start(program);
  const std::string pid = std::to_string(child.pid());
  for (const std::string& pattern : {"shop" + pid + ":plain", "shop" + pid + ":pl*",
                                     std::string("shop:plain"), std::string("sh*:plain")}) {
    SCOPED_TRACE(pattern);
    const auto trace = open_trace(of_process(child.pid(), {pattern}));
    ASSERT_TRUE(trace);
    EXPECT_EQ(trace->probes(), std::vector<std::string>{"shop:plain"});
    EXPECT_EQ(tell(child, "fire 1"), "fire");
    EXPECT_EQ(collect(*trace, 1).size(), 1U);
  }
  EXPECT_FALSE(Trace::open(of_process(child.pid(), {"shop1:plain"})));
}

/// Traced from a process of its own, to be killed.
pid_t trace_elsewhere(pid_t target) {
  int pipe[2];
  EXPECT_EQ(::pipe(pipe), 0);
  const pid_t tracer = ::fork();
  if (tracer == 0) {
    const auto trace = Trace::open(of_process(target, {"shop:checked"}));
    const char ready = trace ? 'y' : 'n';
    (void)!::write(pipe[1], &ready, 1);
    for (;;) ::pause();
  }
  char ready = 0;
  EXPECT_EQ(::read(pipe[0], &ready, 1), 1);
  EXPECT_EQ(ready, 'y');
  ::close(pipe[0]);
  ::close(pipe[1]);
  return tracer;
}

/// Nothing but the end of the tracer tells when the kernel has taken its probes away.
void kill_tracer(pid_t tracer) {
  ::kill(tracer, SIGKILL);
  int status = 0;
  ASSERT_EQ(::waitpid(tracer, &status, 0), tracer);
}

/// What the child says, until it says `expected`: links end a moment after their holder.
std::string state_becoming(Child& child, const std::string& expected) {
  std::string state;
  const auto end = std::chrono::steady_clock::now() + patience;
  do {
    state = tell(child, "state");
  } while (state != expected && std::chrono::steady_clock::now() < end);
  return state;
}

class DofQuestions : public ::testing::TestWithParam<EnabledProtocol> {};

TEST_P(DofQuestions, AreTrueWhileSomeoneTracesAndFalseAfterTheLastIsKilled) {
  const DofProgram program(GetParam());
  Child child = start(program);
  Child bystander = start(program);
  EXPECT_EQ(tell(child, "state"), "state 0");
  {
    const auto one = open_trace(of_process(child.pid(), {"shop:checked"}));
    ASSERT_TRUE(one);
    EXPECT_EQ(tell(child, "state"), "state 1");
    EXPECT_EQ(tell(bystander, "state"), "state 0");
    EXPECT_THAT(one->take_notes(), ElementsAre());
    const pid_t other = trace_elsewhere(child.pid());
    EXPECT_EQ(tell(child, "state"), "state 1");
    EXPECT_EQ(tell(child, "fire 10"), "fire");
    EXPECT_EQ(collect(*one, 10).size(), 10U);
    EXPECT_TRUE(collect_rest(*one).empty());  // questions are no events
    kill_tracer(other);
    EXPECT_EQ(tell(child, "state"), "state 1");
  }
  EXPECT_EQ(tell(child, "state"), "state 0");
  for (int i = 0; i < 5; ++i) {
    const pid_t tracer = trace_elsewhere(child.pid());
    EXPECT_EQ(tell(child, "state"), "state 1");
    kill_tracer(tracer);
    EXPECT_EQ(state_becoming(child, "state 0"), "state 0");
  }
}

TEST_P(DofQuestions, OfAFileAreTrueInEveryProcessThatRunsIt) {
  const DofProgram program(GetParam());
  Child before = start(program);
  {
    TraceOptions options;
    options.target.files = {program.path()};
    options.probes = {"shop:checked"};
    const auto trace = open_trace(options);
    ASSERT_TRUE(trace);
    Child after = start(program);
    EXPECT_EQ(tell(before, "state"), "state 1");
    EXPECT_EQ(tell(after, "state"), "state 1");
  }
  EXPECT_EQ(tell(before, "state"), "state 0");
}

INSTANTIATE_TEST_SUITE_P(, DofQuestions,
                         ::testing::Values(EnabledProtocol::semaphore,
                                           EnabledProtocol::return_value));

/// Where a tracer must write to the program, the kernel may not let it: then it says so, and the
/// answer stays false.
void expect_answered_or_explained(const DofProgram& program, SiteUse use) {
  const auto file = probes_of(program.path());
  ASSERT_TRUE(file);
  const auto* checked = find(*file, "checked");
  ASSERT_TRUE(checked != nullptr && !checked->enabled_sites.empty());
  for (const probe::Site& one : checked->enabled_sites)
    EXPECT_TRUE(one.use == use || !one.verified);
  Child child = start(program);
  EXPECT_EQ(tell(child, "state"), "state 0");
  {
    const auto trace = open_trace(of_process(child.pid(), {"shop:*"}));
    ASSERT_TRUE(trace);
    bool explained = false;
    for (const std::string& note : trace->take_notes())
      explained = explained || note.find("it stays false: the check requires") != note.npos;
    EXPECT_EQ(tell(child, "state"), explained ? "state 0" : "state 1");
    EXPECT_EQ(tell(child, "fire 10"), "fire");
    EXPECT_EQ(collect(*trace, explained ? 30 : 40).size(), explained ? 30U : 40U);
    EXPECT_TRUE(collect_rest(*trace).empty());
  }
  EXPECT_EQ(tell(child, "state"), "state 0");
}

TEST(Dof, QuestionsByAPointerAreAnsweredOrSaidToStayFalse) {
  const DofProgram program(EnabledProtocol::pointer);
  expect_answered_or_explained(program, SiteUse::enabled_pointer);
}

TEST(Dof, QuestionsAsOtherImplementationsWroteThemAreAnsweredOrSaidToStayFalse) {
  const DofProgram program(EnabledProtocol::return_value);
  // xor %rax,%rax: dtrace -G. The site is behind it, as in ours.
  program.replace(std::string("\x6a\0\x58\x90", 4), "\x48\x33\xc0\x90");
  expect_answered_or_explained(program, SiteUse::enabled_register);
}

TEST(Dof, IsFoundWithoutSectionHeaders) {
  const DofProgram program(EnabledProtocol::semaphore);
  const auto whole = probes_of(program.path());
  std::string bytes = content(program.path());
  for (const std::size_t at : {0x28U, 0x29U, 0x2aU, 0x2bU, 0x3cU, 0x3dU, 0x3eU, 0x3fU})
    bytes[at] = 0;  // e_shoff, e_shnum, e_shstrndx
  std::filesystem::remove(program.path());
  put(program.path(), bytes);
  std::filesystem::permissions(program.path(), std::filesystem::perms::all);
  const auto stripped = probes_of(program.path());
  ASSERT_TRUE(whole && stripped);
  ASSERT_EQ(stripped->probes.size(), whole->probes.size());
  for (std::size_t i = 0; i < whole->probes.size(); ++i) {
    ASSERT_EQ(stripped->probes[i].sites.size(), whole->probes[i].sites.size());
    for (std::size_t j = 0; j < whole->probes[i].sites.size(); ++j)
      EXPECT_EQ(stripped->probes[i].sites[j].address, whole->probes[i].sites[j].address);
  }
  Child child = start(program);
  const auto trace = open_trace(of_process(child.pid(), {"shop:plain"}));
  ASSERT_TRUE(trace);
  EXPECT_EQ(tell(child, "fire 3"), "fire");
  EXPECT_EQ(collect(*trace, 3).size(), 3U);
}

std::uint32_t u32(const std::string& bytes, std::size_t at) {
  std::uint32_t value = 0;
  std::memcpy(&value, bytes.data() + at, sizeof value);
  return value;
}

/// Makes the DOF of the program say something else of the site of shop:sold in sell().
void lie(const DofProgram& program, std::uint32_t add) {
  const auto file = probes_of(program.path());
  const auto* sold = find(*file, "sold");
  const Address function = std::stoull(nm(program.path(), "sell"), nullptr, 16);
  std::string bytes = content(program.path());
  const std::size_t dof = bytes.find(
      "\x7f"
      "DOF");
  int changed = 0;
  for (std::uint32_t i = 0; i < u32(bytes, dof + 28); ++i) {
    const std::size_t section = dof + u32(bytes, dof + 32) + 32 * i;
    if (u32(bytes, section) != VITRINE_DOF_SECTION_PROFFS) continue;
    for (std::uint32_t k = 0; k < u32(bytes, section + 24); k += 4) {
      const std::size_t at = dof + u32(bytes, section + 16) + k;
      const bool is_it =
          std::any_of(sold->sites.begin(), sold->sites.end(), [&](const probe::Site& site) {
            return site.function == "sell" && site.address - function == u32(bytes, at);
          });
      if (!is_it) continue;
      const std::uint32_t lies = u32(bytes, at) + add;
      std::memcpy(bytes.data() + at, &lies, sizeof lies);
      ++changed;
    }
  }
  EXPECT_EQ(changed, 1);
  put(program.path(), bytes);
}

TEST(Dof, ThatLiesIsRefusedSiteBySiteAndTheRestIsTraced) {
  for (const std::uint32_t add : {1U, 0xffffffffU, 0x10000000U, 0x2e00U}) {
    SCOPED_TRACE(add);
    const DofProgram program(EnabledProtocol::semaphore);
    lie(program, add);
    Child child = start(program);
    const auto trace = open_trace(of_process(child.pid(), {"shop:*"}));
    ASSERT_TRUE(trace);
    EXPECT_THAT(trace->take_notes(), ::testing::Contains(::testing::AllOf(
                                         HasSubstr("shop:sold"), HasSubstr("not attached to"),
                                         ::testing::AnyOf(HasSubstr("do not belong to a probe"),
                                                          HasSubstr("not in executable memory")))));
    EXPECT_EQ(tell(child, "fire 50"), "fire");
    EXPECT_EQ(collect(*trace, 150).size(), 150U);
    EXPECT_TRUE(collect_rest(*trace).empty());
    EXPECT_EQ(tell(child, "state"), "state 1");
  }
}

TEST(Dof, LongNopsAreLeftAloneWhereTheKernelMakesUnsafeCallsOfThem) {
  const DofProgram program(EnabledProtocol::semaphore, "-O2", true);
  Child child = start(program);
  const auto trace = open_trace(of_process(child.pid(), {"shop:plain"}));
  ASSERT_TRUE(trace);  // its stub has short ones
  const bool unsafe = bpf::kernel_nop_class() == bpf::NopClass::unsafe_nop5;
  bool told = false;
  for (const std::string& note : trace->take_notes())
    told = told || note.find("is a 5-byte nop") != note.npos;
  EXPECT_EQ(told, unsafe);
  EXPECT_EQ(tell(child, "fire 5"), "fire");
  const std::size_t expected = unsafe ? 0 : 5;
  EXPECT_EQ(collect(*trace, expected).size(), expected);
  EXPECT_TRUE(collect_rest(*trace).empty());
}

}  // namespace
}  // namespace vitrine::test
