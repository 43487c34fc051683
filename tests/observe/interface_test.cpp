// The public interface, <vitrine/observe/…>: every kind of value arrives as what it is.
#include <gtest/gtest.h>
#include <sys/types.h>
#include <unistd.h>
#include <vitrine/sdt.h>

#include <chrono>
#include <string>
#include <thread>
#include <vector>
#include <vitrine/context.hpp>
#include <vitrine/labels.hpp>
#include <vitrine/observe/context.hpp>
#include <vitrine/observe/labels.hpp>
#include <vitrine/observe/probes.hpp>
#include <vitrine/observe/processes.hpp>
#include <vitrine/observe/profile.hpp>
#include <vitrine/observe/trace.hpp>

namespace {

using namespace std::chrono_literals;
namespace observer = vitrine::observer;
namespace labels = vitrine::labels;

enum class Colour { red = 3, green = 5 };
VITRINE_ENUMERATORS(Colour, red, green);

__attribute__((noinline)) void fire(const std::string& text,
                                    const std::vector<unsigned char>& bytes, const void* pointer) {
  const int number = -7;
  const std::uint64_t large = 1ULL << 63;
  // A constant would be in a section that no reader can name (docs/probes.md).
  const volatile double half = 1.25;
  const double ratio = 2 * half;
  const bool flag = true;
  const Colour colour = Colour::green;
  VITRINE_TYPED_PROBE(interface, numbers, (number), (large), (ratio), (flag), (pointer));
  VITRINE_TYPED_PROBE(interface, texts, (text), (bytes), VITRINE_ENUM(colour, colour, Colour));
}

labels::Trace a_trace() {
  labels::Trace trace;
  trace.trace_id.bytes = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16};
  trace.span_id.bytes = {1, 2, 3, 4, 5, 6, 7, 8};
  trace.flags = 1;
  return trace;
}

TEST(Interface, LabelsOfAThreadWithItsTrace) {
  const labels::Scope scope{a_trace(), {{labels::Key{"tenant"}, "acme"}}};
  const auto reading = observer::read_labels(getpid());
  ASSERT_TRUE(reading) << reading.error().message;
  std::vector<std::string> formats;
  for (const auto& thread : reading->threads) {
    if (thread.tid != getpid()) continue;
    ASSERT_TRUE(thread.set) << thread.set.error().message;
    formats.push_back(thread.format);
    ASSERT_NE(thread.set->find("tenant"), nullptr);
    EXPECT_EQ(*thread.set->find("tenant"), "acme");
    EXPECT_EQ(thread.set->find("missing"), nullptr);
    EXPECT_FALSE(thread.module.empty());
    EXPECT_NE(thread.evidence, observer::Evidence::unproven);
    if (thread.format != "otel-thread-ctx-v1") continue;
    ASSERT_TRUE(thread.set->trace);
    EXPECT_EQ(thread.set->trace->trace_id, a_trace().trace_id.bytes);
    EXPECT_EQ(thread.set->trace->span_id, a_trace().span_id.bytes);
    EXPECT_EQ(thread.set->trace->flags, 1);
  }
  EXPECT_EQ(formats, (std::vector<std::string>{"custom-labels-v1", "otel-thread-ctx-v1"}));
}

