// Traces of a program whose notes lie (trace_liar.c), and of strings that are not in memory.
#include <gmock/gmock.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>

#include "observe/trace_subject.hpp"

namespace vitrine::test {
namespace {

using probe::StringValue;
using probe::Value;
using probe::ValueError;
using testing::AllOf;
using testing::Contains;
using testing::HasSubstr;

std::map<std::string, std::vector<SeenFire>> by_probe(const std::vector<SeenFire>& fires) {
  std::map<std::string, std::vector<SeenFire>> sorted;
  for (const SeenFire& fire : fires) sorted[fire.probe].push_back(fire);
  return sorted;
}

bool is_error(const Value& value) {
  return std::holds_alternative<ValueError>(value);
}

TEST(TraceHostile, SitesThatLieAreNamedAndTheOthersTraced) {
  Child child = start_trace_subject();
  {
    const auto trace = open_trace(of_process(child.pid(), {"liar:*"}));
    ASSERT_TRUE(trace);
    const auto notes = trace->take_notes();
    for (const char* name : {"middle", "no_nop"})
      EXPECT_THAT(notes,
                  Contains(AllOf(HasSubstr(std::string("liar:") + name + " at 0x"),
                                 HasSubstr("not attached to"), HasSubstr("is not the nop"))));
    for (const char* name : {"in_data", "nowhere"})
      EXPECT_THAT(notes, Contains(AllOf(HasSubstr(std::string("liar:") + name + " at 0x"),
                                        HasSubstr("not in executable memory"))));
    EXPECT_THAT(notes, Contains(AllOf(HasSubstr("liar:sem_nowhere at"), HasSubstr("semaphore"),
                                      HasSubstr("not in writable memory"))));
    EXPECT_THAT(notes, Contains(AllOf(HasSubstr("liar:sem_odd at"), HasSubstr("odd"))));
    EXPECT_THAT(notes, Contains(AllOf(HasSubstr("liar:sem_in_text at"),
                                      HasSubstr("not in writable memory"))));
    EXPECT_THAT(notes, Contains(AllOf(HasSubstr("liar:sem_in_relro at"), HasSubstr("RELRO"))));

    for (const std::string& note : notes) EXPECT_LT(note.size(), 1000U) << note;

    EXPECT_EQ(tell(child, "fire 3"), "fire well");
    const auto fires = by_probe(collect(*trace, [](const auto& seen) {
      return !seen.empty() && seen.back().probe == "liar:last" &&
             seen.back().values.at(0) == Value(std::int64_t{2});
    }));
    for (const char* name : {"first", "counted", "sem_nowhere", "sem_odd", "sem_in_text",
                             "sem_in_relro", "unbalanced", "many", "last"}) {
      ASSERT_TRUE(fires.contains(std::string("liar:") + name)) << name;
      const auto& of_name = fires.at(std::string("liar:") + name);
      ASSERT_EQ(of_name.size(), 3U) << name;
      for (int i = 0; i < 3; ++i)
        EXPECT_EQ(of_name[static_cast<std::size_t>(i)].values.at(0), Value(std::int64_t{i}))
            << name;
    }
    EXPECT_TRUE(fires.contains("liar:twice"));
    EXPECT_TRUE(fires.contains("liar:thrice"));
    for (const char* name : {"middle", "no_nop", "in_data", "nowhere"})
      EXPECT_FALSE(fires.contains(std::string("liar:") + name)) << name;
    // One argument that begins well is not well.
    ASSERT_TRUE(fires.contains("liar:long"));
    EXPECT_TRUE(is_error(fires.at("liar:long")[0].values.at(0)));
    for (std::size_t i = 1; i < fires.at("liar:unbalanced")[0].values.size(); ++i)
      EXPECT_TRUE(is_error(fires.at("liar:unbalanced")[0].values[i])) << i;
    EXPECT_TRUE(is_error(fires.at("liar:many")[0].values.back()));
    EXPECT_LT(fires.at("liar:many")[0].values.size(), 100U);
    EXPECT_EQ(tell(child, "state").rfind("state 1", 0), 0U);
  }
  EXPECT_EQ(tell(child, "state"), "state 0 clean");
  EXPECT_EQ(tell(child, "fire 1000"), "fire well");
}

TEST(TraceHostile, OfNothingButLiesItSaysWhich) {
  Child child = start_trace_subject();
  const auto trace = Trace::open(of_process(child.pid(), {"liar:middle", "liar:nowhere"}));
  ASSERT_FALSE(trace);
  EXPECT_THAT(trace.error().message, AllOf(HasSubstr("liar:middle at"), HasSubstr("liar:nowhere")));
  EXPECT_EQ(tell(child, "state"), "state 0 clean");
}

TEST(TraceHostile, StringsThatAreNotInMemoryArriveWhole) {
  Child child = start_trace_subject();
  // On a real disk: tmpfs has no page cache of its own to drop.
  const auto path = std::filesystem::current_path() / "trace_hostile_page";
  const std::string text = "a string over the edge of two pages of a file";
  std::string content(1U << 20, 'x');
  content.replace(700 * 1024 + 4090, text.size() + 1, text.c_str(), text.size() + 1);
  std::ofstream(path, std::ios::binary) << content;
  ASSERT_EQ(std::system("sync"), 0);  // only clean pages are dropped
  TraceOptions options = of_process(child.pid(), {"liar:text"});
  options.query.show = *query::parse_items("str(arg0)");
  const auto trace = open_trace(options);
  ASSERT_TRUE(trace);
  child.write("page " + path.string() + "\n");
  EXPECT_EQ(child.read_line(patience).value_or(""), "page 0") << "it was not resident";
  EXPECT_EQ(tell(child, "out"), "out 0");
  const auto fires = collect(*trace, 2);
  std::filesystem::remove(path);
  ASSERT_EQ(fires.size(), 2U);
  EXPECT_EQ(fires[0].values.at(0), Value(StringValue{text, false}));
  EXPECT_EQ(fires[1].values.at(0), Value(StringValue{"paged out and back", false}));
}

}  // namespace
}  // namespace vitrine::test
