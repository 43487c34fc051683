// vitrine trace as a user meets it: lines, objects, exit codes.
#include "cli/trace_command.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <thread>

namespace vitrine::test {
namespace {

using nlohmann::json;
using std::chrono::milliseconds;
using testing::HasSubstr;

TEST(TraceCommand, AnObjectAFire) {
  Child child = start_subject();
  Child tracer = start_trace({pid_of(child), "subject:shot", "--json", "--limit", "2"});
  EXPECT_EQ(tell(child, "fire 2"), "fire");
  for (int i = 0; i < 2; ++i) {
    const json event = json::parse(tracer.read_line(patience).value_or("null"));
    EXPECT_EQ(event["pid"], child.pid());
    EXPECT_EQ(event["tid"], child.pid());
    EXPECT_EQ(event["comm"], "trace_subject");
    EXPECT_EQ(event["probe"], "subject:shot");
    EXPECT_EQ(event["module"], TRACE_SUBJECT);
    EXPECT_TRUE(event["ts_ns"].is_string());
    EXPECT_TRUE(event["cpu"].is_number());
    EXPECT_EQ(event["site"].get<std::string>().rfind("0x", 0), 0U);
    EXPECT_EQ(event["args"], json({i, "shot " + std::to_string(i), i * 0.5}));
    EXPECT_EQ(event["arg_names"], json({"number", "text", "ratio"}));
    EXPECT_EQ(event["labels"],
              json::array({{{"key", "shot"}, {"value", "shot " + std::to_string(i)}}}));
  }
  EXPECT_EQ(tracer.wait(), 0);
}

TEST(ContextCommand, IsWatchedInTheProgramThatItsProcessExecutesNext) {
  Child child = Child::spawn({LATE_KEYS});
  ASSERT_TRUE(child.read_line());
  EXPECT_EQ(tell(child, "name"), "name");
  Child watch = Child::spawn({VITRINE, "context", pid_of(child), "--watch=20ms", "--json"});
  const json first = json::parse(watch.read_line(patience).value_or("null"));
  EXPECT_THAT(tell(child, "exec"), HasSubstr("ready"));
  EXPECT_EQ(tell(child, "name"), "name");
  const json second = json::parse(watch.read_line(patience).value_or("null"));
  ASSERT_TRUE(first.is_object() && second.is_object()) << watch.rest_of_errors();
  EXPECT_NE(first["published_at_ns"], second["published_at_ns"]);
  EXPECT_EQ(second["pid"], child.pid());
}

TEST(TraceCommand, ALineAFire) {
  Child child = start_subject();
  Child tracer = start_trace({pid_of(child), "shot", "--limit", "1"});
  EXPECT_EQ(tell(child, "fire 1"), "fire");
  const std::string line = tracer.read_line(patience).value_or("");
  EXPECT_THAT(line, HasSubstr("  trace_subject " + pid_of(child) +
                              "  subject:shot(number=0, text=\"shot 0\", ratio=0)"));
  EXPECT_EQ(line.find('\x1b'), std::string::npos) << "colours are for terminals";
}

TEST(TraceCommand, ObjectsAreWrittenAsJsonWritesThem) {
  Child child = start_subject();
  Child tracer = start_trace(
      {pid_of(child), "subject:*", "--json", "--stack", "--limit", "20", "--max-string", "5"});
  EXPECT_EQ(tell(child, "fire 10"), "fire");
  for (int i = 0; i < 20; ++i) {
    const std::string line = tracer.read_line(patience).value_or("null");
    const auto event = nlohmann::ordered_json::parse(line);
    EXPECT_EQ(event.dump(), line);
    EXPECT_EQ(event.contains("truncated"), event["probe"] == "subject:shot") << line;
    EXPECT_FALSE(event["stack"].empty());
  }
  EXPECT_EQ(tracer.wait(), 0);
}

TEST(TraceCommand, AsksWhetherAWordWasMeantAsAnArgument) {
  Child child = start_subject();
  const auto said = [&](const std::string& condition) {
    return vitrine(
               {"trace", pid_of(child), "subject:shot", "--where", condition, "--duration", "1ms"})
        .err;
  };
  EXPECT_THAT(said("nunber == 3"), HasSubstr("'nunber' is not an argument of subject:shot (number, "
                                             "text, ratio); used as a label key"));
  EXPECT_THAT(said("attempts > 3"), HasSubstr("'attempts' is not an argument of subject:shot"));
  const Outcome sum =
      vitrine({"trace", pid_of(child), "subject:shot", "--sum", "amount", "--duration", "1ms"});
  EXPECT_THAT(sum.err, HasSubstr("'amount' is not an argument of subject:shot"));
  const Outcome product =
      vitrine({"trace", pid_of(child), "subject:shot", "--sum", "ratio * 2", "--duration", "1ms"});
  EXPECT_EQ(product.status, 1);
  EXPECT_THAT(
      product.err,
      HasSubstr("'ratio * 2': arithmetic requires integers: arg2 is a floating-point number"));
  EXPECT_THAT(vitrine({"trace", pid_of(child), "subject:shot", "--limit", "0"}).err,
              HasSubstr("--limit: expected a positive integer, not '0'"));
  for (const std::string condition : {"tenant == acme", "number > 3", "label.attempts > 3"})
    EXPECT_THAT(said(condition), testing::Not(HasSubstr("used as a label key"))) << condition;
}

TEST(TraceCommand, ACommandThatEndsAtOnceEndsWithoutARemark) {
  for (int i = 0; i < 10; ++i) {
    const Outcome done =
        vitrine({"trace", "subject:*", "--json", "--exec", "--", TRACE_SUBJECT, "quit"});
    EXPECT_EQ(done.status, 0) << done.err;
    EXPECT_THAT(done.err, testing::Not(HasSubstr("ended")));
  }
}

TEST(TraceCommand, ACommand) {
  const Outcome done =
      vitrine({"trace", "subject:*", "--json", "--exec", "--", TRACE_SUBJECT, "fire 2", "quit"});
  EXPECT_EQ(done.status, 0) << done.err;
  std::vector<std::string> probes;
  std::istringstream lines(done.out);
  for (std::string line; std::getline(lines, line);)
    probes.push_back(json::parse(line)["probe"]);  // nothing else is in between
  EXPECT_THAT(done.err, testing::HasSubstr("ready "));
  EXPECT_EQ(probes, (std::vector<std::string>{"subject:begin", "subject:shot", "subject:guarded",
                                              "subject:shot", "subject:guarded"}));
}

TEST(TraceCommand, FiresThatAreRejectedForLabelsThatCouldNotBeReadAreCounted) {
  const Outcome done = vitrine({"trace", "subject:shot", "--json", "--where", "body ~ \"*\"",
                                "--exec", "--", TRACE_SUBJECT, "large", "fire 3", "quit"});
  EXPECT_EQ(done.status, 0) << done.err;
  EXPECT_EQ(done.out, "");
  EXPECT_THAT(done.err, HasSubstr("1 fire rejected by --where"));
}

TEST(TraceCommand, AProgramThatALauncherStartsIsAskedFor) {
  const std::string script = std::string(TRACE_SUBJECT) + " 'fire 1' quit; true";
  std::vector<std::string> command{"trace", "subject:shot", "--json", "--exec",
                                   "--",    "sh",           "-c",     script};
  const Outcome without = vitrine(command);
  EXPECT_EQ(without.status, 1);
  EXPECT_THAT(without.err, HasSubstr("add --follow"));
  command.insert(command.begin() + 2, "--follow");
  const Outcome followed = vitrine(command);
  EXPECT_THAT(followed.err, testing::Not(HasSubstr("add --follow")));
}

TEST(TraceCommand, ThreadLocalArgumentsOf32BitPrograms) {
  const Outcome done =
      vitrine({"trace", "narrow:local", "--json", "--exec", "--", PROGRAM_32BIT, "fire"});
  EXPECT_EQ(done.status, 0) << done.err;
  std::vector<json> arguments;
  std::istringstream lines(done.out);
  for (std::string line; std::getline(lines, line);) arguments.push_back(json::parse(line)["args"]);
  EXPECT_EQ(arguments, (std::vector<json>{{55, -7}, {56, -7}}));
}

TEST(TraceCommand, AddsUp) {
  Child child = start_subject();
  for (const char* where : {"", "tid > 0 && text ~ \"shot*\""}) {
    std::vector<std::string> arguments{pid_of(child), "subject:shot", "--json", "--sum",
                                       "number",      "--by",         "text"};
    if (*where != '\0') arguments.insert(arguments.end(), {"--where", where});
    Child tracer = start_trace(arguments);
    for (int i = 0; i < 5; ++i) EXPECT_EQ(tell(child, "fire 3"), "fire");
    std::this_thread::sleep_for(milliseconds(300));  // what user space adds up comes in a moment
    tracer.signal(SIGINT);
    std::map<std::string, std::pair<int, int>> sums;
    for (int i = 0; i < 3; ++i) {
      const json row = json::parse(tracer.read_line(patience).value_or("null"));
      EXPECT_EQ(row["probe"], "subject:shot");
      sums[row["by"]["text"]] = {row["count"], row["sum"]};
    }
    EXPECT_EQ(sums, (std::map<std::string, std::pair<int, int>>{
                        {"shot 0", {5, 0}}, {"shot 1", {5, 5}}, {"shot 2", {5, 10}}}))
        << where;
    EXPECT_EQ(tracer.wait(), 130);
  }
}

std::string text_of(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

TEST(TraceCommand, KeepsMetricsInAFile) {
  Child child = start_subject();
  const std::string path = testing::TempDir() + "/shots." + pid_of(child) + ".prom";
  Child tracer = start_trace(
      {pid_of(child), "subject:shot", "--count", "--by", "text", "-o", path, "--interval", "50ms"});
  EXPECT_EQ(tell(child, "fire 2"), "fire");
  const auto has = [&](const char* line) {
    const auto deadline = std::chrono::steady_clock::now() + patience;
    while (text_of(path).find(line) == std::string::npos) {
      if (std::chrono::steady_clock::now() > deadline) return false;
      std::this_thread::sleep_for(milliseconds(5));
    }
    return true;
  };
  EXPECT_TRUE(has("vitrine_probe_fires_total{probe=\"subject:shot\",text=\"shot 1\"} 1\n"));
  EXPECT_EQ(tell(child, "fire 2"), "fire");
  EXPECT_TRUE(has("vitrine_probe_fires_total{probe=\"subject:shot\",text=\"shot 1\"} 2\n"));
  tracer.signal(SIGINT);
  EXPECT_EQ(tracer.read_line(patience), std::nullopt) << "the file has it";
  EXPECT_EQ(tracer.wait(), 130);
  std::filesystem::remove(path);
}

TEST(TraceCommand, AFileThatCannotBeWrittenIsReportedOnce) {
  Child child = start_subject();
  const std::string folder = testing::TempDir() + "/metrics." + pid_of(child);
  std::filesystem::create_directory(folder);
  Child tracer = start_trace({pid_of(child), "subject:shot", "--count", "--json", "-o",
                              folder + "/shots.prom", "--interval", "50ms"});
  EXPECT_EQ(tell(child, "fire 1"), "fire");
  int notes = 0, tables = 0;
  const auto read_until = [&](const auto& reached) {
    while (!reached()) {
      const auto line = tracer.read_line(patience);
      if (!line) return false;
      ++(line->starts_with('{') ? tables : notes);
    }
    return true;
  };
  ASSERT_TRUE(read_until([&] { return tables > 0; }));
  EXPECT_EQ(notes, 0);
  std::filesystem::remove_all(folder);
  ASSERT_TRUE(read_until([&] { return notes > 0; }));
  tables = 0;
  ASSERT_TRUE(read_until([&] { return tables > 4; }));
  EXPECT_EQ(notes, 1);
  std::filesystem::create_directory(folder);
  wait_until([&] { return std::filesystem::exists(folder + "/shots.prom"); });
  std::filesystem::remove_all(folder);
  ASSERT_TRUE(read_until([&] { return notes > 1; })) << "it could be written in between";
  std::filesystem::create_directory(folder);
  tracer.signal(SIGINT);
  EXPECT_EQ(tracer.wait(), 130);
  std::filesystem::remove_all(folder);
}

TEST(TraceCommand, MetricsAreOfWhatIsAddedUp) {
  const std::string self = std::to_string(::getpid());
  for (const auto& [arguments, message] :
       std::vector<std::pair<std::vector<std::string>, std::string>>{
           {{self, "shop:*", "-o", "x.prom"}, "-o requires an aggregation"},
           {{self, "shop:*", "--count", "-o", "x.txt"}, "unknown format of x.txt"},
           {{self, "shop:*", "--count", "-o", "/nowhere/x.prom"}, "/nowhere"}}) {
    std::vector<std::string> words = arguments;
    words.insert(words.begin(), "trace");
    const Outcome outcome = vitrine(words);
    EXPECT_THAT(outcome.status, testing::AnyOf(2, 4)) << outcome.err;
    EXPECT_THAT(outcome.err, HasSubstr(message));
  }
}

TEST(TraceCommand, ShowsWhatPointersPointTo) {
  Child child = start_subject();
  Child tracer = start_trace(
      {pid_of(child), "subject:values", "--json", "--limit", "1", "--show",
       "str(arg1, arg2), buf(arg1, 5), str(arg3), str(arg3, 4), arg0 & 6, arg0 + 1, hex(arg0), "
       "*(int64*)arg4, str(*(uint64*)(arg4 + 8)), *(int32*)(arg4 + 16), 10 / (arg0 + 1)"});
  EXPECT_EQ(tell(child, "values"), "values");
  const json event = json::parse(tracer.read_line(patience).value_or("null"));
  EXPECT_EQ(event["args"], json::array({"ab",
                                        {{"base64", "YWIAY2Q="}},
                                        nullptr,
                                        nullptr,
                                        6,
                                        0,
                                        -1,
                                        -5,
                                        "inner",
                                        -2,
                                        {{"error", "a division by 0"}}}));
  EXPECT_EQ(tracer.wait(), 0);
}

TEST(TraceCommand, HexadecimalNumbersHaveTheirWidth) {
  Child child = start_subject();
  Child tracer = start_trace(
      {pid_of(child), "subject:values", "--limit", "1", "--show",
       "hex(arg0) as a, hex(*(int32*)(arg4 + 16)) as b, hex(*(int64*)arg4) as c, hex(~arg0) as d, "
       "str(arg3) as e"});
  EXPECT_EQ(tell(child, "values"), "values");
  EXPECT_THAT(tracer.read_line(patience).value_or(""),
              HasSubstr("(a=0xffffffff, b=0xfffffffe, c=0xfffffffffffffffb, d=0x0, e=NULL)"));
  Child table = start_trace({pid_of(child), "subject:values", "--count", "--by", "hex(arg0) as a"});
  EXPECT_EQ(tell(child, "values"), "values");
  table.signal(SIGINT);
  EXPECT_THAT(table.read_line(patience).value_or(""), HasSubstr("  A           COUNT"));
  EXPECT_THAT(table.read_line(patience).value_or(""), HasSubstr("  0xffffffff      1"));
}

TEST(TraceCommand, PrintsTablesAtIntervals) {
  Child child = start_subject();
  Child tracer = start_trace({pid_of(child), "subject:values", "--json", "--count", "--interval",
                              "100ms", "--buffer", "1"});
  EXPECT_EQ(tell(child, "values"), "values");
  std::string before;
  for (int i = 0; i < 3; ++i) {
    const json row = json::parse(tracer.read_line(patience).value_or("null"));
    EXPECT_EQ(row["count"], 1);
    EXPECT_GT(row["ts_ns"].get<std::string>(), before);
    before = row["ts_ns"];
  }
  Child text = start_trace({pid_of(child), "subject:values", "--count", "--interval", "50ms"});
  EXPECT_EQ(tell(child, "values"), "values");
  for (int i = 0; i < 2; ++i) {
    std::string line;
    while (line.find("subject:values") == std::string::npos)
      line = text.read_line(patience).value_or("subject:values 0");
    EXPECT_THAT(line, HasSubstr("1"));
  }
  EXPECT_EQ(vitrine({"trace", pid_of(child), "*", "--interval", "1s"}).status, 2);
  EXPECT_EQ(vitrine({"trace", pid_of(child), "*", "--buffer", "0"}).status, 2);
}

TEST(TraceCommand, CalculatesInConditionsAndGroups) {
  Child child = start_subject();
  const std::string is_true = "*(int32*)(arg4 + 16) == -2 and arg0 & 4 and str(arg1, arg2) == ab";
  for (const std::string more : {"", " and comm ~ 'trace*'"}) {  // in the kernel, and not
    Child tracer =
        start_trace({pid_of(child), "subject:values", "--json", "--sum", "arg0 * 3", "--by",
                     "arg0 & 3, str(arg3), str(arg1, 1)", "--where", is_true + more});
    EXPECT_EQ(tell(child, "values"), "values");
    EXPECT_EQ(tell(child, "values"), "values");
    std::this_thread::sleep_for(milliseconds(300));  // what user space adds up comes in a moment
    tracer.signal(SIGINT);
    const json row = json::parse(tracer.read_line(patience).value_or("null"));
    EXPECT_EQ(row["count"], 2) << more;
    EXPECT_EQ(row["sum"], -6) << more;
    EXPECT_EQ(row["by"], (json{{"arg0 & 3", 3}, {"str(arg3)", nullptr}, {"str(arg1, 1)", "a"}}))
        << more;
    EXPECT_EQ(tracer.wait(), 130);
  }
  for (const std::string is_false : {"arg0 & 1 == 0", "*(int32*)(arg4 + 16) > 0", "arg0 + 1"}) {
    Child tracer =
        start_trace({pid_of(child), "subject:values", "--json", "--count", "--where", is_false});
    EXPECT_EQ(tell(child, "values"), "values");
    tracer.signal(SIGINT);
    EXPECT_EQ(tracer.read_line(patience), std::nullopt) << is_false;
  }
}

TEST(TraceCommand, NamesThatNoProbeHasAreErrors) {
  Child child = start_subject();
  const auto run = [&](std::vector<std::string> words) {
    words.insert(words.begin(), {"trace", pid_of(child), "--duration", "1ms"});
    return vitrine(words);
  };
  const std::vector<std::pair<std::string, std::string>> wrong = {
      {"arg7", "--show: 'arg7' is not an argument of subject:shot; subject:shot has number, text"},
      {"number, arg.nope", "'nope' is not an argument"},
      {"str(nope)", "'str(nope)' is not an argument"},
      {"nunber", "'nunber' is not an argument"},
      {"*(int32*)arg9", "'*(int32*)arg9' is not an argument"}};
  for (const auto& [items, message] : wrong) {
    const Outcome failed = run({"subject:shot", "--show", items});
    EXPECT_EQ(failed.status, 1) << items;
    EXPECT_THAT(failed.err, HasSubstr(message));
    const Outcome noted = run({"subject:shot", "--show", items, "--optional"});
    EXPECT_EQ(noted.status, 0) << items << noted.err;
    EXPECT_THAT(noted.err, HasSubstr(message));
  }
  for (const std::string items : {"tenant", "label.nunber", "number, hex(number)", "arg0 + arg2"})
    EXPECT_EQ(run({"subject:shot", "--show", items}).status, 0) << items;
  EXPECT_EQ(run({"subject:*", "--show", "ratio"}).status, 0) << "one of the probes has it";
  const std::vector<std::pair<std::vector<std::string>, std::string>> wrong_groups = {
      {{"--hist", "arg7"}, "--hist: 'arg7' is not an argument of subject:shot"},
      {{"--sum", "arg7 * 2"}, "--sum: 'arg7 * 2' is not an argument of subject:shot"},
      {{"--count", "--by", "arg.nope"}, "--by: 'nope' is not an argument of subject:shot"}};
  for (const auto& [options, message] : wrong_groups) {
    std::vector<std::string> words{"subject:shot"};
    words.insert(words.end(), options.begin(), options.end());
    const Outcome failed = run(words);
    EXPECT_EQ(failed.status, 1) << message;
    EXPECT_THAT(failed.err, HasSubstr(message));
  }
  EXPECT_EQ(run({"subject:*", "--sum", "arg2"}).status, 0) << "one of the probes has it";
  EXPECT_EQ(run({"subject:shot", "--count", "--by", "nunber"}).status, 0) << "a label";
  const std::string pair = "subject:shot,subject:guarded";
  EXPECT_EQ(run({"--latency", pair, "--match", "arg0"}).status, 0);
  EXPECT_EQ(run({"--latency", pair, "--match", "label.request"}).status, 0);
  EXPECT_EQ(run({"--latency", pair, "--match", "request"}).status, 1);
  const Outcome at_one_end = run({"--latency", pair, "--match", "number"});
  EXPECT_EQ(at_one_end.status, 1) << "only the start has it";
  EXPECT_THAT(at_one_end.err,
              HasSubstr("is not an argument of subject:guarded; subject:guarded has arg0"));
}

TEST(TraceCommand, WhatACommandNeverLoadsIsAnErrorAtItsEnd) {
  const auto run = [&](std::vector<std::string> words) {
    words.insert(words.begin(), {"trace", "subject:shot", "plugin:nope"});
    words.insert(words.end(), {"--exec", "--", TRACE_SUBJECT, "fire 1", "quit"});
    return vitrine(words);
  };
  const Outcome failed = run({});
  EXPECT_EQ(failed.status, 1);
  EXPECT_THAT(failed.out, HasSubstr("subject:shot(number=0"));
  EXPECT_THAT(failed.err, HasSubstr("has no probe plugin:nope; it has"));
  EXPECT_EQ(run({"--optional"}).status, 0);
}

TEST(TraceCommand, WhatMatchesNothingIsAnError) {
  Child child = start_subject();
  const std::string pid = pid_of(child);
  const std::vector<std::vector<std::string>> wrong = {{"subject:shot", "subject:shoot"},
                                                       {"--latency", "subject:shot,subject:shoot"},
                                                       {"--latency", "subject:shoot,subject:shot"}};
  for (const auto& words : wrong) {
    std::vector<std::string> arguments{"trace", pid, "--duration", "1ms"};
    arguments.insert(arguments.end(), words.begin(), words.end());
    const Outcome failed = vitrine(arguments);
    EXPECT_EQ(failed.status, 1) << words[1];
    EXPECT_THAT(failed.err, HasSubstr("has no probe subject:shoot; it has")) << words[1];
    arguments.push_back("--optional");
    const Outcome noted = vitrine(arguments);
    EXPECT_EQ(noted.status, 0) << words[1] << noted.err;
    EXPECT_THAT(noted.err, HasSubstr("has no probe subject:shoot; it has")) << words[1];
  }
  EXPECT_EQ(vitrine({"trace", pid, "--latency", "subject:shot,subject:shot"}).status, 2);
  const Outcome empty = vitrine({"trace", pid, "subject:shot", "--where", ""});
  EXPECT_EQ(empty.status, 2);
  EXPECT_THAT(empty.err, HasSubstr("--where: the condition is empty"));
}

TEST(TraceCommand, FailsWithTheCodesOfItsContract) {
  Child child = start_subject();
  EXPECT_EQ(vitrine({"trace"}).status, 2);
  EXPECT_EQ(vitrine({"trace", pid_of(child)}).status, 2);
  EXPECT_EQ(vitrine({"trace", pid_of(child), "shot", "--where", "number >"}).status, 2);
  EXPECT_EQ(vitrine({"trace", "--exec"}).status, 2);
  EXPECT_EQ(vitrine({"trace", "1073741822", "*"}).status, 4);
  EXPECT_EQ(vitrine({"trace", "/no/such/file", "*"}).status, 4);
  EXPECT_EQ(vitrine({"trace", "*", "--exec", "--", "/no/such/program"}).status, 4);
  const Outcome none = vitrine({"trace", pid_of(child), "subject:shoot"});
  EXPECT_EQ(none.status, 1);
  EXPECT_THAT(none.err, HasSubstr("subject:shot"));
  EXPECT_THAT(none.err, HasSubstr("vitrine probes " + pid_of(child)));
}

TEST(TraceCommand, AFunctionWithoutItsModuleIsExplained) {
  Child tracer = Child::spawn({"sh", "-c", "exec \"$@\" 2>&1", "sh", VITRINE, "trace",
                               std::to_string(::getpid()), "func:malloc"});
  EXPECT_THAT(tracer.read_line(patience).value_or(""), HasSubstr("has no probe func:malloc"));
  EXPECT_THAT(tracer.read_line(patience).value_or(""), HasSubstr("write func:MODULE:FUNCTION"));
  EXPECT_EQ(tracer.wait(), 1);
}

TEST(TraceCommand, SeesWhatBpftraceSees) {
  Child child = start_subject();
  Child peer = Child::spawn({"bpftrace", "-p", pid_of(child), "-e",
                             std::string("usdt:") + TRACE_SUBJECT +
                                 ":subject:guarded { printf(\"%d\\n\", arg0); } "
                                 "BEGIN { printf(\"begun\\n\"); }"});
  std::optional<std::string> line;
  do line = peer.read_line(patience);
  while (line && *line != "begun");
  ASSERT_TRUE(line) << peer.rest_of_errors(milliseconds(100));
  // bpftrace attaches before BEGIN is done printing, or a little later: wait for the semaphore.
  const auto deadline = std::chrono::steady_clock::now() + patience;
  while (tell(child, "state") != "state 1" && std::chrono::steady_clock::now() < deadline)
    std::this_thread::sleep_for(milliseconds(5));
  Child tracer = start_trace({pid_of(child), "guarded", "--json", "--limit", "500"});
  EXPECT_EQ(tell(child, "fire 500"), "fire");
  for (int i = 0; i < 500; ++i) {
    const json event = json::parse(tracer.read_line(patience).value_or("null"));
    const std::string theirs = peer.read_line(patience).value_or("nothing");
    ASSERT_EQ(event["args"], json({i}));
    ASSERT_EQ(theirs, std::to_string(i));
  }
}

}  // namespace
}  // namespace vitrine::test
