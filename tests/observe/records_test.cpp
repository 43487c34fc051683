// Fires as log records.
#include "observe/trace/records.hpp"

#include <gmock/gmock.h>

#include <map>
#include <set>
#include <utility>

namespace vitrine::observe {
namespace {

/// All attributes that are texts, by key; a key that is there twice fails.
std::map<std::string, std::string> texts_of(const telemetry::LogRecord& record) {
  std::map<std::string, std::string> texts;
  for (const telemetry::Attribute& one : record.attributes) {
    const auto* text = std::get_if<std::string>(&one.value);
    if (text == nullptr) continue;
    EXPECT_TRUE(texts.emplace(one.key, *text).second) << one.key;
  }
  return texts;
}

class Records : public testing::Test {
 protected:
  Records() { event_.labels = &set_; }
  format::LabelSet set_;
  TraceEvent event_;
};

TEST_F(Records, LabelsThatAreAlikeAsTextAreAllThere) {
  set_.labels = {{"\xff", "C"}, {"\xfe", "D"}, {"\xef\xbf\xbd", "E"}};
  const auto texts = texts_of(log_record_of(event_, 0));
  EXPECT_EQ(texts.at("\xef\xbf\xbd"), "E");
  EXPECT_EQ(texts.at("label.\xef\xbf\xbd"), "C");
  EXPECT_EQ(texts.at("label.\xef\xbf\xbd.1"), "D");
}

TEST_F(Records, ALabelThatIsRenamedTakesNoOthersKey) {
  for (const bool reverse : {false, true}) {
    set_.labels = {{"label.thread.id", "A"}, {"thread.id", "B"}};
    if (reverse) std::swap(set_.labels[0], set_.labels[1]);
    std::multiset<std::string> values;
    for (const auto& [key, value] : texts_of(log_record_of(event_, 0)))
      if (key.starts_with("label.")) values.insert(value);
    EXPECT_THAT(values, testing::ElementsAre("A", "B"));
  }
}

TEST_F(Records, AStringThatIsNullIsSpelledAsInMetrics) {
  event_.arguments.push_back({"item", {}, probe::PointerValue{.address = 0, .is_absent = true}});
  event_.arguments.push_back({"p", {}, probe::PointerValue{.address = 0}});
  const auto texts = texts_of(log_record_of(event_, 0));
  EXPECT_EQ(texts.at("arg.item"), "NULL");
  EXPECT_EQ(texts.at("arg.p"), "0x0");
}

}  // namespace
}  // namespace vitrine::observe
