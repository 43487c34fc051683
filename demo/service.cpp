// A shop that serves three tenants: coroutines on a thread pool, under a load of its own making.
// Every request says who it is for, and has probes: `vitrine labels --watch PID` and
// `vitrine trace PID 'shop:*'` show it from outside.
//
//   vitrine-demo-service [--seconds N]     prints its pid; ends on SIGTERM, ^C, or after N seconds
#include <signal.h>
#include <unistd.h>
#include <vitrine/sdt.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <numeric>
#include <random>
#include <string>
#include <string_view>
#include <vector>
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

// What the requests are made of. Functions of their own, so that a profile shows them by name.

struct Row {
  std::string item;
  double price;
};

bool comes_before(const Row& a, const Row& b) {
  return a.item < b.item;
}

/// Rows are made, sorted and added up: a CPU's work, some 4 ms.
[[gnu::noinline]] double render_report(std::uint64_t seed) {
  std::minstd_rand random(static_cast<unsigned>(seed));
  std::vector<Row> rows;
  for (int i = 0; i < 8'000; ++i) {
    const Goods& goods = shelf[random() % shelf.size()];
    rows.push_back({std::string(goods.name) + std::to_string(random() % 1'000), goods.price});
  }
  std::sort(rows.begin(), rows.end(), comes_before);
  return std::accumulate(rows.begin(), rows.end(), 0.0,
                         [](double sum, const Row& row) { return sum + row.price; });
}

/// A CPU's work, some 0.5 ms.
[[gnu::noinline]] bool scan_catalogue(std::uint64_t seed) {
  static const std::string catalogue = [] {
    std::string text;
    for (unsigned i = 0; text.size() < 400'000; ++i)
      text += std::string(shelf[i % shelf.size()].name) + ' ' + std::to_string(i) + '\n';
    return text;
  }();
  const std::string item = "no such item " + std::to_string(seed);
  return std::search(catalogue.begin(), catalogue.end(), item.begin(), item.end()) !=
         catalogue.end();
}

/// A driver that has no asynchronous interface: the thread waits.
[[gnu::noinline]] void wait_for_network(std::chrono::nanoseconds amount) {
  std::this_thread::sleep_for(amount);
}

/// One at a time may change the stock, and writes it down before the next one may.
[[gnu::noinline]] void reserve_stock() {
  static std::mutex stock;
  const std::lock_guard lock(stock);
  std::this_thread::sleep_for(3ms);
}

/// A CPU's work, some 0.3 ms.
[[gnu::noinline]] std::uint64_t sign_receipt(std::uint64_t request) {
  for (int i = 0; i < 100'000; ++i) request = (request ^ (request >> 7)) * 0x9e3779b97f4a7c15;
  return request;
}

/// So that the compiler does not leave the work out.
std::atomic<double> outcome;

Task pay(Pool& pool, std::uint64_t request, Status& status) {
  const labels::Scope scope(step, "charge-card");
  const Goods& goods = shelf[request % shelf.size()];
  VITRINE_LAZY_TYPED_PROBE(shop, order, (id, request), (item, goods.name), (price, goods.price));
  reserve_stock();
  co_await pool.after(8ms);  // goes on on any thread, with all its labels
  wait_for_network(12ms);
  outcome = static_cast<double>(sign_receipt(request));
  if (request % 10 == 9) status = Status::declined;
}

Task search(Pool& pool, std::uint64_t request) {
  if (request % 3 == 0)
    VITRINE_LAZY_TYPED_PROBE(shop, cache_miss,
                             (key, "search:" + std::string(shelf[request % 4].name)));
  outcome = scan_catalogue(request) ? 1 : 0;
  co_await pool.after(3ms);
  wait_for_network(6ms);
}

Task report(Pool& pool, std::uint64_t request) {
  outcome = render_report(request);
  co_await pool.after(5ms);
}

/// What a service of its own would add: one scope a request.
Task serve(Pool& pool, Request request) {
  const labels::Scope scope(request.trace, {{tenant, request.tenant}, {route, request.path}});
  Status status = Status::ok;
  VITRINE_LAZY_TYPED_PROBE(shop, request_start, (id, request.id), (path, request.path));
  if (request.path == "/pay") co_await pay(pool, request.id, status);
  if (request.path == "/search") co_await search(pool, request.id);
  if (request.path == "/report") co_await report(pool, request.id);
  VITRINE_LAZY_TYPED_PROBE(shop, request_end, (id, request.id),
                           VITRINE_ENUM(status, status, Status));
}

template <class Id>
Id random_id(std::mt19937_64& random) {
  Id id;
  for (auto& byte : id.bytes) byte = static_cast<std::uint8_t>(random());
  return id;
}

/// Whom the shop serves, and what for: acme wants reports, which take CPU time; globex buys, and
/// waits for its turn at the stock; initech looks around.
struct Tenant {
  std::string_view name;
  int customers;
  std::array<std::string_view, 6> habits;
};
constexpr std::array<Tenant, 3> tenants = {
    {{"acme", 12, {"/search", "/report", "/report", "/pay", "/report", "/report"}},
     {"globex", 6, {"/pay", "/search", "/pay", "/pay", "/report", "/pay"}},
     {"initech", 3, {"/search", "/search", "/search", "/pay", "/search", "/search"}}}};

/// One customer: a request after another, until the service stops.
Job customer(Pool& pool, const Tenant& of, unsigned seed, const std::atomic<bool>& open) {
  static std::atomic<std::uint64_t> requests{0};
  std::mt19937_64 random(seed);
  while (open) {
    co_await pool.after(std::chrono::milliseconds(random() % 160));
    const labels::Trace trace(random_id<labels::TraceId>(random), random_id<labels::SpanId>(random),
                              1);
    co_await serve(pool, {++requests, of.name, of.habits[random() % of.habits.size()], trace});
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
  if (!published) std::fprintf(stderr, "%s\n", published.message().data());

  sigset_t stop;
  sigemptyset(&stop);
  sigaddset(&stop, SIGTERM);
  sigaddset(&stop, SIGINT);
  pthread_sigmask(SIG_BLOCK, &stop, nullptr);  // in the pool's threads, too

  std::atomic<bool> open{true};
  Pool pool(8);
  unsigned seed = 0;
  for (const Tenant& of : tenants)
    for (int i = 0; i < of.customers; ++i) customer(pool, of, ++seed, open);

  std::printf("%d\n", getpid());
  std::fflush(stdout);
  const timespec limit{seconds, 0};
  // Who stops a thread for a moment (vitrine labels --mode ptrace) interrupts its wait.
  while (sigtimedwait(&stop, nullptr, seconds > 0 ? &limit : nullptr) < 0 && errno == EINTR)
    continue;
  open = false;
}
