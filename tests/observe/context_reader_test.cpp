// ContextReader over a memory of our making: docs/formats/process-context.md, "Reading" and
// "What a reader must check".
#include <gmock/gmock.h>

#include <functional>

#include "format/bytes.hpp"
#include "format/protobuf.hpp"
#include "observe/process/facts.hpp"

namespace vitrine::observe {
namespace {

using namespace vitrine::test;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

constexpr Address header_at = 0x7f00'0000'0000;
constexpr Address payload_at = 0x5500'0000'0000;

/// A process whose publisher acts between our reads.
class ScriptedSource : public ContextSource, public Memory {
 public:
  Memory& memory() override { return *this; }
  Result<target::ContextMappings> mappings() override {
    ++searches;
    return target::ContextMappings{list, false};
  }
  Result<void> verify() override {
    if (gone) return fail(ErrorCode::not_found, "process 1 has ended");
    if (other) return fail(ErrorCode::another_program, "process 1 has executed another program");
    return {};
  }
  void read(std::span<ReadRequest> requests) override {
    for (ReadRequest& request : requests) {
      ++reads;
      if (before_read) before_read();
      bytes.read({&request, 1});
    }
  }

  void map(Address at, std::string name = "/memfd:OTEL_CTX (deleted)") {
    list.push_back({at, at + 4096, true, true, false, false, 0, 1, std::move(name)});
  }
  void header(std::uint64_t stamp, std::uint32_t size, Address payload = payload_at,
              std::uint32_t version = 2, Address at = header_at) {
    bytes.place(at, Bytes().text("OTEL_CTX").u32(version).u32(size).u64(stamp).u64(payload));
  }
  /// A good context whose service has this name.
  void publish(const std::string& service, std::uint64_t stamp, Address at = header_at,
               Address payload = payload_at) {
    const auto message =
        pb::with_resource({pb::key_value("service.name", pb::text_value(service))});
    bytes.place(payload, bytes_of(message));
    header(stamp, static_cast<std::uint32_t>(message.size()), payload, 2, at);
  }

  BufferMemory bytes;
  std::vector<target::Mapping> list;
  std::function<void()> before_read;
  bool gone = false;
  bool other = false;  ///< it executes another program
  int searches = 0;
  int reads = 0;
};

struct Target {
  Target() : source(new ScriptedSource), reader(std::unique_ptr<ContextSource>(source)) {}
  ScriptedSource* source;
  ContextReader reader;