TEST(Interface, ErrorsHaveACodeAndAMessage) {
  const auto reader = observer::LabelReader::open(0x3ffffff);
  ASSERT_FALSE(reader);
  EXPECT_EQ(reader.error().code, observer::ErrorCode::not_found);
  EXPECT_FALSE(reader.error().message.empty());
  EXPECT_EQ(observer::probes_of_file("/missing").error().code, observer::ErrorCode::not_found);
  EXPECT_EQ(observer::probes_of_file("/etc/passwd").error().code, observer::ErrorCode::malformed);
  EXPECT_EQ(observer::probes_of_file(std::string("/proc/self/exe\0x", 16)).error().code,
            observer::ErrorCode::not_found);
  EXPECT_EQ(observer::read_context(0x3ffffff).error().code, observer::ErrorCode::not_found);
  observer::ProfileOptions no_process;
  no_process.pids = {0};
  EXPECT_EQ(observer::Profiler::open(no_process).error().message, "no such process: 0");
  EXPECT_EQ(observer::Trace::open({}).error().code, observer::ErrorCode::usage);
  observer::TraceOptions options;
  options.pids = {getpid()};
  options.probes = {"interface:*"};
  options.where = "number >";
  const observer::Error misspelt = observer::Trace::open(options).error();
  EXPECT_EQ(misspelt.code, observer::ErrorCode::usage);
  EXPECT_EQ(misspelt.message, "the right operand is missing before the end in `number >`");
  EXPECT_EQ(misspelt.remedy.find_first_of("\n^"), std::string::npos) << misspelt.remedy;
  EXPECT_NE(misspelt.remedy, "");
  options.where.clear();
  options.string_bytes = 5000;
  EXPECT_EQ(observer::Trace::open(options).error().code, observer::ErrorCode::usage);
  observer::ProfileOptions shortest;
  shortest.pids = {getpid()};
  shortest.off_cpu = true;
  shortest.min_block = -1ns;
  EXPECT_EQ(observer::Profiler::open(shortest).error().code, observer::ErrorCode::usage);
  observer::LabelOptions sampled;
  sampled.mode = observer::Mode::ebpf;
  for (const unsigned frequency : {0U, 10'001U}) {
    sampled.sample_hz = frequency;
    EXPECT_EQ(observer::LabelReader::open(getpid(), sampled).error().code,
              observer::ErrorCode::usage);
  }
  sampled.mode = static_cast<observer::Mode>(77);
  EXPECT_EQ(observer::LabelReader::open(getpid(), sampled).error().code,
            observer::ErrorCode::usage);
  options.string_bytes = 256;
  options.probes = {"interface:*", ""};
  EXPECT_EQ(observer::Trace::open(options).error().code, observer::ErrorCode::usage);
  observer::Result<void> done;
  EXPECT_TRUE(done);
  done = observer::Error{observer::ErrorCode::limit, "too much", "take less"};
  EXPECT_FALSE(done);
  EXPECT_EQ(done.error().remedy, "take less");
}

TEST(Interface, NamesAreThoseOfTheCommand) {
  EXPECT_EQ(to_string(observer::Mode::snapshot), "snapshot");
  EXPECT_EQ(to_string(observer::Mode::ebpf), "ebpf");
  EXPECT_EQ(to_string(observer::Mode::ptrace), "ptrace");
  EXPECT_EQ(to_string(observer::Evidence::proven), "proven");
  EXPECT_EQ(to_string(observer::Evidence::serial), "serial");
  EXPECT_EQ(to_string(observer::Evidence::stopped), "stopped");
  EXPECT_EQ(to_string(observer::Evidence::sampled), "sampled");
  EXPECT_EQ(to_string(observer::Evidence::unproven), "unproven");
  EXPECT_EQ(to_string(observer::ErrorCode::interrupted), "interrupted");
  EXPECT_EQ(to_string(observer::ErrorCode::changing), "changing");
  EXPECT_EQ(to_string(observer::ErrorCode::another_program), "another-program");
}

template <class Type>
const Type* value_of(const std::vector<observer::Attribute>& attributes, const std::string& key) {
  for (const auto& attribute : attributes)
    if (attribute.key == key) return std::get_if<Type>(&attribute.value.data);
  return nullptr;
}

TEST(Interface, AContextWithValuesOfEveryType) {
  vitrine::context::Options options;
  options.attributes = {{"extra", "more"}};
  const auto status = vitrine::context::publish({{"service.name", "shop"},
                                                 {"flag", true},
                                                 {"number", 42},
                                                 {"ratio", 2.5},
                                                 {"list", std::vector<std::int64_t>{1, 2}}},
                                                options);
  ASSERT_TRUE(status) << status.message();
  auto reader = observer::ContextReader::open(getpid());
  ASSERT_TRUE(reader);
  auto read = reader->read();
  ASSERT_TRUE(read) << read.error().message;
  ASSERT_TRUE(*read);
  const observer::ProcessContext& context = **read;
  EXPECT_EQ(context.version, 2U);
  EXPECT_EQ(*context.find("service.name"), "shop");
  EXPECT_EQ(context.find("flag"), nullptr);
  EXPECT_EQ(*value_of<bool>(context.resource, "flag"), true);
  EXPECT_EQ(*value_of<std::int64_t>(context.resource, "number"), 42);
  EXPECT_EQ(*value_of<double>(context.resource, "ratio"), 2.5);
  const auto* list = value_of<std::vector<observer::AttributeValue>>(context.resource, "list");
  ASSERT_NE(list, nullptr);
  ASSERT_EQ(list->size(), 2U);
  EXPECT_EQ(std::get<std::int64_t>((*list)[1].data), 2);
  EXPECT_EQ(*value_of<std::string>(context.attributes, "extra"), "more");

  const auto listed = observer::list_processes();
  ASSERT_TRUE(listed);
  bool found = false;
  for (const auto& process : listed->processes) {
    if (process.pid != getpid()) continue;
    found = true;
    EXPECT_TRUE(process.has_context);
    EXPECT_EQ(process.service, "shop");
    EXPECT_EQ(process.formats,
              (std::vector<std::string>{"custom-labels-v1", "otel-thread-ctx-v1"}));
  }
  EXPECT_TRUE(found);
  EXPECT_GE(listed->looked_at, listed->processes.size());

  vitrine::context::drop();
  read = reader->read();
  ASSERT_TRUE(read);
  EXPECT_FALSE(*read);
}

TEST(Interface, ProbesOfAProcessAndOfItsFile) {
  const auto of_process = observer::probes_of_process(getpid());
  const auto of_file = observer::probes_of_file("/proc/self/exe");
  ASSERT_TRUE(of_process) << of_process.error().message;
  ASSERT_TRUE(of_file) << of_file.error().message;
  for (const bool is_process : {true, false}) {
    const observer::ProbeList& list = is_process ? *of_process : *of_file;
    const observer::Probe* numbers = nullptr;
    for (const auto& probe : list.probes)
      if (probe.provider == "interface" && probe.name == "numbers") numbers = &probe;
    ASSERT_NE(numbers, nullptr);
    EXPECT_EQ(numbers->kind, observer::Probe::Kind::sdt);
    ASSERT_EQ(numbers->sites.size(), 1U);
    const observer::ProbeSite& site = numbers->sites[0];
    EXPECT_EQ(site.runtime_address.has_value(), is_process);
    ASSERT_EQ(site.arguments.size(), 5U);
    EXPECT_EQ(site.arguments[0].name, "number");
    EXPECT_EQ(site.arguments[0].type, "int32");
    EXPECT_EQ(site.arguments[0].location.rfind("-4@", 0), 0U);
    EXPECT_TRUE(site.semaphore);
    EXPECT_TRUE(site.file_offset);
  }
}

TEST(Interface, ATraceWithArgumentsOfEveryKind) {
  const labels::Scope scope{labels::Key{"tenant"}, "acme"};
  observer::TraceOptions options;
  options.pids = {getpid()};
  options.probes = {"interface:*"};
  options.stacks = true;
  auto trace = observer::Trace::open(options);
  ASSERT_TRUE(trace) << trace.error().message;
  EXPECT_EQ(trace->probes(), (std::vector<std::string>{"interface:numbers", "interface:texts"}));
  int somewhere = 0;
  fire("kettle", {0, 255}, &somewhere);
  std::vector<observer::TraceEvent> events;
  for (int tries = 0; tries < 50 && events.size() < 2; ++tries) {
    const auto polled =
        trace->poll(100ms, [&](const observer::TraceEvent& event) { events.push_back(event); });
    ASSERT_TRUE(polled) << polled.error().message;
  }
  ASSERT_EQ(events.size(), 2U);
  for (const auto& event : events) {
    EXPECT_EQ(event.pid, getpid());
    EXPECT_EQ(event.tid, gettid());
    ASSERT_NE(event.labels.find("tenant"), nullptr) << event.labels_error;
    EXPECT_EQ(*event.labels.find("tenant"), "acme");
    EXPECT_NE(event.site, 0U);
    EXPECT_FALSE(event.module.empty());
    EXPECT_FALSE(event.stack.empty());
  }
  EXPECT_EQ(events[0].probe, "interface:numbers");
  const auto& numbers = events[0].arguments;
  ASSERT_EQ(numbers.size(), 5U);
  EXPECT_EQ(numbers[0].name, "number");
  EXPECT_EQ(std::get<std::int64_t>(numbers[0].value), -7);
  EXPECT_EQ(std::get<std::uint64_t>(numbers[1].value), 1ULL << 63);
  EXPECT_EQ(std::get<double>(numbers[2].value), 2.5);
  EXPECT_EQ(std::get<bool>(numbers[3].value), true);
  EXPECT_EQ(std::get<observer::Pointer>(numbers[4].value).address,
            reinterpret_cast<std::uintptr_t>(&somewhere));
  const auto& texts = events[1].arguments;
  ASSERT_EQ(texts.size(), 3U);
  EXPECT_EQ(std::get<observer::Text>(texts[0].value).data, "kettle");
  EXPECT_EQ(std::get<observer::Binary>(texts[1].value).data, std::string("\0\xff", 2));
  EXPECT_EQ(std::get<observer::Enumerator>(texts[2].value).name, "green");
  EXPECT_EQ(std::get<observer::Enumerator>(texts[2].value).value, 5);

  EXPECT_EQ(trace->poll(0ms, nullptr).error().code, observer::ErrorCode::usage);
  fire("again", {}, nullptr);
  std::size_t in_callback = 0;
  for (int tries = 0; tries < 50 && in_callback < 2; ++tries) {
    const auto polled = trace->poll(100ms, [&](const observer::TraceEvent&) {
      ++in_callback;
      const auto nested = trace->poll(0ms, [](const observer::TraceEvent&) { FAIL(); });
      ASSERT_FALSE(nested);
      EXPECT_EQ(nested.error().code, observer::ErrorCode::usage);
    });
    ASSERT_TRUE(polled) << polled.error().message;
  }
  EXPECT_EQ(in_callback, 2U);

  trace->detach();
  fire("unseen", {}, nullptr);
  ASSERT_TRUE(
      trace->poll(0ms, [&](const observer::TraceEvent& event) { events.push_back(event); }));
  EXPECT_EQ(events.size(), 2U);
  EXPECT_EQ(trace->fires(), 4U);
  EXPECT_EQ(trace->lost(), 0U);
  EXPECT_FALSE(trace->ended());
}

}  // namespace
