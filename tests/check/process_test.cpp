// Live publishers: one that keeps every rule, and for each rule one that breaks it.
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "check/context.hpp"
#include "check/publishers.hpp"

namespace vitrine::test {
namespace {

using check::Profile;
using std::chrono::milliseconds;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::StartsWith;

check::Report check_process(int pid, milliseconds duration = milliseconds(50),
                            check::Profiles claimed = {}) {
  check::Options options;
  options.duration = duration;
  options.sample = false;
  options.claimed = claimed;
  if (!claimed.empty()) options.profiles = claimed;
  auto report = check::check_process(pid, options);
  EXPECT_TRUE(report) << report.error().message;
  return report ? std::move(*report) : check::Report{};
}

/// Rules of the process itself and of its threads, and of the program, that fail; not those of the
/// libraries that this system happens to have.
Words failing_of(const check::Report& report, const std::string& program) {
  check::Report own;
  for (const check::Finding& one : report.findings)
    if (one.subject.empty() || one.subject == program) own.findings.push_back(one);
  return failing(own);
}

struct Fault {
  const char* name;
  Words rules;  ///< that fail
};

void PrintTo(const Fault& fault, std::ostream* out) {
  *out << fault.name;
}

const Fault faults[] = {
    {"none", {}},
    {"null-value", {"labels.value-present"}},
    {"lost-key", {"labels.key-readable"}},
    {"lost-value", {"labels.value-readable"}},
    {"kernel-value", {"labels.value-readable"}},
    {"cut-set", {"labels.readable"}},
    {"lost-set", {"labels.readable"}},
    {"long-value", {"labels.parca-limits"}},
    {"long-key", {"labels.parca-limits"}},
    {"cut-key", {"labels.whole", "labels.parca-limits"}},
    {"repeated", {"labels.no-repeats"}},
    {"not-text", {"labels.text"}},
    {"odd-record", {"otep-4947.record-aligned"}},
    {"valid-2", {"otep-4947.valid-flag"}},
    {"unknown-key", {"otep-4947.key-in-map"}},
    {"overrun", {"otep-4947.attributes-fit"}},
    {"not-utf8", {"otep-4947.utf8"}},
    {"same-name", {"otep-4947.keys-differ", "otep-4947.key-map"}},
    {"no-span", {"otep-4947.both-ids"}},
    {"large-record", {"otep-4947.record-size"}},
    {"lost-record", {"otep-4947.readable"}},
    {"other-name", {"otep-4719.published"}},
    {"no-signature", {"otep-4719.published", "otep-4947.schema-version", "otep-4947.key-in-map"}},
    {"no-context", {"otep-4947.schema-version", "otep-4947.key-in-map"}},
    {"version-3", {"otep-4719.version", "otep-4947.schema-version", "otep-4947.key-in-map"}},
    {"frozen", {"otep-4719.stamp", "otep-4947.schema-version", "otep-4947.key-in-map"}},
    {"lost-payload", {"otep-4719.payload", "otep-4947.schema-version", "otep-4947.key-in-map"}},
    {"bad-payload", {"otep-4719.payload", "otep-4947.schema-version", "otep-4947.key-in-map"}},
    {"bare", {"otep-4719.wrapped", "otep-4947.schema-version", "otep-4947.key-in-map"}},
    {"large", {"otep-4719.payload-size"}},
    {"two-contexts", {"otep-4719.single"}},
    {"forked", {"otep-4719.not-forked"}},
    {"realtime", {"otep-4719.clock"}},
    {"bad-text", {"otep-4719.utf8"}},
    {"twice-key", {"otep-4719.keys-unique"}},
    {"no-service", {"otep-4719.service-name"}},
    {"wrong-type", {"otep-4719.conventions"}},
    {"wrong-pid", {"otep-4719.pid"}},
    {"no-schema", {"otep-4947.schema-version", "otep-4947.key-in-map"}},
    {"bare-record", {"otep-4947.schema-version"}},
    {"odd-schema", {"otep-4947.schema-version"}},
    {"final-schema", {"otep-4947.schema-readers"}},
    {"schema-in-resource", {"otep-4947.schema-place"}},
    {"bad-map", {"otep-4947.key-map"}},
};

// One that was read between updates, and is being changed at the last look.
TEST(Context, AnUpdateAtTheLastLookAloneIsNoFault) {
  constexpr Address at = 0x7f0000000000;
  check::ContextSubject subject;
  target::Mapping mapping;
  mapping.start = at;
  subject.candidates.push_back({mapping, format::ContextHeader{2, 40, 0, at + 64}, {}});
  subject.problem = Error{ErrorCode::changing, "an update is in progress", {}};
  const auto verdict_of = [&](std::string_view id) {
    for (const auto& rule : check::process_context_rules())
      if (rule.requirement.id == id) return rule.ask(subject).verdict;
    ADD_FAILURE() << "no rule " << id;
    return check::Verdict::fails;
  };
  EXPECT_EQ(verdict_of("otep-4719.stamp"), check::Verdict::fails);
  EXPECT_EQ(verdict_of("otep-4719.payload"), check::Verdict::undecided);
  subject.state.emplace();
  subject.state->header = at;
  subject.state->context.version = 2;
  subject.state->context.published_at_ns = 5;
  EXPECT_EQ(verdict_of("otep-4719.stamp"), check::Verdict::holds);
  EXPECT_EQ(verdict_of("otep-4719.payload"), check::Verdict::holds);
}

class LiveFaults : public testing::TestWithParam<Fault> {};

TEST_P(LiveFaults, AreFoundAndNoOthers) {
  Child child = Child::spawn({CHECK_SUBJECT, GetParam().name});
  ASSERT_EQ(child.read_line(), "ready");
  const auto report = check_process(child.pid());
  EXPECT_THAT(failing_of(report, CHECK_SUBJECT),
              testing::UnorderedElementsAreArray(GetParam().rules));
  for (const check::Finding& one : report.findings) {
    if (one.fails() && one.readings) {
      EXPECT_GT(one.readings->violations, 0U);
      EXPECT_THAT(one.readings->example, HasSubstr("thread "));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(, LiveFaults, testing::ValuesIn(faults), [](const auto& one) {
  std::string name = one.param.name;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
});

TEST(LiveRules, AValueThatIsLongerThanAllMemoryIsFound) {
  Child child = Child::spawn({CHECK_SUBJECT, "endless-value"});
  ASSERT_EQ(child.read_line(), "ready");
  EXPECT_THAT(said(check_process(child.pid()), "labels.value-readable"),
              AllOf(StartsWith("fails"), HasSubstr("of 18446744073709551615 bytes")));
}

TEST(LiveRules, CountWhatTheyRead) {
  Child child = Child::spawn({CHECK_SUBJECT});
  ASSERT_EQ(child.read_line(), "ready");
  const auto report = check_process(child.pid());
  for (const check::Finding& one : report.findings) {
    if (one.rule->id != "labels.value-present") continue;
    ASSERT_TRUE(one.readings);
    EXPECT_GE(one.readings->threads, 2U);
    EXPECT_GE(one.readings->readings, one.readings->threads);
    EXPECT_EQ(one.readings->violations, 0U);
  }
  EXPECT_THAT(said(report, "labels.located"), StartsWith("holds: TP"));
  EXPECT_THAT(said(report, "labels.in-force"), StartsWith("holds"));
}

// The library announces its thread records with the first key of one. The C interface makes none by default.
TEST(LiveRules, OfThreadContextsNeedNoSchemaBeforeTheFirstRecord) {
  constexpr const char* source = R"c(
#include <customlabels.h>
#include <stdio.h>
#include <unistd.h>
int main(void) {
  custom_labels_labelset_t* set = custom_labels_new(1);
  const custom_labels_string_t key = {6, (const unsigned char*)" tenant "};
      const custom_labels_string_t value = {4, (const unsigned char*)"acme"};
  custom_labels_set(set, key, value, NULL);
  custom_labels_replace(set);
  puts("ready");
  fflush(stdout);
  for (;;) pause();
}
)c";
  const Folder folder;
  const std::string library = LABELS_LIBRARY;
  Child child =
      Child::spawn({folder.make("program", source,
                                {std::string("-I") + INCLUDE_DIR, library,
                                 "-Wl,-rpath," + library.substr(0, library.rfind('/'))})});
  ASSERT_EQ(child.read_line(), "ready");
  const auto report = check_process(child.pid());
  EXPECT_THAT(report.checked.names(), Contains("otep-4947"));
  EXPECT_THAT(failing(report), IsEmpty());
  EXPECT_THAT(said(report, "labels.in-force"), StartsWith("holds"));
  EXPECT_THAT(said(report, "otep-4947.schema-version"),
              AllOf(StartsWith("undecided"), HasSubstr("no readable context")));
}

TEST(LiveRules, CountTheReadingsOfEachFormatApart) {
  constexpr const char* both = R"(
#include <stdio.h>
#include <unistd.h>
__thread void* custom_labels_current_set;
const unsigned custom_labels_abi_version = 1;
int main(void) {
  puts("ready");
  fflush(stdout);
  for (;;) pause();
}
)";
  const Folder folder;
  const std::string library = LABELS_V0_LIBRARY;
  Child child =
      Child::spawn({folder.make("both", both,
                                {"-rdynamic", "-Wl,--no-as-needed", library,
                                 "-Wl,-rpath," + library.substr(0, library.rfind('/'))})});
  ASSERT_EQ(child.read_line(), "ready");
  const auto report = check_process(child.pid());
  Words seen;
  for (const check::Finding& one : report.findings)
    if (one.rule->id == "labels.readable") seen.push_back(one.outcome.seen);
  EXPECT_THAT(seen, testing::UnorderedElementsAre(
                        AllOf(HasSubstr(" of 1 threads"), HasSubstr("(of custom-labels-v0)")),
                        AllOf(HasSubstr(" of 1 threads"), HasSubstr("(of custom-labels-v1)"))));
}

/// Changes its context until `done`.
template <class Work>
void while_changing(Child& child, Work work) {
  std::atomic<bool> done{false};
  std::thread changes([&] {
    while (!done) {
      child.write("change\n");
      if (!child.read_line()) break;
      std::this_thread::sleep_for(milliseconds(20));
    }
  });
  work();
  done = true;
  changes.join();
}

TEST(LiveRules, OfUpdatesAreDecidedWhenThereAreSome) {
  for (const char* fault : {"none", "same-stamp", "map-changes"}) {
    Child child = Child::spawn({CHECK_SUBJECT, fault});
    ASSERT_EQ(child.read_line(), "ready");
    const auto rested = check_process(child.pid());
    EXPECT_THAT(said(rested, "otep-4719.restamped"), StartsWith("does-not-apply: no update"));
    check::Report report;
    while_changing(child, [&] { report = check_process(child.pid(), milliseconds(1500)); });
    const std::string name = fault;
    EXPECT_THAT(said(report, "otep-4719.restamped"),
                StartsWith(name == "same-stamp" ? "fails: its content changed" : "holds"))
        << fault;
    if (name != "same-stamp") {
      EXPECT_THAT(said(report, "otep-4947.key-map-grows"),
                  StartsWith(name == "map-changes" ? "fails: key 0 was " : "holds"))
          << fault;
    }
  }
}

TEST(LiveRules, AContextThatCameByForkIsFoundInTheChild) {
  Child parent = Child::spawn({CHECK_SUBJECT, "inherited"});
  const auto pid = parent.read_line();
  ASSERT_TRUE(pid);
  const auto report = check_process(std::stoi(*pid));
  EXPECT_THAT(said(report, "otep-4719.own"), HasSubstr("by its parent, before a fork"));
  EXPECT_THAT(said(check_process(parent.pid()), "otep-4719.own"), StartsWith("holds"));
}

TEST(LiveRules, WhoAnnouncesThreadContextsAndHasNoSlotIsFound) {
  Child child = Child::spawn({CHECK_SUBJECT_WITHOUT_SLOT});
  ASSERT_EQ(child.read_line(), "ready");
  EXPECT_THAT(said(check_process(child.pid()), "otep-4947.slot-exported"),
              StartsWith("fails: the file does not define otel_thread_ctx_v1"));
}

TEST(LiveRules, AskedForAreMissed) {
  Child child = Child::spawn({"sh", "-c", "echo ready; read rest"});
  ASSERT_EQ(child.read_line(), "ready");
  const auto report = check_process(child.pid(), milliseconds(50),
                                    {Profile::otep_4719, Profile::custom_labels_v1, Profile::dof});
  EXPECT_THAT(failing(report), Contains("otep-4719.published"));
  EXPECT_THAT(failing(report), Contains("labels.slot-exported"));
  EXPECT_THAT(failing(report), Contains("labels.located"));
  EXPECT_THAT(failing(report), Contains("dof.present"));
}

TEST(LiveRules, OfTheDemoAllHold) {
  Child demo = Child::spawn({DEMO_SERVICE, "--seconds", "60"});
  ASSERT_TRUE(demo.read_line());
  const auto report = check_process(demo.pid(), milliseconds(500));
  EXPECT_THAT(failing(report, false), IsEmpty());
  EXPECT_THAT(report.checked.names(), Contains("custom-labels-v1"));
  EXPECT_THAT(report.checked.names(), Contains("otep-4947"));
  EXPECT_THAT(report.checked.names(), Contains("otep-4719"));
}

TEST(LiveRules, OfAProcessThatIsNotThereAreAnError) {
  Child child = Child::spawn({"true"});
  ASSERT_EQ(child.wait(), 0);
  const auto report = check::check_process(child.pid(), {});
  ASSERT_FALSE(report);
  EXPECT_EQ(report.error().code, ErrorCode::not_found);
}

}  // namespace
}  // namespace vitrine::test
