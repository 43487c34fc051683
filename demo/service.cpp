// A shop that serves three tenants: coroutines on a thread pool, under a load of its own making.
// Every request says who it is for, and has probes: `vitrine labels --watch PID` and
// `vitrine trace PID 'shop:*'` show it from outside.
//
//   vitrine-demo-service [--seconds N]     prints its pid; ends on SIGTERM, ^C, or after N seconds
#include <signal.h>
#include <time.h>
#include <unistd.h>
#include <vitrine/sdt.h>

#include <array>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <string>
#include <string_view>
#include <vitrine/context.hpp>
#include <vitrine/coroutine.hpp>
#include <vitrine/labels.hpp>

#include "pool.hpp"
#include "task.hpp"

namespace {

using demo::Job;
using demo::Pool;
using demo::Task;
using namespace std::chrono_literals;
namespace labels = vitrine::labels;

const labels::Key tenant("tenant"), route("route"), step("step");

enum class Status : std::uint8_t { ok, declined };
VITRINE_ENUMERATORS(Status, ok, declined);

struct Request {
  std::uint64_t id;
  std::string_view tenant;
  std::string_view path;
  labels::Trace trace;
};

struct Goods {
  std::string_view name;
  double price;
};
constexpr std::array<Goods, 4> shelf = {
    {{"kettle", 24.5}, {"teapot", 39.0}, {"cup", 6.25}, {"tea, 100 g", 8.9}}};

/// Work that needs a CPU.
void compute(std::chrono::nanoseconds amount) {
  const auto used = [] {
    timespec now{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return std::chrono::seconds(now.tv_sec) + std::chrono::nanoseconds(now.tv_nsec);
  };
  volatile std::uint64_t hash = 0;
  for (const auto end = used() + amount; used() < end;)
    for (int i = 0; i < 5000; ++i) hash = hash * 31 + 7;
}

/// A driver that has no asynchronous interface: the thread waits.
void wait_for(std::chrono::nanoseconds amount) {
  std::this_thread::sleep_for(amount);
}

Task pay(Pool& pool, std::uint64_t request, Status& status) {
  const labels::Scope scope(step, "charge-card");
  const Goods& goods = shelf[request % shelf.size()];
  VITRINE_LAZY_TYPED_PROBE(shop, order, (id, request), (item, goods.name), (price, goods.price));
  compute(1ms);
  co_await pool.after(8ms);  // goes on on any thread, with all its labels
  wait_for(25ms);
  if (request % 10 == 9) status = Status::declined;
}

Task search(Pool& pool, std::uint64_t request) {
  if (request % 3 == 0)
    VITRINE_LAZY_TYPED_PROBE(shop, cache_miss,
                             (key, "search:" + std::string(shelf[request % 4].name)));
  compute(700us);
  co_await pool.after(3ms);
  compute(300us);
  wait_for(6ms);
}

Task report(Pool&) {
  compute(5ms);
  wait_for(50ms);
  co_return;
}

/// What a service of its own would add: one scope a request.
Task serve(Pool& pool, Request request) {
  const labels::Scope scope(request.trace, {{tenant, request.tenant}, {route, request.path}});
  Status status = Status::ok;
  VITRINE_LAZY_TYPED_PROBE(shop, request_start, (id, request.id), (path, request.path));
  if (request.path == "/pay") co_await pay(pool, request.id, status);
  if (request.path == "/search") co_await search(pool, request.id);
  if (request.path == "/report") co_await report(pool);
  VITRINE_LAZY_TYPED_PROBE(shop, request_end, (id, request.id),
                           VITRINE_ENUM(status, status, Status));
}

template <class Id>
Id random_id(std::mt19937_64& random) {
  Id id;
  for (auto& byte : id.bytes) byte = static_cast<std::uint8_t>(random());
  return id;
}

/// One customer: a request after another, until the service stops.
Job customer(Pool& pool, std::string_view of_tenant, unsigned seed, const std::atomic<bool>& open) {
  constexpr std::array<std::string_view, 6> habits = {"/search", "/search", "/search",
                                                      "/pay",    "/pay",    "/report"};
  static std::atomic<std::uint64_t> requests{0};
  std::mt19937_64 random(seed);
  while (open) {
    co_await pool.after(std::chrono::milliseconds(random() % 40));
    const labels::Trace trace(random_id<labels::TraceId>(random), random_id<labels::SpanId>(random),
                              1);
    co_await serve(pool, {++requests, of_tenant, habits[random() % habits.size()], trace});
  }
}

}  // namespace

int main(int argc, char** argv) {
  const long seconds = argc == 3 && std::strcmp(argv[1], "--seconds") == 0 ? std::atol(argv[2]) : 0;
  if (argc != 1 && seconds <= 0) {
    std::fprintf(stderr, "usage: %s [--seconds N]\n", argv[0]);
    return 2;
  }

  const auto published = vitrine::context::publish({{"service.name", "shop"},
                                                    {"service.version", "2.4.0"},
                                                    {"deployment.environment.name", "demo"}});
  if (!published) std::fprintf(stderr, "%s\n", published.message().c_str());

  sigset_t stop;
  sigemptyset(&stop);
  sigaddset(&stop, SIGTERM);
  sigaddset(&stop, SIGINT);
  pthread_sigmask(SIG_BLOCK, &stop, nullptr);  // in the pool's threads, too

  std::atomic<bool> open{true};
  Pool pool(8);
  unsigned seed = 0;
  for (int i = 0; i < 12; ++i) customer(pool, "acme", ++seed, open);
  for (int i = 0; i < 6; ++i) customer(pool, "globex", ++seed, open);
  for (int i = 0; i < 3; ++i) customer(pool, "initech", ++seed, open);

  std::printf("%d\n", getpid());
  std::fflush(stdout);
  const timespec limit{seconds, 0};
  sigtimedwait(&stop, nullptr, seconds > 0 ? &limit : nullptr);
  open = false;
}
