// docs/formats/process-context.md, "What a reader must check", against real processes
// (hostile_context.c).
#include <gmock/gmock.h>
#include <unistd.h>

#include <chrono>

#include "observe/process/facts.hpp"
#include "support/child.hpp"

namespace vitrine::observe {
namespace {

using namespace vitrine::test;
using std::chrono::steady_clock;
using testing::HasSubstr;
using testing::SizeIs;

const std::string a(200, 'a'), b(200, 'b');

class LiveContext {
 public:
  explicit LiveContext(std::vector<std::string> arguments) : child_(start(std::move(arguments))) {
    auto reader = ContextReader::open(child_.pid());
    EXPECT_TRUE(reader) << reader.error().message;
    if (reader) reader_ = std::move(*reader);
  }

  Result<const ContextState*> refresh() { return reader_->refresh(); }

  /// The service's name, or what went wrong.
  std::string service() {
    auto state = refresh();
    if (!state) return "error: " + state.error().message;
    if (!*state) return "none";
    const auto* name = format::find_text((*state)->context.resource, "service.name");
    return name ? *name : "no name";
  }

  Error error() {
    auto state = refresh();
    return state ? Error{} : state.error();
  }

 private:
  static Child start(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), HOSTILE_CONTEXT);
    Child child = Child::spawn(std::move(arguments));
    child.read_until("ready");
    return child;
  }

  Child child_;
  std::unique_ptr<ContextReader> reader_;
};

TEST(HostileLiveContext, GoodOneForComparison) {
  LiveContext context({"good"});
  EXPECT_EQ(context.service(), a);
  EXPECT_EQ(context.service(), a);
}

TEST(HostileLiveContext, PayloadOf4GiB) {
  EXPECT_EQ(LiveContext({"4-gib"}).error().code, ErrorCode::limit);
}

TEST(HostileLiveContext, PayloadThatNobodyMayRead) {
  EXPECT_EQ(LiveContext({"prot-none"}).error().code, ErrorCode::malformed);
}

TEST(HostileLiveContext, PublisherThatDiedInTheMiddleOfAnUpdate) {
  const Error error = LiveContext({"frozen"}).error();
  EXPECT_EQ(error.code, ErrorCode::changing);
  EXPECT_THAT(error.message, HasSubstr("an update is in progress"));
}

TEST(HostileLiveContext, StampThatNeverRestsEndsInTime) {
  LiveContext context({"restless"});
  const auto begin = steady_clock::now();
  const std::string service = context.service();
  EXPECT_LT(steady_clock::now() - begin, std::chrono::seconds(20));
  // Between two increments there is time for a whole read only by luck; the payload is good.
  if (service != a) {
    EXPECT_THAT(service, HasSubstr("faster than vitrine can read it"));
  }
}

TEST(HostileLiveContext, UpdatesWithoutEndAreNeverMixed) {
  LiveContext context({"updating"});
  int whole = 0;
  const auto end = steady_clock::now() + std::chrono::seconds(20);
  while (whole <= 10 && steady_clock::now() < end) {
    auto state = context.refresh();
    if (!state) {
      ASSERT_EQ(state.error().code, ErrorCode::changing) << state.error().message;
      continue;
    }
    ASSERT_TRUE(*state);
    const auto* name = format::find_text((*state)->context.resource, "service.name");
    ASSERT_TRUE(name);
    ASSERT_TRUE(*name == a || *name == b) << *name;
    if ((*state)->stale.empty()) ++whole;
  }
  EXPECT_GT(whole, 10);
}

TEST(HostileLiveContext, TwoContexts) {
  LiveContext context({"two"});
  EXPECT_EQ(context.service(), b);
  EXPECT_THAT((*context.refresh())->notes, SizeIs(1));
}

TEST(HostileLiveContext, MappingWithALongerName) {
  LiveContext context({"backup"});
  EXPECT_EQ(context.service(), a);
  EXPECT_THAT((*context.refresh())->notes, SizeIs(1));
}

TEST(HostileMaps, FiftyThousandMappings) {
  LiveContext context({"many"});
  auto begin = steady_clock::now();
  EXPECT_EQ(context.service(), a);
  EXPECT_LT(steady_clock::now() - begin, std::chrono::seconds(20));
  begin = steady_clock::now();
  for (int i = 0; i < 1000; ++i) ASSERT_TRUE(context.refresh());
  EXPECT_LT(steady_clock::now() - begin, std::chrono::seconds(20)) << "its address is remembered";
}

TEST(HostileMaps, PathWithANewline) {
  const std::string path = "/tmp/vitrine\n7f0000000000-7f0000001000 rw-p 0 0:0 1 " +
                           std::to_string(getpid()) + ":OTEL_CTX";
  LiveContext context({"newline", path});
  EXPECT_EQ(context.service(), a);
  EXPECT_THAT((*context.refresh())->notes, SizeIs(0));
  unlink(path.c_str());
}

}  // namespace
}  // namespace vitrine::observe
