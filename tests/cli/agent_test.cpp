// vitrine agent as a process: a configuration file, what arrives, reloads, readiness and its pages.
#include <gmock/gmock.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <csignal>
#include <sstream>

#include "cli/command.hpp"
#include "cli/pages.hpp"
#include "export/receiver.hpp"

namespace vitrine::test {
namespace {

using nlohmann::json;
using testing::AllOf;
using testing::ContainsRegex;
using testing::HasSubstr;
using testing::Not;

void write_file(const std::filesystem::path& path, const std::string& text) {
  std::ofstream(path) << text;
}

Child subject() {
  Child child = Child::spawn({PROFILE_SUBJECT, "burn acme"});
  EXPECT_EQ(child.read_line(patience), "ready");
  return child;
}

/// The agent, whose standard error is read line by line.
class Agent {
 public:
  explicit Agent(std::vector<std::string> arguments, std::vector<std::string> env = {})
      : child_(start(std::move(arguments), std::move(env))) {}

  /// What it says up to a line with `text`, which is there.
  std::string until(const std::string& text) {
    std::string said;
    while (const auto line = child_.read_line(patience)) {
      said += *line + '\n';
      if (line->find(text) != std::string::npos) return said;
    }
    ADD_FAILURE() << "never said: " << text << "\n" << said;
    return said;
  }

  /// Once it samples: the port of its pages.
  std::uint16_t begun() {
    const std::string said = until("profiling: ");
    const std::size_t at = said.rfind("http://127.0.0.1:");
    return at == std::string::npos ? std::uint16_t{0}
                                   : static_cast<std::uint16_t>(std::stoi(said.substr(at + 17)));
  }

  Child& child() { return child_; }

 private:
  static Child start(std::vector<std::string> arguments, std::vector<std::string> env) {
    arguments.insert(arguments.begin(), {"sh", "-c", "exec \"$@\" 2>&1", "sh", VITRINE, "agent"});
    ChildOptions options;
    options.env = std::move(env);
    return Child::spawn(std::move(arguments), options);
  }

