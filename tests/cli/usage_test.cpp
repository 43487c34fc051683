// Wrong usage, as a user meets it: what is wrong is named, and what was meant, and what to do.
#include "cli/command.hpp"

namespace vitrine::test {
namespace {

using testing::EndsWith;
using testing::HasSubstr;
using testing::StartsWith;
using Words = std::vector<std::string>;

struct Mistake {
  Words words;
  std::string message;
  std::string remedy;
};

void PrintTo(const Mistake& mistake, std::ostream* out) {
  for (const std::string& word : mistake.words) *out << word << ' ';
}

const Mistake mistakes[] = {
    // Commands.
    {{"lables"},
     "no such command: 'lables'",
     "did you mean labels? `vitrine --help` lists the commands"},
    {{"trcae", "1"}, "no such command: 'trcae'", "did you mean trace?"},
    {{"no-such-command"},
     "no such command: 'no-such-command'",
     "`vitrine --help` lists the commands"},
    {{"usdt", "haeder"}, "usdt: no such command: 'haeder'", "did you mean header? `vitrine usdt"},
    {{"usdt"}, "usdt: missing command", "`vitrine usdt --help` lists the commands"},
    {{"--"}, "missing command", "`vitrine --help`"},
    // Options.
    {{"labels", "1", "--duraton", "5s"},
     "labels: no such option: --duraton",
     "did you mean --duration? `vitrine labels --help` lists the options"},
    {{"labels", "1", "--dur=5s"}, "no such option: --dur", "did you mean --duration?"},
    // With the line to copy.
    {{"labels", "1", "--dur=5s"}, "no such option", "\n  vitrine labels 1 --duration=5s\n"},
    {{"labls", "1"}, "no such command: 'labls'", "\n  vitrine labels 1\n"},
    {{"record", "-g", "-p", "1"}, "no such command: 'record'", "\n  vitrine profile -g -p 1\n"},
    {{"profile", "my server", "x"}, "PID: expected", "vitrine profile -n 'my server'\n"},
    {{"profile", "-F", "19", "./s", "1"}, "PID: expected", "vitrine profile -F 19 -- ./s 1\n"},
    {{"profile", "--frequency", "9", "1"}, "no such", "\n  vitrine profile --freq 9 1\n"},
    {{"profile", "--time", "9", "1"}, "no such", "\n  vitrine profile --duration 9 1\n"},
    {{"profile", "-pid", "1"}, "no such option: -pid", "did you mean --pid?"},
    {{"profile", "-duration", "5s", "1"}, "no such option: -duration", "did you mean --duration?"},
    {{"labels", "1", "--no-such-option"},
     "no such option: --no-such-option",
     "`vitrine labels --help`"},
    {{"labels", "-5"}, "no such option: -5", "`vitrine labels --help`"},
    {{"usdt", "link", "--sritct"}, "usdt link: no such option: --sritct", "mean --strict?"},
    {{"--json", "ps"}, "no such option: --json", "follow the command: vitrine COMMAND --json"},
    // Values.
    {{"labels", "1", "--mode", "snapshto"},
     "--mode takes snapshot, ebpf, ptrace, not 'snapshto'",
     "did you mean snapshot?"},
    {{"labels", "1", "--mode=magic"}, "not 'magic'", "`vitrine labels --help`"},
    {{"check", "--profile", "sdt,dfo", "x"}, "sdt, dof, all, not 'dfo'", "did you mean dof?"},
    {{"profile", "1", "--format", "pprfo"}, "not 'pprfo'", "did you mean pprof?"},
    {{"profile", "1", "--json"}, "no such option: --json", "did you mean --format json?"},
    {{"usdt", "header", "-s", "x.d", "--enabled", "semaphor"}, "not 'semaphor'", "mean semaphore?"},
    {{"--completion", "tcsh"},
     "--completion takes bash, zsh, fish, not 'tcsh'",
     "`vitrine --help`"},
    {{"labels", "--freq"}, "labels: --freq requires a value: HZ", "`vitrine labels --help`"},
    {{"labels", "1", "--freq", "9", "--freq", "99"},
     "labels: --freq is given more than once",
     "`vitrine labels --help`"},
    {{"usdt", "link", "-s"},
     "usdt link: -s requires a value: FILE.d",
     "`vitrine usdt link --help`"},
    {{"labels", "1", "--freq", "0"}, "--freq: Value 0 not in range", "`vitrine labels --help`"},
    {{"labels", "1", "--duration", "5x"}, "invalid duration '5x'", "500ms, 2s, 1.5m"},
    {{"trace", "1", "--slower", "5x"}, "--slower: invalid duration '5x'", "250us, 10ms"},
    {{"trace", "1", "--interval", "soon"}, "--interval: invalid duration 'soon'", "500ms, 2s"},
    {{"labels", "1", "--watch=0"}, "invalid interval: 0", "for example 500ms"},
    {{"labels", "1", "--max-labels", "0"}, "--max-labels: Value 0", "`vitrine labels --help`"},
    // Targets.
    {{"labels"}, "missing argument: no process", "vitrine ps lists"},
    {{"labels", "abc"}, "PID: expected a positive integer", "`vitrine labels --help`"},
    {{"labels", "99999999999999"}, "PID: expected a process ID", "`vitrine labels --help`"},
    {{"labels", "-p", "1,99999999999999"}, "expected a process ID", "`vitrine labels --help`"},
    {{"probes", "99999999999999"}, "PID: expected a process ID", "`vitrine ps`"},
    {{"probes", ""}, "an empty argument names no process, file or probe", "give a process ID"},
    {{"context"}, "context: PID is required", "`vitrine context --help`"},
    {{"context", "1", "2"}, "context: unexpected argument 2", "`vitrine context --help`"},
    {{"ps", "4242"}, "ps: unexpected argument 4242", "`vitrine ps --help`"},
    {{"labels", "1", "--exec", "--", "true"},
     "a PID and --exec exclude each other",
     "omit one of them"},
    {{"labels", "--exec"}, "--exec requires a command", "--exec -- ./server"},
    {{"trace", "--exec", "./server"}, "--exec requires a command", "add it at the end, after --"},
    {{"profile", "--exec", "--"}, "--exec requires a command", "add it at the end, after --"},
    // What does not go together.
    {{"trace", "1", "--count", "--sum", "arg1"},
     "--count excludes --sum",
     "`vitrine trace --help`"},
    {{"trace", "1", "--match", "id"},
     "--match requires --latency or --spans",
     "`vitrine trace --help`"},
};

class Mistakes : public testing::TestWithParam<Mistake> {};

TEST_P(Mistakes, AreToldWithWhatToDo) {
  const Outcome outcome = vitrine(GetParam().words);
  EXPECT_EQ(outcome.status, 2);
  EXPECT_EQ(outcome.out, "");
  EXPECT_THAT(outcome.err, StartsWith("vitrine: "));
  const std::size_t line = outcome.err.find('\n');
  ASSERT_NE(line, std::string::npos);
  EXPECT_THAT(outcome.err.substr(0, line), HasSubstr(GetParam().message));
  EXPECT_THAT(outcome.err.substr(line), HasSubstr("\n  "));
  EXPECT_THAT(outcome.err.substr(line), HasSubstr(GetParam().remedy));
  EXPECT_THAT(outcome.err, EndsWith("\n"));
}

INSTANTIATE_TEST_SUITE_P(, Mistakes, testing::ValuesIn(mistakes));

TEST(Usage, WithoutACommandShowsHelp) {
  const Outcome none = vitrine({});
  EXPECT_EQ(none.status, 2);
  EXPECT_THAT(none.out, HasSubstr("labels"));
}

TEST(Usage, HelpIsACommandToo) {
  EXPECT_EQ(vitrine({"help", "labels"}).out, vitrine({"labels", "--help"}).out);
  EXPECT_EQ(vitrine({"help"}).out, vitrine({"--help"}).out);
  EXPECT_EQ(vitrine({"help"}).status, 0);
}

TEST(Usage, AllThatFollowsExecBelongsToTheProgram) {
  const Outcome outcome = vitrine({"labels", "--exec", "--", "echo", "--jsno", "--exec", "--", "-x",
                                   "--watch", "help", "--mode", "magic"});
  EXPECT_EQ(outcome.out, "--jsno --exec -- -x --watch help --mode magic\n") << outcome.err;
}

/// An option's value may look like an option, or a command.
TEST(Usage, ValuesAreNotTakenForOptions) {
  const Outcome outcome = vitrine({"trace", "4194300", "x:*", "--where", "-5 < arg0"});
  EXPECT_EQ(outcome.status, 4) << outcome.err;
  EXPECT_THAT(outcome.err, HasSubstr("4194300"));
}

}  // namespace
}  // namespace vitrine::test