  std::string service() {
    auto state = reader.refresh();
    if (!state) return "error: " + state.error().message;
    if (!*state) return "none";
    const auto* name = format::find_text((*state)->context.resource, "service.name");
    return (name ? *name : "no name") + ((*state)->stale.empty() ? "" : " (stale)");
  }
  Error error() {
    auto state = reader.refresh();
    return state ? Error{} : state.error();
  }
};

TEST(ContextReader, ReadsAndRefreshesAtTheCostOfOneRead) {
  Target target;
  target.source->map(header_at);
  target.source->publish("one", 100);
  EXPECT_EQ(target.service(), "one");
  EXPECT_EQ(target.source->searches, 1);

  target.source->reads = 0;
  EXPECT_EQ(target.service(), "one");
  EXPECT_EQ(target.source->reads, 1) << "unchanged: the header alone";
  EXPECT_EQ(target.source->searches, 1);

  target.source->publish("two", 90);  // an earlier stamp is an update, too
  EXPECT_EQ(target.service(), "two");
  EXPECT_EQ(target.source->searches, 1);
}

TEST(ContextReader, NothingPublishedThenPublishedThenDropped) {
  Target target;
  EXPECT_EQ(target.service(), "none");
  target.source->map(header_at);
  target.source->publish("late", 1);
  EXPECT_EQ(target.service(), "late");
  target.source->list.clear();
  target.source->bytes.place(header_at, {});
  EXPECT_EQ(target.service(), "none");
}

TEST(ContextReader, FollowsAContextThatMoves) {
  Target target;
  target.source->map(header_at);
  target.source->publish("here", 1);
  EXPECT_EQ(target.service(), "here");
  target.source->list.clear();
  target.source->bytes.place(header_at, {});
  target.source->map(header_at + 0x10000);
  target.source->publish("there", 1, header_at + 0x10000);
  EXPECT_EQ(target.service(), "there");
}

TEST(ContextReader, UpdateInTheMiddleOfAReadIsReadAgain) {
  Target target;
  target.source->map(header_at);
  target.source->publish("old", 1);
  int step = 0;
  target.source->before_read = [&] {
    // Reads: header for the search, header, payload, header again. The update hits the payload.
    if (++step == 3) target.source->publish("new and longer", 2);
  };
  EXPECT_EQ(target.service(), "new and longer");
}

TEST(ContextReader, SameStampWithAnotherPayloadIsNotAccepted) {
  Target target;
  target.source->map(header_at);
  target.source->publish("x", 1);
  int step = 0;
  target.source->before_read = [&] {
    if (++step == 4) target.source->publish("y", 1, header_at, payload_at + 0x1000);
  };
  EXPECT_EQ(target.service(), "y") << "pointer and size count, not the stamp alone";
}

TEST(ContextReader, GoneProcessIsSaidToBeGone) {
  Target target;
  target.source->map(header_at);
  target.source->publish("x", 1);
  EXPECT_EQ(target.service(), "x");
  target.source->gone = true;
  target.source->bytes.place(header_at, {});
  EXPECT_EQ(target.error().code, ErrorCode::not_found);
}

TEST(ContextReader, WhatAnotherProgramHasIsNoStaleReading) {
  Target target;
  target.source->map(header_at);
  target.source->publish("before", 1);
  EXPECT_EQ(target.service(), "before");
  // The context moves, and while that is read the process executes another program.
  target.source->list.clear();
  target.source->bytes.place(header_at, {});
  target.source->map(header_at + 0x10000);
  target.source->publish("moved", 2, header_at + 0x10000);
  target.source->before_read = [&] { target.source->other = target.source->searches == 2; };
  EXPECT_EQ(target.error().code, ErrorCode::another_program);
}

TEST(ContextReader, AStoppedReadingIsNoStaleOne) {
  Target target;
  target.source->map(header_at);
  target.source->publish("x", 1);
  EXPECT_EQ(target.service(), "x");
  const std::atomic<bool> stop = true;
  target.reader.stop_by(&stop);
  EXPECT_EQ(target.error().code, ErrorCode::interrupted);
}

TEST(ContextReader, Version1IsRead) {
  Target target;
  target.source->map(header_at);
  const std::vector<std::byte> map =
      Bytes().u8(0x81).u8(0xac).text("service.name").u8(0xa2).text("v1");
  target.source->bytes.place(payload_at, map);
  target.source->bytes.place(
      header_at,
      Bytes().text("OTEL_CTX").u32(1).u32(static_cast<std::uint32_t>(map.size())).u64(payload_at));
  EXPECT_EQ(target.service(), "v1");
  EXPECT_EQ(target.service(), "v1");
}

// The hostile list, item 7.

TEST(HostileContext, PayloadOfNoBytes) {
  Target target;
  target.source->map(header_at);
  target.source->header(1, 0);
  EXPECT_EQ(target.error().code, ErrorCode::malformed);
}

TEST(HostileContext, PayloadOf4GiBIsRefusedBeforeAnyAllocation) {
  Target target;
  target.source->map(header_at);
  target.source->header(1, 0xffff'ffff);
  const Error error = target.error();
  EXPECT_EQ(error.code, ErrorCode::limit);
  EXPECT_THAT(error.message, HasSubstr("4294967295"));
}

TEST(HostileContext, PayloadInsideItsHeader) {
  Target target;
  target.source->map(header_at);
  target.source->header(1, 32, header_at);
  EXPECT_EQ(target.error().code, ErrorCode::malformed) << "\"OTEL_CTX…\" is no protobuf";
}

TEST(HostileContext, PayloadNullOrUnmapped) {
  Target target;
  target.source->map(header_at);
  for (const Address payload : {Address{0}, Address{0xfff}, Address{0x1234'5678'0000},
                                Address{0xffff'8000'0000'0000}, ~Address{0}}) {
    target.source->header(1, 100, payload);
    EXPECT_EQ(target.error().code, ErrorCode::malformed) << hex(payload);
  }
}

TEST(HostileContext, StampFrozenAtZero) {
  Target target;
  target.source->map(header_at);
  target.source->publish("x", 0);
  const Error error = target.error();
  EXPECT_EQ(error.code, ErrorCode::changing);
  EXPECT_THAT(error.message, HasSubstr("an update is in progress"));
}

TEST(HostileContext, UpdateThatNeverEndsLeavesTheLastGoodReadingMarkedStale) {
  Target target;
  target.source->map(header_at);
  target.source->publish("good", 1);
  EXPECT_EQ(target.service(), "good");
  target.source->publish("half", 0);
  EXPECT_EQ(target.service(), "good (stale)");
  target.source->publish("done", 2);
  EXPECT_EQ(target.service(), "done");
}

TEST(HostileContext, PayloadThatGoesBadLeavesTheLastGoodReadingMarkedStale) {
  Target target;
  target.source->map(header_at);
  target.source->publish("good", 1);
  EXPECT_EQ(target.service(), "good");
  target.source->header(2, 0xffff'ffff);
  EXPECT_EQ(target.service(), "good (stale)");
}

TEST(HostileContext, StampThatChangesOnEveryReadEnds) {
  Target target;
  target.source->map(header_at);
  std::uint64_t stamp = 1;
  target.source->before_read = [&] { target.source->publish("x", ++stamp); };
  const Error error = target.error();
  EXPECT_EQ(error.code, ErrorCode::changing);
  EXPECT_LE(target.source->reads, 20);
}

TEST(HostileContext, Versions0And3) {
  for (const std::uint32_t version : {0u, 3u}) {
    Target target;
    target.source->map(header_at);
    target.source->header(1, 10, payload_at, version);
    const Error error = target.error();
    EXPECT_EQ(error.code, ErrorCode::unsupported);
    EXPECT_THAT(error.message, HasSubstr(std::to_string(version)));
  }
}

TEST(HostileContext, TwoContextsGiveTheNewestAndANote) {
  Target target;
  for (const std::uint64_t i : {0u, 1u, 2u}) target.source->map(header_at + i * 0x10000);
  target.source->publish("older", 5, header_at, payload_at);
  target.source->publish("newest", 9, header_at + 0x10000, payload_at + 0x1000);
  target.source->publish("updating", 0, header_at + 0x20000, payload_at + 0x2000);
  auto state = target.reader.refresh();
  ASSERT_TRUE(state);
  ASSERT_TRUE(*state);
  EXPECT_EQ(*format::find_text((*state)->context.resource, "service.name"), "newest");
  EXPECT_THAT((*state)->notes, SizeIs(2));
}

TEST(HostileContext, MappingNamedLikeAContextWithoutSignatureIsPassedOver) {
  Target target;
  target.source->map(header_at, "/memfd:OTEL_CTXX (deleted)");
  target.source->bytes.place(header_at, Bytes().text("OTEL_CTY").fill(24, 0));
  EXPECT_EQ(target.service(), "none");
  target.source->map(header_at + 0x10000);
  target.source->publish("real", 1, header_at + 0x10000);
  auto state = target.reader.refresh();
  ASSERT_TRUE(state && *state);
  EXPECT_THAT((*state)->notes, SizeIs(1));
}

TEST(HostileContext, HeaderThatIsNotReadable) {
  Target target;
  target.source->map(header_at);
  target.source->bytes.place(header_at, Bytes().text("OTEL_CTX").u32(2).u32(9));
  EXPECT_EQ(target.service(), "none");
}

}  // namespace
}  // namespace vitrine::observe