  Child child_;
};

std::string page(std::uint16_t port, const std::string& path) {
  return response_to(port, "GET " + path + " HTTP/1.1\r\nHost: localhost\r\n\r\n");
}

std::uint64_t metric(const std::string& text, const std::string& name) {
  const std::size_t at = text.find('\n' + name + ' ');
  return at == std::string::npos ? ~std::uint64_t{0}
                                 : std::stoull(text.substr(at + name.size() + 2));
}

std::string settings(const std::string& url, const std::string& more = {}) {
  return "[profile]\ninterval = \"300ms\"\n[select]\nprocess = [\"profile_subject\"]\n"
         "[export]\nurl = \"" +
         url + "\"\n[agent]\nlisten = \"127.0.0.1:0\"\n" + more;
}

json totals(const std::vector<Request>& requests) {
  std::vector<std::string> arguments{"python3", OTLP_CHECK, "--totals", "tenant"};
  for (const Request& request : requests) arguments.push_back(request.file);
  const Outcome checked = run(arguments);
  EXPECT_EQ(checked.status, 0) << checked.err;
  return json::parse(checked.out, nullptr, false);
}

/// Processes of the NDJSON files in `folder`, and samples of "acme".
std::pair<std::set<std::string>, std::size_t> found_in(const Folder& folder) {
  std::pair<std::set<std::string>, std::size_t> found;
  for (const auto& file : std::filesystem::directory_iterator(folder)) {
    std::ifstream lines(file.path());
    for (std::string line; std::getline(lines, line);) {
      const json sample = json::parse(line);
      if (sample.contains("summary")) continue;
      found.first.insert(sample["comm"]);
      for (const json& pair : sample["labels"])
        found.second += pair["key"] == "tenant" && pair["value"] == "acme";
    }
  }
  return found;
}

TEST(Agent, TheSelectedProcessArrivesAndSigtermDrains) {
  const Child target = subject();
  Receiver collector("python3", {"200"});
  Folder folder, files;
  write_file(folder / "agent.toml",
             settings(collector.url(),
                      "[files]\noutput = [\"" + (files / "%t.ndjson").string() + "\"]\n"));
  Agent agent({(folder / "agent.toml").string()});
  const std::uint16_t port = agent.begun();
  std::vector<Request> requests = collector.next(3);
  EXPECT_THAT(page(port, "/healthz"),
              AllOf(HasSubstr("HTTP/1.0 200 OK"), HasSubstr("\r\n\r\nok\n")));
  // The samples of a profile count once all of it is written; other tests' processes are in it, too.
  wait_until([&] {
    const std::string counted = page(port, "/metrics");
    return metric(counted, "vitrine_agent_sent_requests_total") >= 3 &&
           metric(counted, "vitrine_agent_samples_total") > 0;
  });
  const std::string metrics = page(port, "/metrics");
  EXPECT_GT(metric(metrics, "vitrine_agent_samples_total"), 0U);
  EXPECT_EQ(metric(metrics, "vitrine_agent_refused_requests_total"), 0U);
  EXPECT_THAT(metrics, AllOf(HasSubstr("application/openmetrics-text; version=1.0.0"),
                             testing::EndsWith("# EOF\n")));
  agent.child().signal(SIGTERM);
  EXPECT_EQ(agent.child().wait(patience), 0);
  const std::string said = agent.child().rest_of_output();
  const std::size_t sent = std::stoul(said.substr(said.find("sent ") + 5));
  for (const Request& request : collector.next(sent - 3)) requests.push_back(request);
  const json by_tenant = totals(requests);
  ASSERT_TRUE(by_tenant.contains("acme")) << by_tenant;
  const auto [processes, samples] = found_in(files);
  // Of the selected process: its busy thread, and its main thread where a sample found it just then.
  EXPECT_THAT(processes, testing::Contains("burner"));
  EXPECT_THAT(processes, testing::Each(testing::AnyOf("burner", "profile_subject")));
  EXPECT_GT(samples, 0U);
}

TEST(Agent, AReloadTakesAGoodFileAndKeepsTheOldOneForABadOne) {
  const Child target = subject();
  Receiver first("python3", {"200"}), second("python3", {"200"});
  Folder folder;
  const auto file = folder / "agent.toml";
  write_file(file, settings(first.url()));
  Agent agent({file.string()});
  const std::uint16_t port = agent.begun();
  first.next(2);
  write_file(file, settings(first.url(), "[profile2]\nfreqency = 1\n"));
  agent.child().signal(SIGHUP);
  EXPECT_THAT(agent.until("stays in force"), HasSubstr("agent.toml:9:2: unknown key profile2"));
  write_file(file, settings(first.url(), "[labels]\nredact_secret = \"/nowhere\"\n"));
  agent.child().signal(SIGHUP);
  EXPECT_THAT(agent.until("stays in force"), HasSubstr("agent.toml:10:17: labels.redact_secret: "));
  first.next(2);  // goes on
  EXPECT_EQ(metric(page(port, "/metrics"), "vitrine_agent_failed_reloads_total"), 2U);
  std::string changed = settings(second.url(), "[labels]\nprefix = \"app.\"\n");
  write_file(file, changed);
  agent.child().signal(SIGHUP);
  agent.until("the configuration is reloaded");
  agent.begun();
  const Request request = second.next();
  EXPECT_TRUE(totals({request}).is_object());
  EXPECT_THAT(request.body, testing::Not(testing::IsEmpty()));
  EXPECT_EQ(metric(page(port, "/metrics"), "vitrine_agent_reloads_total"), 1U);
  EXPECT_GE(metric(page(port, "/metrics"), "vitrine_agent_sent_requests_total"), 4U);
  agent.child().signal(SIGHUP);
  agent.until("nothing changed");
  agent.child().signal(SIGTERM);
  EXPECT_EQ(agent.child().wait(patience), 0);
}

/// Messages to $NOTIFY_SOCKET.
class Manager {
 public:
  Manager() : socket_(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0)) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::strncpy(address.sun_path, path().c_str(), sizeof address.sun_path - 1);
    EXPECT_EQ(::bind(socket_, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
    const timeval time{60, 0};
    ::setsockopt(socket_, SOL_SOCKET, SO_RCVTIMEO, &time, sizeof time);
  }
  ~Manager() { ::close(socket_); }
  Manager(const Manager&) = delete;
  Manager& operator=(const Manager&) = delete;

  std::string path() const { return (folder_ / "notify").string(); }

  /// The next message that begins so; those before it are passed over.
  std::string until(const std::string& beginning) {
    char bytes[1024];
    for (ssize_t got = 0; (got = ::recv(socket_, bytes, sizeof bytes, 0)) > 0;)
      if (const std::string text(bytes, static_cast<std::size_t>(got)); text.starts_with(beginning))
        return text;
    ADD_FAILURE() << "no message " << beginning;
    return {};
  }

 private:
  Folder folder_;
  int socket_;
};

TEST(Agent, TellsTheServiceManagerHowFarItIs) {
  const Child target = subject();
  Receiver collector("python3", {"200"});
  Manager manager;
  Folder folder;
  const auto file = folder / "agent.toml";
  write_file(file, settings(collector.url()));
  Agent agent({file.string()}, {"NOTIFY_SOCKET=" + manager.path(), "WATCHDOG_USEC=300000"});
  EXPECT_THAT(manager.until("READY=1"), HasSubstr("STATUS=profiling: on CPU at 99 Hz"));
  manager.until("WATCHDOG=1");
  manager.until("WATCHDOG=1");
  write_file(file, "profile = 1");
  agent.child().signal(SIGHUP);
  EXPECT_THAT(manager.until("RELOADING=1"), HasSubstr("MONOTONIC_USEC="));
  EXPECT_THAT(manager.until("READY=1"), HasSubstr("the configuration was refused"));
  write_file(file, settings(collector.url(), "[labels]\nprefix = \"app.\"\n"));
  agent.child().signal(SIGHUP);
  manager.until("RELOADING=1");
  manager.until("READY=1\nSTATUS=profiling");
  agent.child().signal(SIGTERM);
  manager.until("STOPPING=1");
  EXPECT_EQ(agent.child().wait(patience), 0);
}

/// Its socket has no room at that moment.
TEST(Agent, ReadinessIsNotLostWhereTheServiceManagerIsBusy) {
  Manager manager;
  const int other = ::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  const auto crowd = [&] {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::strncpy(address.sun_path, manager.path().c_str(), sizeof address.sun_path - 1);
    while (::sendto(other, "X=1", 3, MSG_DONTWAIT, reinterpret_cast<const sockaddr*>(&address),
                    sizeof address) == 3) {
    }
  };
  crowd();
  Folder folder;
  Agent agent({"--listen", "[::1]:0", "-o", (folder / "%t.pb.gz").string(), "--process", "none"},
              {"NOTIFY_SOCKET=" + manager.path()});
  EXPECT_THAT(agent.until("profiling: "), HasSubstr("; metrics at http://[::1]:"));
  manager.until("READY=1");
  ::close(other);
  agent.child().signal(SIGTERM);
  manager.until("STOPPING=1");
  EXPECT_EQ(agent.child().wait(patience), 0);
}

std::uint16_t free_port() {
  const FileDescriptor socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  EXPECT_EQ(::bind(socket.get(), reinterpret_cast<const sockaddr*>(&address), size), 0);
  EXPECT_EQ(::getsockname(socket.get(), reinterpret_cast<sockaddr*>(&address), &size), 0);
  return ntohs(address.sin_port);
}

bool listens(std::uint16_t port) {
  const FileDescriptor socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return ::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
}

TEST(Agent, ItsPagesAgreeThatItStarts) {
  Folder folder;
  const std::uint16_t port = free_port();
  Agent agent({"--listen", "127.0.0.1:" + std::to_string(port), "-o",
               (folder / "%t.pb.gz").string(), "--process", "none"});
  wait_until([&] { return listens(port); });
  bool is_well = false;
  wait_until([&] {
    const std::string metrics = page(port, "/metrics");
    is_well = page(port, "/healthz").find("200 OK") != std::string::npos;
    const std::uint64_t up = metric(metrics, "vitrine_agent_up");
    EXPECT_TRUE(up == 0 || is_well) << "up, and then starting";
    EXPECT_LE(up, 1U);
    EXPECT_GT(metric(metrics, "process_start_time_seconds"), 1'700'000'000U);
    return is_well;
  });
  EXPECT_EQ(metric(page(port, "/metrics"), "vitrine_agent_up"), 1U);
  agent.child().signal(SIGTERM);
  EXPECT_EQ(agent.child().wait(patience), 0);
}

TEST(Agent, ItsPagesAreBoundedAndOneSlowReaderBlocksNoOther) {
  Folder folder;
  Agent agent(
      {"--listen", "127.0.0.1:0", "-o", (folder / "%t.pb.gz").string(), "--process", "none"});
  const std::uint16_t port = agent.begun();
  const FileDescriptor silent = connection_to(port);
  EXPECT_THAT(page(port, "/nothing"), HasSubstr("404"));
  EXPECT_THAT(response_to(port, "POST /metrics HTTP/1.0\r\n\r\n"), HasSubstr("405"));
  EXPECT_THAT(response_to(port, "nonsense\r\n\r\n"), HasSubstr("400"));
  EXPECT_THAT(response_to(port, std::string(8192, 'x')), HasSubstr("400"));
  EXPECT_THAT(response_to(port, "HEAD /healthz HTTP/1.1\r\n\r\n"),
              AllOf(HasSubstr("200 OK"), Not(HasSubstr("ok\n"))));
  char byte = 0;
  EXPECT_EQ(::recv(silent.get(), &byte, 1, 0), 0);  // its time is over
  agent.child().signal(SIGTERM);
  EXPECT_EQ(agent.child().wait(patience), 0);
}

Outcome check(const Folder& folder, const std::string& text, std::vector<std::string> more = {}) {
  write_file(folder / "a.toml", text);
  more.insert(more.begin(), {"agent", "--check", (folder / "a.toml").string()});
  return vitrine(std::move(more));
}

TEST(AgentCheck, ErrorsHaveTheirPlaces) {
  Folder folder;
  const std::string url = "[export]\nurl = \"otlp+http://localhost\"\n";
  const auto error = [&](const std::string& text) {
    const Outcome outcome = check(folder, text);
    EXPECT_EQ(outcome.status, 2) << text;
    return outcome.err;
  };
  EXPECT_THAT(error("[profile]\nfrequency = \n"), ContainsRegex("a.toml:2:1[0-9]: "));
  EXPECT_THAT(error(url + "[profile]\n  freqency = 9\n"),
              AllOf(HasSubstr("a.toml:4:3: unknown key profile.freqency"),
                    HasSubstr("did you mean profile.frequency?")));
  EXPECT_THAT(error("[exports]\n"),
              HasSubstr("a.toml:1:2: unknown key exports\n  did you mean [export]?"));
  EXPECT_THAT(error(url + "[[traces]]\n"), HasSubstr("did you mean [[trace]]?"));
  EXPECT_THAT(error("url = \"otlp\"\n"), HasSubstr("did you mean export.url?"));
  EXPECT_THAT(error(url + "[profile]\non_cpu = false\n"),
              HasSubstr("a.toml:4:10: profile.on_cpu: nothing is sampled"));
  EXPECT_EQ(check(folder, url + "[profile]\non_cpu = false\noff_cpu = true\n").status, 0);
  EXPECT_THAT(error(url + "[profile]\nfrequency = \"9\"\n"),
              HasSubstr("a.toml:4:13: profile.frequency takes an integer"));
  EXPECT_THAT(error(url + "[profile]\nfrequency = 0\n"),
              HasSubstr("a.toml:4:13: profile.frequency: --freq: "));
  EXPECT_THAT(error(url + "[profile]\ninterval = \"soon\"\n"),
              HasSubstr("a.toml:4:12: profile.interval: invalid duration 'soon'"));
  EXPECT_THAT(error(url + "[select]\nfilter = \"tenant\"\n"),
              HasSubstr("a.toml:4:10: select.filter: "));
  EXPECT_THAT(error(url + "[agent]\nlisten = \"localhost\"\n"),
              HasSubstr("a.toml:4:10: agent.listen: "));
  EXPECT_THAT(error(url + "[agent]\nlisten = \"::1\"\n"), HasSubstr("a.toml:4:10: agent.listen: "));
  // What only the sending would find out, also beside another that is wrong.
  const std::string secure = "[export]\nurl = \"otlp+https://localhost\"\nspool = \"/tmp/x\"\n";
  EXPECT_THAT(error("[export]\nspool = \"/tmp/x\"\nurl = \"otlp://localhost\"\n"),
              HasSubstr("a.toml:3:7: export.url: invalid collector URL: unknown scheme"));
  EXPECT_THAT(error("[export]\nurl = \"otlp+http://unix:/run/socket\"\n"),
              HasSubstr("a.toml:2:7: export.url: invalid collector URL: "));
  EXPECT_THAT(error(url + "signals_url = \"otlp+grpc://localhost/path\"\n"),
              HasSubstr("a.toml:3:15: export.signals_url: invalid collector URL: "));
  EXPECT_THAT(error(secure + "ca = \"/nowhere\"\n"),
              AllOf(HasSubstr("a.toml:4:6: export.ca: invalid authorities /nowhere"),
                    Not(HasSubstr("OTEL_EXPORTER"))));
  EXPECT_THAT(
      error(secure + "headers = [\"secret\"]\nca = \"/nowhere\"\n"),
      AllOf(HasSubstr("a.toml:4:11: export.headers: invalid header 1"), Not(HasSubstr("secret"))));
  EXPECT_THAT(error("[export]\nurl = \"clickhouse+http://h/t\"\nattributes = [\"tenant\"]\n"),
              HasSubstr("a.toml:3:14: export.attributes: "));
  EXPECT_THAT(error("[files]\noutput = [\"a.pb.gz\"]\n"), HasSubstr("a.toml:2:10: files.output: "));
  EXPECT_THAT(error("[profile]\n"), HasSubstr("the profiles have no output"));
  EXPECT_THAT(error(url + "spool = \"/tmp/x\"\nspool_bytes = \"12\"\n"),
              HasSubstr("a.toml:4:15: export.spool_bytes: --spool-bytes: "));
  const std::string trace = "[[trace]]\nfile = \"/usr/bin/true\"\nprobes = [\"shop:order\"]\n";
  EXPECT_THAT(error(url + trace + "name = \"a\"\n" + trace + "name = \"a\"\n"),
              HasSubstr("a.toml:10:8: trace.name: two [[trace]] have the name a"));
  EXPECT_THAT(error(url + trace + "name = \"a\"\nsum = \"arg0\"\n" + trace +
                    "name = \"b\"\nhist = \"arg0\"\n"),
              HasSubstr("a.toml:12:8: trace.hist: sum and hist are one metric"));
  // The parser would need more stack for it than there is.
  std::string deep = "a";
  for (int i = 0; i < 200'000; ++i) deep += ".a";
  EXPECT_THAT(error("# ...\n" + deep + " = 1\n"), HasSubstr("a.toml:2: a key has too many parts"));
  EXPECT_THAT(error("[" + deep + "]\n"), HasSubstr("a.toml:1: a key has too many parts"));
  EXPECT_EQ(vitrine({"agent", "--check", (folder / "none.toml").string()}).status, 4);
}

TEST(AgentCheck, FilesNeedADirectory) {
  Folder folder;
  const std::string none = (folder / "none").string(), file = (folder / "file").string();
  write_file(file, "");
  const std::string url = "[export]\nurl = \"otlp+http://localhost\"\n";
  const Outcome output = check(folder, "[files]\noutput = [\"" + none + "/%t.folded\"]\n");
  EXPECT_EQ(output.status, 4);
  EXPECT_THAT(output.err, HasSubstr("a.toml:2:10: files.output: " + none + ": No such file"));
  const Outcome spool = check(folder, url + "spool = \"" + file + "\"\n");
  EXPECT_EQ(spool.status, 4);
  EXPECT_THAT(spool.err, HasSubstr("a.toml:3:9: export.spool: " + file + ": Not a directory"));
  const Outcome text =
      check(folder, url + "[metrics]\nby = [\"process\"]\ntextfile = \"" + none + "/x.prom\"\n");
  EXPECT_EQ(text.status, 4);
  EXPECT_THAT(text.err, HasSubstr("a.toml:5:12: metrics.textfile: " + none + ": No such file"));
  EXPECT_EQ(check(folder, url + "spool = \"" + none + "\"\n").status, 0);  // it is made
}

TEST(AgentCheck, ErrorsOfTheEnvironmentNameItsVariable) {
  Folder folder;
  const auto error = [&](const std::string& variable, const std::string& text) {
    write_file(folder / "a.toml", text);
    ChildOptions options;
    options.env = {variable};
    const Outcome outcome =
        run({VITRINE, "agent", "--check", (folder / "a.toml").string()}, options);
    EXPECT_EQ(outcome.status, 2) << variable;
    EXPECT_THAT(outcome.err, Not(HasSubstr("a.toml")));
    return outcome.err;
  };
  const std::string secure = "[export]\nurl = \"otlp+https://localhost\"\n";
  EXPECT_THAT(error("OTEL_EXPORTER_OTLP_CERTIFICATE=/nowhere", secure),
              HasSubstr("OTEL_EXPORTER_OTLP_CERTIFICATE: invalid authorities /nowhere"));
  EXPECT_THAT(error("OTEL_EXPORTER_OTLP_HEADERS=secret", secure),
              AllOf(HasSubstr(" OTEL_EXPORTER_OTLP_HEADERS is not"), Not(HasSubstr("secret"))));
  EXPECT_THAT(error("OTEL_EXPORTER_OTLP_ENDPOINT=ftp://host", "[export]\nurl = \"otlp\"\n"),
              HasSubstr("OTEL_EXPORTER_OTLP_ENDPOINT: invalid collector URL: "));
  EXPECT_THAT(error("VITRINE_REDACT_SECRET=short", secure + "[labels]\nredact = [\"user\"]\n"),
              HasSubstr("the secret in VITRINE_REDACT_SECRET has 5 bytes"));
}

TEST(AgentCheck, PrintsAFileThatMeansTheSame) {
  Folder folder;
  const Outcome once = check(folder,
                             "[profile]\nkernel = false\noff_cpu = true\n[export]\nurl = "
                             "\"otlp+http://localhost\"\nheaders = [\"token: s3cret\"]\n"
                             "bytes = \"2MiB\"\n[select]\nprocess = [\"a b\", \"c\\\"\"]\n",
                             {"--freq", "19", "--on-cpu"});
  EXPECT_EQ(once.status, 0) << once.err;
  EXPECT_THAT(once.out, HasSubstr("frequency = 19"));
  EXPECT_THAT(once.out, ContainsRegex("frequency = 19 +# --freq"));
  EXPECT_THAT(once.out, ContainsRegex("kernel = false +# .*a.toml:2:10"));
  EXPECT_THAT(once.out, ContainsRegex("stack_depth = 512 +# default"));
  EXPECT_THAT(once.out, Not(HasSubstr("s3cret")));
  const Outcome twice = check(folder, once.out);
  EXPECT_EQ(twice.status, 0) << twice.err;
  const auto values = [](const std::string& text) {
    std::string out;
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);)
      out += line.substr(0, line.find("  #")) + '\n';
    return out;
  };
  EXPECT_EQ(values(twice.out), values(once.out));
}

TEST(AgentCheck, PrintsNoPassword) {
  Folder folder;
  const auto printed = [&](const std::string& url) {
    const Outcome outcome = check(folder, "[export]\nurl = \"" + url + "\"\n");
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    EXPECT_THAT(outcome.out, Not(HasSubstr("s3cret"))) << url;
    return outcome.out;
  };
  EXPECT_THAT(printed("otlp+https://me:s3cret@host:4318/a:b@c"),
              HasSubstr("\"otlp+https://me:(hidden)@host:4318/a:b@c\""));
  for (const std::string password : {"qzqz", "/qzqz", "qzqz/qzqz", "12/qzqz", "qzqz?#qzqz"}) {
    const Outcome outcome =
        check(folder, "[export]\nurl = \"otlp+https://me:" + password + "@host\"\n");
    EXPECT_THAT(outcome.out + outcome.err, Not(HasSubstr("qzqz"))) << password;
  }
  EXPECT_THAT(printed("otlp+https://me@host:4318"), HasSubstr("\"otlp+https://me@host:4318\""));
  EXPECT_THAT(printed("clickhouse+http://host:8123/t?user=me&password=s3cret&x=1"),
              HasSubstr("t?user=me&password=(hidden)&x=1\""));
}

TEST(AgentCheck, RefusesAuthoritiesForAUrlWithoutTls) {
  Folder folder;
  const std::string authorities = "ca = \"" + (folder / "ca.pem").string() + "\"\n";
  for (const std::string url : {"otlp+http://host:4318", "otlp+grpc://host:4317"}) {
    const Outcome outcome = check(folder, "[export]\nurl = \"" + url + "\"\n" + authorities);
    EXPECT_EQ(outcome.status, 2);
    EXPECT_THAT(outcome.err, HasSubstr("are for TLS"));
    for (const std::string profiles : {"", "url = \"otlp+http://host:4318\"\n"}) {
      const Outcome signals = check(folder, "[export]\nsignals_url = \"" + url + "\"\n" + profiles +
                                                authorities + "[metrics]\nby = [\"tenant\"]\n");
      EXPECT_EQ(signals.status, 2) << profiles;
      EXPECT_THAT(signals.err, HasSubstr("are for TLS")) << profiles;
    }
  }
}

// Whatever writes to it may come never.
TEST(AgentCheck, RefusesAPipe) {
  Folder folder;
  const std::string pipe = (folder / "pipe").string();
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  const Outcome outcome = vitrine({"agent", "--check", pipe});
  EXPECT_EQ(outcome.status, 1);
  EXPECT_THAT(outcome.err, HasSubstr(pipe + " is a pipe"));
}

TEST(AgentCheck, TheFileOfThePackageIsRightWithAndWithoutItsComments) {
  Folder folder;
  std::string text = content_of(AGENT_TOML), all;
  EXPECT_EQ(check(folder, text).status, 0);
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);)
    all += (line.size() > 1 && line[0] == '#' && line[1] != ' ' ? line.substr(1) : line) + '\n';
  // These need what a machine has, or exclude another.
  for (const std::string key :
       {"redact_secret", "min_block", "preempted", "sum", "ca =", "certificate =", "key ="})
    all.replace(all.find("\n" + key), 1, "\n#");
  const Outcome outcome = check(folder, all);
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  const Outcome known = vitrine({"agent", "--check"});
  std::istringstream keys(known.out);
  for (std::string line; std::getline(keys, line);) {
    const std::size_t equals = line.find(" = ");
    if (equals == std::string::npos) continue;
    const std::string key = line.substr(line[0] == '#' ? 1 : 0, equals - (line[0] == '#' ? 1 : 0));
    EXPECT_THAT(text, ContainsRegex("\n#?" + key + " = ")) << "the file does not show it";
  }
}

}  // namespace
}  // namespace vitrine::test
