#include "base/notes.hpp"

#include <gmock/gmock.h>

namespace vitrine {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

TEST(Notes, ReportsEachTextOnce) {
  Notes notes;
  notes.add("a");
  notes.add(std::vector<std::string>{"b", "a"});
  EXPECT_THAT(notes.waiting(), ElementsAre("a", "b"));
  EXPECT_THAT(notes.take(), ElementsAre("a", "b"));
  notes.add("a");
  notes.add("c");
  EXPECT_THAT(notes.take(), ElementsAre("c"));
  notes.clear();
  notes.add("a");
  EXPECT_THAT(notes.take(), ElementsAre("a"));
}

TEST(Notes, CountsTextsBeyondTheLimit) {
  Notes notes(2, Notes::Repeats::dropped);
  notes.add(std::vector<std::string>{"a", "b", "a", "c"});
  EXPECT_THAT(notes.take(), ElementsAre("a", "b"));
  notes.add("d");
  EXPECT_THAT(notes.take(), IsEmpty()) << "the limit is of all texts, not of those that wait";
  EXPECT_EQ(notes.take_excess(), 2) << "a text that is known is not one too many";
  EXPECT_EQ(notes.take_excess(), 0);
}

TEST(Notes, KeepsRepeatsIfRequested) {
  Notes notes(2, Notes::Repeats::kept);
  notes.add(std::vector<std::string>{"a", "a", "a"});
  EXPECT_THAT(notes.take(), ElementsAre("a", "a"));
  EXPECT_EQ(notes.take_excess(), 1);
  notes.add("a");
  EXPECT_THAT(notes.take(), ElementsAre("a"));
}

}  // namespace
}  // namespace vitrine
