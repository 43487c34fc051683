// Two copies of the publishing library in one process: each names its keys in a context of its own.
#include <map>

#include "check/publishers.hpp"
#include "observe/labels/labels.hpp"
#include "observe/process/facts.hpp"

namespace vitrine::test {
namespace {

using format::Format;
using testing::AllOf;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Pair;
using testing::StartsWith;
using testing::UnorderedElementsAre;

using Labels = std::map<std::string, std::string>;

struct Seen {
  std::map<std::string, Labels> records;  ///< by the file name of the module
  std::vector<std::string> notes;
};

Seen read(int pid, observe::Mode mode) {
  observe::LabelOptions options;
  options.mode = mode;
  auto reader = observe::LabelReader::open(pid, options);
  EXPECT_TRUE(reader) << reader.error().message;
  const auto snapshot = (*reader)->read(std::chrono::milliseconds(200));
  EXPECT_TRUE(snapshot) << snapshot.error().message;
  Seen seen;
  seen.notes = snapshot->notes;
  for (const observe::ThreadLabels& thread : snapshot->threads) {
    if (thread.format != Format::otel_thread_ctx_v1) continue;
    EXPECT_TRUE(thread.set);
    Labels& labels = seen.records[thread.module.substr(thread.module.rfind('/') + 1)];
    for (const format::Label& label : thread.set->labels) labels[label.key] = label.value;
  }
  return seen;
}

class Copies : public testing::TestWithParam<observe::Mode> {
 protected:
  static Child start(const char* what) {
    Child child = Child::spawn({COPIES, COPIES_PLUGIN, what});
    EXPECT_EQ(child.read_line(), "ready");
    return child;
  }
  static constexpr const char* program = "check_copies";
  static constexpr const char* library = "libcustomlabels.so";
  const Labels of_program{{"tenant", "acme"}, {"route", "/cart"}};
  const Labels of_plugin{{"job", "nightly"}, {"step", "4"}};
};

TEST_P(Copies, HaveTheNamesOfTheirOwnContexts) {
  Child child = start("both");
  const Seen seen = read(child.pid(), GetParam());
  EXPECT_THAT(seen.records,
              UnorderedElementsAre(Pair(program, of_program), Pair(library, of_plugin)));
  EXPECT_THAT(seen.notes, Contains(AllOf(HasSubstr(program), HasSubstr("link one copy"))));
  EXPECT_THAT(seen.notes, Contains(AllOf(HasSubstr(library), HasSubstr("link one copy"))));
}

TEST_P(Copies, WithoutAContextHaveNoNames) {
  Child child = start("dropped");
  const Seen seen = read(child.pid(), GetParam());
  EXPECT_THAT(seen.records,
              UnorderedElementsAre(Pair(program, of_program), Pair(library, IsEmpty())));
  EXPECT_THAT(seen.notes, Contains(AllOf(HasSubstr(library), HasSubstr(program),
                                         HasSubstr("read without their attributes"))));
}

TEST_P(Copies, WithKeysAloneAddNoContext) {
  Child child = start("keys");
  const Seen seen = read(child.pid(), GetParam());
  EXPECT_THAT(seen.records,
              UnorderedElementsAre(Pair(program, of_program), Pair(library, IsEmpty())));
  EXPECT_THAT(seen.notes, testing::Not(Contains(HasSubstr("thread records"))));
}

TEST_P(Copies, WithTwoContextsToChooseFromHaveNoNames) {
  Child child = start("unclear");
  const Seen seen = read(child.pid(), GetParam());
  EXPECT_THAT(seen.records,
              UnorderedElementsAre(Pair(program, IsEmpty()), Pair(library, of_plugin)));
  EXPECT_THAT(seen.notes, Contains(AllOf(HasSubstr(program), HasSubstr("2 key maps"))));
}

INSTANTIATE_TEST_SUITE_P(, Copies, testing::Values(observe::Mode::snapshot, observe::Mode::ptrace),
                         [](const auto& one) { return std::string(observe::name(one.param)); });

std::string remedy_of(const check::Report& report, std::string_view rule) {
  for (const check::Finding& one : report.findings)
    if (one.rule->id == rule) return one.outcome.remedy;
  return "not asked";
}

TEST(CopiesRule, NamesTheModulesAndTheRemedy) {
  constexpr std::string_view rule = "otep-4947.one-key-map";
  check::Options options;
  options.duration = std::chrono::milliseconds(50);
  options.sample = false;
  for (const char* what : {"both", "dropped"}) {
    Child child = Child::spawn({COPIES, COPIES_PLUGIN, what});
    ASSERT_EQ(child.read_line(), "ready");
    const auto report = check::check_process(child.pid(), options);
    ASSERT_TRUE(report) << report.error().message;
    EXPECT_THAT(said(*report, rule), AllOf(StartsWith("fails: "), HasSubstr("check_copies"),
                                           HasSubstr("libcustomlabels.so")))
        << what;
    EXPECT_THAT(remedy_of(*report, rule), HasSubstr("one copy"));
  }
  Child keys = Child::spawn({COPIES, COPIES_PLUGIN, "keys"});
  ASSERT_EQ(keys.read_line(), "ready");
  const auto of_keys = check::check_process(keys.pid(), options);
  ASSERT_TRUE(of_keys) << of_keys.error().message;
  EXPECT_THAT(said(*of_keys, rule), StartsWith("holds"));
  EXPECT_EQ(said(*of_keys, "otep-4719.single"), "holds: one");
}

check::Report report_of(const Child& child) {
  check::Options options;
  options.duration = std::chrono::milliseconds(50);
  options.sample = false;
  auto report = check::check_process(child.pid(), options);
  EXPECT_TRUE(report) << report.error().message;
  return report ? std::move(*report) : check::Report{};
}

// The context of which keys alone are the reason does not hide the one that the program asked for, though it was
// updated later.
TEST(CopiesContext, IsTheOneThatTheProgramAskedFor) {
  Child child = Child::spawn({COPIES, COPIES_PLUGIN, "plugin-first"});
  ASSERT_EQ(child.read_line(), "ready");
  auto reader = observe::ContextReader::open(child.pid());
  ASSERT_TRUE(reader);
  const auto state = (*reader)->refresh();
  ASSERT_TRUE(state && *state != nullptr);
  const std::string* service = format::find_text((*state)->context.resource, "service.name");
  ASSERT_NE(service, nullptr);
  EXPECT_EQ(*service, "program");
  EXPECT_THAT((*state)->notes,
              ElementsAre(AllOf(HasSubstr("there is another"), HasSubstr("link one copy"))));
  const auto report = report_of(child);
  EXPECT_THAT(said(report, "otep-4719.single"), StartsWith("fails: "));
  EXPECT_THAT(remedy_of(report, "otep-4719.single"), HasSubstr("copy of the library"));
}

TEST(CopiesNotes, AreOfTracesAndProfiles) {
  Child child = Child::spawn({COPIES, COPIES_PLUGIN, "both"});
  ASSERT_EQ(child.read_line(), "ready");
  const std::string pid = std::to_string(child.pid());
  const Outcome traced = run({VITRINE, "trace", pid, "func:libc:getchar", "--duration", "100ms"});
  EXPECT_THAT(traced.err, AllOf(HasSubstr("process " + pid + ": thread records of "),
                                HasSubstr("link one copy of the library")));
  const Outcome profiled =
      run({VITRINE, "profile", pid, "--duration", "100ms", "-o", "/dev/null", "--format", "json"});
  EXPECT_THAT(profiled.err, AllOf(HasSubstr("process " + pid + ": thread records of "),
                                  HasSubstr("link one copy of the library")));
}

TEST(TraceAlone, IsDeclaredByTheContext) {
  Child child = Child::spawn({COPIES, COPIES_PLUGIN, "trace"});
  ASSERT_EQ(child.read_line(), "ready");
  const auto report = report_of(child);
  EXPECT_EQ(said(report, "otep-4947.schema-version"), "holds: tlsdesc_v1_dev");
  EXPECT_EQ(said(report, "otep-4947.key-map"), "holds: it is empty");
}

}  // namespace
}  // namespace vitrine::test
