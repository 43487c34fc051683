// Boost.Asio: coroutines with timers, sockets and posts on four threads, and handlers on a strand.
// clang-format off
#include <utility>  // first: <boost/asio/awaitable.hpp> of Boost 1.74 uses it
#include <boost/asio/awaitable.hpp>
#include <boost/asio/bind_executor.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/dispatch.hpp>
#include <boost/asio/local/connect_pair.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/strand.hpp>
#include <boost/asio/thread_pool.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>
#include <vitrine/boost_asio.hpp>
// clang-format on

#include "stage.hpp"

namespace {

using namespace frameworks;
namespace asio = boost::asio;
using labels::carrying;
using Socket = asio::local::stream_protocol::socket;

constexpr int threads = 4, coroutines = 90, chains = 10;
constexpr int holders = 3;

asio::awaitable<void> pass_a_byte(Task& task) {
  auto executor = co_await asio::this_coro::executor;
  Socket here(executor), there(executor);
  asio::local::connect_pair(here, there);
  char byte = 'x';
  co_await asio::async_write(here, asio::buffer(&byte, 1), asio::use_awaitable);
  task.check("socket");
  co_await asio::async_read(there, asio::buffer(&byte, 1), asio::use_awaitable);
  task.check("socket");
}

asio::awaitable<void> steps(Task& task) {
  asio::steady_timer timer(co_await asio::this_coro::executor);
  for (int i = 0; i < 5; ++i) {
    {
      const labels::Scope scope{step, "post"};
      co_await asio::post(asio::use_awaitable);
      task.check("post");
    }
    {
      const labels::Scope scope{step, "timer"};
      timer.expires_after(std::chrono::microseconds(100));
      co_await timer.async_wait(asio::use_awaitable);
      task.check("timer");
      co_await asio::dispatch(asio::use_awaitable);
      task.check("timer");
    }
    const labels::Scope scope{step, "socket"};
    co_await pass_a_byte(task);
    co_await carrying(pass_a_byte(task));
    task.check("socket");
  }
}

/// The labels of its own scope.
asio::awaitable<void> serve(Stage& stage, std::string who, bool holds) {
  Task task(stage, who);
  const labels::Scope scope{tenant, who};
  co_await steps(task);
  task.check();
  if (holds) task.hold();
  co_await steps(task);
  stage.finished();
}

/// The labels with which it was started; and starts another beside itself.
asio::awaitable<void> inherit(Stage& stage, std::string who, bool has_child) {
  Task task(stage, who);
  task.check();
  if (has_child)
    asio::co_spawn(carrying(co_await asio::this_coro::executor), inherit(stage, who, false),
                   asio::detached);
  co_await steps(task);
  task.check();
  stage.finished();
}

/// Handlers: each of a chain starts the next.
struct Chain {
  using Strand = asio::strand<asio::thread_pool::executor_type>;

  Chain(Stage& stage, std::string who, asio::thread_pool& pool)
      : task(stage, std::move(who)), strand(pool.get_executor()), timer(pool) {}

  static void next(std::shared_ptr<Chain> chain, int left) {
    chain->task.check();
    if (left == 0) return chain->task.stage().finished();
    chain->timer.expires_after(std::chrono::microseconds(50));
    auto& timer = chain->timer;
    auto handler = [chain, left](boost::system::error_code) {
      if (!chain->strand.running_in_this_thread()) chain->task.stage().count_check(false);
      next(chain, left - 1);
    };
    auto& strand = chain->strand;
    // The executor may be bound inside or outside.
    if (left % 2 == 0)
      timer.async_wait(labels::bind(asio::bind_executor(strand, std::move(handler))));
    else
      timer.async_wait(asio::bind_executor(strand, labels::bind(std::move(handler))));
  }

  Task task;
  Strand strand;
  asio::steady_timer timer;
};

}  // namespace

int main() {
  Stage stage(coroutines + chains, holders);
  asio::thread_pool pool(threads);
  for (int i = 0; i < coroutines / 3; ++i) {
    const std::string who = "tenant-" + std::to_string(i);
    // A strand serves as well as its pool.
    if (i % 2 == 0)
      asio::co_spawn(carrying(pool), serve(stage, who, i < holders), asio::detached);
    else
      asio::co_spawn(carrying(asio::make_strand(pool)), serve(stage, who, i < holders),
                     asio::detached);
    const std::string other = "inherited-" + std::to_string(i);
    const labels::Scope scope{tenant, other};
    asio::co_spawn(carrying(pool), inherit(stage, other, true), asio::detached);
  }
  for (int i = 0; i < chains; ++i) {
    const std::string who = "chain-" + std::to_string(i);
    const labels::Scope scope{tenant, who};
    Chain::next(std::make_shared<Chain>(stage, who, pool), 20);
  }
  stage.show();
  pool.join();
  return stage.result(true);
}
