// Senders of their own process: killed, restarted, behind a proxy.
#include <gmock/gmock.h>

#include <csignal>
#include <set>

#include "export/receiver.hpp"

namespace vitrine::test {
namespace {

using testing::ElementsAreArray;
using testing::HasSubstr;

Child sender(const std::string& url, const std::string& spool, std::vector<std::string> env = {}) {
  ChildOptions options;
  options.env = std::move(env);
  return Child::spawn({SENDER, url, spool}, options);
}

TEST(Killed, WhatWaitedIsSentByTheNext) {
  Folder folder;
  const std::string spool = folder.string();
  std::string port;
  {
    Receiver gone("python3", {"200"});
    port = gone.port();
  }
  const std::string url = "otlp+http://127.0.0.1:" + port;
  std::vector<std::string> texts;
  for (int run = 0; run < 3; ++run) {
    Child child = sender(url, spool);
    for (int i = 0; i < 5; ++i) {
      texts.push_back("run" + std::to_string(run) + "." + std::to_string(i));
      child.write("send " + texts.back() + "\n");
    }
    child.write("finish 0\n");
    EXPECT_EQ(child.read_line(), "0 " + std::to_string(texts.size()) + " 0");
    child.signal(SIGKILL);
    EXPECT_EQ(child.wait(), 128 + SIGKILL);
  }
  Receiver collector("python3", {"--port", port, "200"});
  Child last = sender(url, spool);
  std::vector<std::string> got;
  for (const Request& request : collector.next(texts.size())) got.push_back(request.body);
  EXPECT_THAT(got, ElementsAreArray(texts));
  last.write("finish 20000\n");
  EXPECT_EQ(last.read_line(), std::to_string(texts.size()) + " 0 0");
}

TEST(Killed, WhileItSendsNothingIsLost) {
  Folder folder;
  Receiver collector("node", {"200"});
  std::vector<std::string> texts;
  std::vector<std::string> got;
  for (int run = 0; run < 10; ++run) {
    Child child = sender(collector.url(), folder.string());
    for (int i = 0; i < 20; ++i) {
      texts.push_back("run" + std::to_string(run) + "." + std::to_string(i));
      child.write("send " + texts.back() + "\n");
    }
    if (run == 9) {
      child.write("finish 20000\n");
      EXPECT_THAT(child.read_line().value_or(""), HasSubstr(" 0 0"));
    } else {
      got.push_back(collector.next().body);  // in the middle of it
      child.signal(SIGKILL);
      child.wait();
      // What it had not been told of, or not written, when it was killed was never handed over.
    }
  }
  // The last run's requests all arrive, in their order, whatever the earlier ones left.
  while (got.empty() || got.back() != texts.back()) {
    const Request request = collector.next();
    if (request.body.empty()) break;
    got.push_back(request.body);
  }
  std::vector<std::string> of_last;
  for (const std::string& text : got)
    if (text.starts_with("run9.")) of_last.push_back(text);
  EXPECT_THAT(of_last, ElementsAreArray(texts.end() - 20, texts.end()));
  // Of every earlier run an unbroken beginning arrived, some of it twice at most.
  for (int run = 0; run < 9; ++run) {
    std::set<std::string> distinct;
    const std::string its = "run" + std::to_string(run) + ".";
    for (const std::string& text : got)
      if (text.starts_with(its)) distinct.insert(text);
    for (std::size_t i = 0; i < distinct.size(); ++i)
      EXPECT_TRUE(distinct.contains(its + std::to_string(i))) << its << i;
  }
}

TEST(Proxy, IsWhatTheEnvironmentSays) {
  Folder folder;
  Receiver proxy("python3", {"200"});
  Child child = sender("otlp+http://collector.invalid:4318", folder.string(),
                       {"http_proxy=http://127.0.0.1:" + proxy.port(), "no_proxy="});
  child.write("send a\n");
  const Request request = proxy.next();
  EXPECT_EQ(request.path, "http://collector.invalid:4318/v1development/profiles");
  EXPECT_EQ(request.body, "a");
}

/// A proxy would make HTTP/1.1 of it, unless it is a tunnel.
TEST(Proxy, OfGrpcIsATunnel) {
  constexpr const char* script = R"(
const net = require('net');
const proxy = require('http').createServer((request, response) => response.writeHead(400).end());
proxy.on('connect', (request, from) => {
  const to = net.connect(Number(process.argv[1]), '127.0.0.1', () => {
    from.write('HTTP/1.1 200 OK\r\ngrpc-status: 3\r\n\r\n');
    from.pipe(to).pipe(from);
  });
  for (const one of [from, to]) one.on('error', () => {});
});
proxy.listen(0, '127.0.0.1', () => console.log(proxy.address().port));)";
  Folder folder;
  Receiver collector("grpc", {"ok"});
  Child proxy = Child::spawn({"node", "-e", script, collector.port()});
  const std::string port = proxy.read_line().value_or("");
  Child child = sender("otlp+grpc://collector.invalid:4317", folder.string(),
                       {"http_proxy=http://127.0.0.1:" + port, "no_proxy="});
  child.write("send a\n");
  EXPECT_EQ(collector.next().body, "a");
  child.write("finish 20000\n");
  EXPECT_EQ(child.read_line(), "1 0 0");
}

TEST(Spool, OfAnotherProcessIsRefused) {
  Folder folder;
  Child first = sender("otlp+http://127.0.0.1:1", folder.string());
  first.write("finish 0\n");
  ASSERT_TRUE(first.read_line());
  Child second = sender("otlp+http://127.0.0.1:1", folder.string());
  EXPECT_THAT(second.read_line().value_or(""), HasSubstr("in use by another process"));
  EXPECT_EQ(second.wait(), 1);
}

}  // namespace
}  // namespace vitrine::test
