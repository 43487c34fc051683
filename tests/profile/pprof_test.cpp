// pprof, as Go's own command reads it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "profile/decode.hpp"
#include "profile/encoded_file.hpp"
#include "profile/profiles.hpp"
#include "support/child.hpp"

namespace vitrine::profile {
namespace {

using test::EncodedFile;
using test::small_profile;
using testing::Contains;
using testing::ContainsRegex;
using testing::HasSubstr;
using testing::Not;

/// What `go tool pprof OPTIONS FILE` prints.
std::string pprof(const std::string& file, std::vector<std::string> options) {
  std::vector<std::string> argv{"go", "tool", "pprof", "-symbolize=none"};
  argv.insert(argv.end(), options.begin(), options.end());
  argv.push_back(file);
  const auto done = test::run(argv, {.env = {"HOME=/tmp"}, .capture_stderr = true, .uid = 0});
  EXPECT_EQ(done.status, 0) << done.err;
  return done.out;
}

TEST(Pprof, RawHasEveryField) {
  const EncodedFile file(small_profile(), Encoding::pprof);
  const std::string raw = pprof(file.path(), {"-raw"});
  EXPECT_THAT(raw, HasSubstr("PeriodType: cpu nanoseconds\nPeriod: 10101010\n"));
  EXPECT_THAT(raw, HasSubstr("samples/count cpu/nanoseconds[dflt] off_cpu/nanoseconds"));
  EXPECT_THAT(raw, HasSubstr("Duration: 1s"));
  // Two ticks and two blocks of one thread in two stacks: the same samples are one.
  EXPECT_THAT(raw, ContainsRegex("\n +2   20202020          0: 1 2 *\n"));
  EXPECT_THAT(raw, ContainsRegex("\n +2          0   12000499: 3 1 2 *\n"));
  EXPECT_THAT(raw, ContainsRegex("route:\\[/pay\\] .*tenant:\\[acme\\] .*"
                                 "trace_id:\\[0102030405060708090a0b0c0d0e0f10\\]"));
  EXPECT_THAT(raw, HasSubstr("span_id:[1112131415161718]"));
  EXPECT_THAT(raw, ContainsRegex("pid:\\[100.*\\] *thread_id:\\[100.*\\]"));
  EXPECT_THAT(raw, HasSubstr("tenant:[(empty)]"));  // pprof drops empty texts
  // Inlined functions, innermost first; kernel; without a symbol.
  EXPECT_THAT(raw, ContainsRegex("1: 0x7100 M=[0-9]+ work::mix /src/work.hpp:8"));
  EXPECT_THAT(raw, ContainsRegex("\n +work::spin\\(int\\) /src/work.cpp:6"));
  EXPECT_THAT(raw, ContainsRegex("0xffffffff81000000 M=[0-9]+ schedule"));
  EXPECT_THAT(raw, ContainsRegex("0x7f00 M=[0-9]+ *\n"));
  EXPECT_THAT(raw, ContainsRegex("0x0 \\[truncated\\]"));
  EXPECT_THAT(raw, ContainsRegex("0x0 \\[incomplete\\]"));
  // The main program comes first, and nothing that no sample needs.
  EXPECT_THAT(raw, HasSubstr("Mappings\n1: 0x1000/0x3000/0x0 /srv/shop c0ffee [FN]"));
  EXPECT_THAT(raw, HasSubstr("/lib/libwork.so aa55aa55"));
  EXPECT_THAT(raw, Not(HasSubstr("unused")));
}

TEST(Pprof, CommentsTellOfLossesAndProblems) {
  const EncodedFile file(small_profile(), Encoding::pprof);
  const std::string comments = pprof(file.path(), {"-comments"});
  EXPECT_THAT(comments, HasSubstr("3 samples were lost"));
  EXPECT_THAT(comments, HasSubstr("4 samples have no labels because they could not be read"));
  EXPECT_THAT(comments, HasSubstr("/lib/libwork.so: its symbols could not be read"));
  EXPECT_THAT(comments, HasSubstr("'thread_id' is renamed to 'label.thread_id' here"));
  EXPECT_THAT(comments, HasSubstr("some text was not UTF-8"));
}

TEST(Pprof, Tags) {
  const EncodedFile file(small_profile(), Encoding::pprof);
  const std::string tags = pprof(file.path(), {"-tags", "-sample_index=samples"});
  EXPECT_THAT(tags,
              // Go 1.19 prints "Total 9.0", 1.26 "Total 9 of 10 (90.00%)".
              ContainsRegex("tenant: Total 9(\\.0| of 10 [^\n]*)\n +4(\\.0)? .*: acme\n"
                            " +3(\\.0)? .*: globex\n +2(\\.0)? .*: .empty.\n"));
  EXPECT_THAT(tags, HasSubstr("label.pprof::x"));
  EXPECT_THAT(tags, HasSubstr("label.thread_id: Total 2"));
  EXPECT_THAT(tags, HasSubstr("thread.id: Total 2"));
  // Two keys that are the same when replaced stay two.
  EXPECT_THAT(tags, HasSubstr("\n \xef\xbf\xbd: Total 2"));
  EXPECT_THAT(tags, HasSubstr("label.\xef\xbf\xbd: Total 2"));
  EXPECT_THAT(tags, HasSubstr("bad \xef\xbf\xbd value"));
}

TEST(Pprof, TagRootAndTagFocus) {
  const EncodedFile file(small_profile(), Encoding::pprof);
  const std::string traces = pprof(file.path(), {"-traces", "-tagroot=tenant"});
  EXPECT_THAT(
      traces,
      ContainsRegex("20.20ms   work::mix \\(inline\\)\n +work::spin\\(int\\)\n +main\n +acme"));
  const std::string top = pprof(file.path(), {"-top", "-tagfocus=tenant=globex"});
  EXPECT_THAT(top, ContainsRegex("30.30ms .*work::mix"));
  EXPECT_THAT(top, HasSubstr("Type: cpu"));
  EXPECT_THAT(pprof(file.path(), {"-top", "-nodefraction=0", "-sample_index=off_cpu"}),
              ContainsRegex("0.01s .*schedule\n"));
}

TEST(Pprof, LabelPrefix) {
  const EncodedFile file(small_profile(), Encoding::pprof, {.label_prefix = "app."});
  const std::string tags = pprof(file.path(), {"-tags"});
  EXPECT_THAT(tags, HasSubstr("app.tenant: Total"));
  EXPECT_THAT(tags, HasSubstr("app.thread_id: Total"));  // needs no other name now
  EXPECT_THAT(tags, Not(HasSubstr("label.thread_id")));
}

TEST(Pprof, IdsThatAreLabelsKeepTheirNamesWhereNoTraceHasThem) {
  Profile profile = small_profile();
  profile.label_sets[0] = {{"trace_id", "from a label"}};
  const EncodedFile with_links(profile, Encoding::pprof);
  EXPECT_THAT(pprof(with_links.path(), {"-raw"}), HasSubstr("label.trace_id:[from a label]"));
  profile.links.clear();
  const EncodedFile without(profile, Encoding::pprof);
  EXPECT_THAT(pprof(without.path(), {"-raw"}), HasSubstr(" trace_id:[from a label]"));
}

TEST(Pprof, OneIdWithoutTheOtherIsALabel) {
  Profile profile = small_profile();
  const std::string zeros(16, '0'), trace(32, 'a');
  profile.links.clear();
  for (Sample& sample : profile.samples) sample.link = none;
  profile.label_sets[0] = {{"span_id", zeros}, {"trace_id", trace}};
  const Profile read = decode(encode_pprof(profile, {}).value()).value();
  EXPECT_TRUE(read.links.empty());
  EXPECT_THAT(read.label_sets, Contains(profile.label_sets[0]));
}

TEST(Pprof, WithoutSamples) {
  Profile profile;
  profile.frequency = 99;
  const EncodedFile file(profile, Encoding::pprof);
  EXPECT_THAT(pprof(file.path(), {"-raw"}), HasSubstr("samples/count cpu/nanoseconds"));
}

}  // namespace
}  // namespace vitrine::profile
