#include "web/made_profiles.hpp"

#include <fmt/format.h>

#include <array>
#include <random>

#include "web/profile_builder.hpp"

namespace vitrine::web_test {
namespace {

using namespace profile;

constexpr std::uint64_t start = 1'763'000'000'000'000'000;
constexpr std::uint64_t second = 1'000'000'000;
constexpr std::uint64_t tick = 10'000'000;

EncodeOptions options(std::string title, std::vector<std::string> group_by) {
  EncodeOptions options;
  options.title = std::move(title);
  options.group_by = std::move(group_by);
  return options;
}

/// CPU, 100 ticks of 10 ms in 1 s: tenant acme 60 (render 40, of it 10 in memcpy; query 20), globex
/// 30 (render 10, query 20), no tenant 10 (idle, in the kernel). In the second half of the time:
/// globex only. Off the CPU: acme 3 s in 3 samples, globex 1 s in 1. render is in line 57, and
/// calls memcpy in line 61.
Made known() {
  ProfileBuilder builder("/opt/shop");
  const Index process = builder.process(100, "shop");
  const auto acme = builder.labels({{"route", "/pay"}, {"tenant", "acme"}});
  const auto globex = builder.labels({{"route", "/cart"}, {"tenant", "globex"}});
  const auto render = builder.stack({"main", "serve#21", "render#57"});
  const auto copy = builder.stack({"main", "serve#21", "render#61", "memcpy@libc.so.6"});
  const auto query = builder.stack({"main", "serve#24", "query#9", "parse#33^"});
  const auto idle = builder.stack({"main", "poll@libc.so.6", "do_poll@[kernel]"});
  const auto wait = builder.stack({"main", "serve#24", "wait", "schedule@[kernel]"});
  std::uint64_t early = 0, late = 0;
  const auto add = [&](int count, Index labels, Index stack, bool second_half) {
    for (int i = 0; i < count; ++i) {
      const std::uint64_t at = second_half ? second / 2 + late++ * tick / 2 : early++ * tick / 2;
      builder.profile.samples.push_back({Measure::on_cpu, process, stack, labels, none,
                                         labels == acme ? 101U : 102U, 0, "worker", start + at,
                                         tick});
    }
  };
  add(30, acme, render, false);
  add(10, acme, copy, false);
  add(20, acme, query, false);
  add(10, none, idle, false);
  add(10, globex, render, true);
  add(20, globex, query, true);
  for (const Index labels : {acme, acme, acme, globex})
    builder.profile.samples.push_back({Measure::off_cpu, process, wait, labels, none, 101, 0,
                                       "worker", start + second / 10, second});
  builder.profile.start_ns = start;
  builder.profile.duration_ns = second;
  builder.profile.frequency = 100;
  return {builder.profile, options("known", {})};
}

struct Work {
  double weight;
  Frames frames;
};

/// Three tenants, their routes, and what a service does for them, over half a minute.
Made demo() {
  const Frames entry{"_start@/usr/local/bin/shop",
                     "__libc_start_main@libc.so.6",
                     "clone3@libc.so.6",
                     "start_thread@libc.so.6",
                     "shop::Pool::run",
                     "shop::Pool::next^",
                     "shop::serve(shop::Request&)"};
  ProfileBuilder builder("/usr/local/bin/shop");
  const Index process = builder.process(48213, "shop");
  const auto under = [&](Frames frames) {
    Frames all = entry;
    all.insert(all.end(), frames.begin(), frames.end());
    return all;
  };
  const std::string json = "nlohmann::basic_json<std::map, std::vector, std::string, bool>::";
  const std::vector<Work> cpu{
      {18, under({"shop::render(shop::Page const&)", "fmt::vformat_to", "std::string::append^",
                  "memcpy@libc.so.6"})},
      {12, under({"shop::render(shop::Page const&)", "shop::escape", "std::find_first_of^"})},
      {9, under({"shop::render(shop::Page const&)", "shop::Template::expand",
                 "shop::Template::expand", "shop::Template::lookup", "std::_Hashtable::find^",
                 "std::hash<std::string>::operator()^"})},
      {14, under({"shop::query(shop::Db&, std::string_view)", "sqlite3_step@libsqlite3.so.0",
                  "sqlite3VdbeExec@libsqlite3.so.0", "sqlite3BtreeNext@libsqlite3.so.0"})},
      {8, under({"shop::query(shop::Db&, std::string_view)", "sqlite3_step@libsqlite3.so.0",
                 "sqlite3VdbeExec@libsqlite3.so.0", "sqlite3BtreeMovetoUnpacked@libsqlite3.so.0",
                 "vdbeRecordCompare@libsqlite3.so.0"})},
      {5, under({"shop::query(shop::Db&, std::string_view)", "sqlite3_prepare_v2@libsqlite3.so.0",
                 "sqlite3RunParser@libsqlite3.so.0"})},
      {7, under({"shop::decode(shop::Request&)", json + "parse",
                 json + "parser::sax_parse_internal", json + "lexer::scan^"})},
      {4,
       under({"shop::decode(shop::Request&)", json + "parse", json + "parser::sax_parse_internal",
              "operator new@libstdc++.so.6", "malloc@libc.so.6", "_int_malloc@libc.so.6"})},
      {6, under({"shop::checksum", "deflate@libz.so.1", "deflate_slow@libz.so.1",
                 "longest_match@libz.so.1"})},
      {3, under({"shop::checksum", "crc32_z@libz.so.1"})},
      {5, under({"shop::send(shop::Reply const&)", "write@libc.so.6", "entry_SYSCALL_64@[kernel]",
                 "ksys_write@[kernel]", "vfs_write@[kernel]", "sock_write_iter@[kernel]",
                 "tcp_sendmsg@[kernel]", "tcp_write_xmit@[kernel]"})},
      {3, under({"shop::send(shop::Reply const&)", "SSL_write@libssl.so.3", "@libcrypto.so.3"})},
      {2, under({"shop::script", "Price.total@[jit]", "Price.discount@[jit]"})},
  };
  const std::vector<Work> off{
      {10, under({"shop::query(shop::Db&, std::string_view)", "sqlite3_step@libsqlite3.so.0",
                  "pread64@libc.so.6", "entry_SYSCALL_64@[kernel]", "ext4_file_read_iter@[kernel]",
                  "io_schedule@[kernel]", "schedule@[kernel]"})},
      {6, under({"shop::Cache::get", "std::mutex::lock^", "pthread_mutex_lock@libc.so.6",
                 "entry_SYSCALL_64@[kernel]", "futex_wait@[kernel]", "schedule@[kernel]"})},
      {4, under({"shop::send(shop::Reply const&)", "poll@libc.so.6", "entry_SYSCALL_64@[kernel]",
                 "do_sys_poll@[kernel]", "schedule_hrtimeout@[kernel]"})},
  };
  const Frames idle{"_start@/usr/local/bin/shop",
                    "__libc_start_main@libc.so.6",
                    "clone3@libc.so.6",
                    "start_thread@libc.so.6",
                    "shop::Pool::run",
                    "shop::Pool::wait",
                    "pthread_cond_wait@libc.so.6",
                    "entry_SYSCALL_64@[kernel]",
                    "futex_wait@[kernel]",
                    "schedule@[kernel]"};

  struct Tenant {
    const char* name;
    double weight;
    std::array<double, 3> kinds;  // how much of render, query and the rest it does
  };
  const std::array<Tenant, 3> tenants{
      {{"acme", 61, {1.4, 0.8, 1}}, {"globex", 27, {0.5, 2.4, 1}}, {"initech", 12, {1, 0.5, 3}}}};
  const std::array<const char*, 5> routes{"/cart", "/pay", "/search", "/item/{id}", "/health"};
  std::mt19937 random(7);
  const auto pick = [&](const std::vector<double>& weights) {
    return std::discrete_distribution<std::size_t>(weights.begin(), weights.end())(random);
  };
  for (std::uint64_t i = 0; i < 11'400; ++i) {
    const bool is_off = i % 4 == 3;
    const double at = std::uniform_real_distribution<>(0, 30)(random);
    const bool burst = at > 18 && at < 22;  // globex runs a report
    const std::size_t who =
        pick({tenants[0].weight, tenants[1].weight * (burst ? 4 : 1), tenants[2].weight, 4});
    const auto& works = is_off ? off : cpu;
    std::vector<double> weights;
    for (std::size_t w = 0; w < works.size(); ++w)
      weights.push_back(works[w].weight * (who < 3 ? tenants[who].kinds[is_off  ? w % 3
                                                                        : w < 3 ? 0
                                                                        : w < 6 ? 1
                                                                                : 2]
                                                   : 1));
    const bool waiting = is_off && who == 3;
    const Frames& frames = waiting ? idle : works[pick(weights)].frames;
    // Samples also hit the callers themselves, and some stacks are cut.
    const auto keep = frames.size() - (waiting ? 0 : is_off ? 0 : pick({80, 12, 5, 3}));
    Frames kept(frames.begin(), frames.begin() + static_cast<std::ptrdiff_t>(keep));
    for (std::string& frame : kept)
      if (frame.starts_with("shop::") && !frame.ends_with('^'))
        frame += fmt::format("#{}",
                             40 + 7 * pick({6.0 + static_cast<double>(frame.size() % 5), 5, 2, 1}));
    StackEnd end = StackEnd::outermost;
    if (i % 97 == 0) {
      kept.erase(kept.begin(), kept.begin() + 5);
      end = StackEnd::truncated;
      ++builder.profile.losses.truncated_stacks;
    }
    const std::size_t route = pick({30, 22, 25, 20, 3});
    const std::uint32_t tid = 48214 + static_cast<std::uint32_t>(random() % 6);
    const Index labels =
        who == 3 ? none
                 : builder.labels({{"tenant", tenants[who].name},
                                   {"route", routes[route]},
                                   {"step", keep > 7 && frames[7].find("query") != std::string::npos
                                                ? "query"
                                                : "render"}});
    const std::uint64_t trace = 1 + random() % 900;
    const std::uint64_t value =
        is_off ? static_cast<std::uint64_t>(std::lognormal_distribution<>(15.5, 1.1)(random))
               : 10'101'010;
    builder.profile.samples.push_back({is_off ? Measure::off_cpu : Measure::on_cpu, process,
                                       builder.stack(kept, end), labels,
                                       who == 3 ? none : builder.link(trace, trace * 3), tid,
                                       tid % 4, fmt::format("worker-{}", tid - 48213),
                                       start + static_cast<std::uint64_t>(at * 1e9), value});
  }
  builder.profile.start_ns = start;
  builder.profile.duration_ns = 30 * second;
  builder.profile.frequency = 99;
  builder.profile.losses.events = 3;
  builder.profile.problems = {
      "/usr/lib/x86_64-linux-gnu/libcrypto.so.3 has no symbols: install libssl3-dbgsym"};
  return {builder.profile, options("shop (pid 48213)", {"tenant"})};
}

/// Names and values that try to get out of where they stand.
Made hostile() {
  const std::vector<std::string> values{"</script><script>window.attacked = 1</script>",
                                        "<img src=x onerror='window.attacked = 1'>",
                                        "<!--<script>",
                                        "]]>",
                                        "\xe2\x80\xa8\xe2\x80\xa9",
                                        "\xe2\x80\xae\xd7\xa9gpj.exe",
                                        "\xff\xfe\xc0\x80",
                                        std::string(4096, 'x'),
                                        std::string("nul\0nul", 7),
                                        "javascript:window.attacked=1",
                                        "a,b\\c=d~e!",
                                        "",
                                        "{\"vitrine\":\"data\"}",
                                        "@SCRIPT@",
                                        "__proto__"};
  ProfileBuilder builder("/opt/</script><img src=x onerror=window.attacked=1>");
  const Index process = builder.process(1, "<b>x</b>");
  std::uint64_t at = 0;
  for (const std::string& value : values) {
    const Index labels =
        builder.labels({{"tenant", value}, {value.empty() ? "empty" : value, "as a key"}});
    const Index stack = builder.stack({"main", value + "@" + value.substr(0, 100), value + "()"});
    builder.profile.samples.push_back(
        {Measure::on_cpu, process, stack, labels, none, 1, 0, value, start + at++ * tick, tick});
  }
  // Indices that lead nowhere.
  builder.profile.samples.push_back(
      {Measure::on_cpu, 77, 777'777, 777'777, 7, 1, 0xffffffff, "", 0, ~std::uint64_t{0}});
  builder.profile.stacks[0].locations.push_back(999'999);
  builder.profile.locations[0].mapping = 4242;
  builder.profile.locations[0].lines.push_back({4242, 1});
  builder.profile.start_ns = start;
  builder.profile.duration_ns = second;
  builder.profile.frequency = 99;
  builder.profile.problems = values;
  return {builder.profile, options(values[0], {"tenant"})};
}

/// 50,000 distinct stacks of 12 to 36 frames under three tenants.
Made large() {
  ProfileBuilder builder("/opt/large");
  const Index process = builder.process(9, "large");
  std::mt19937 random(11);
  const std::array<const char*, 3> tenants{"acme", "globex", "initech"};
  for (std::uint64_t i = 0; i < 50'000; ++i) {
    Frames frames{"main"};
    const std::size_t depth = 12 + random() % 24;
    for (std::size_t d = 0; d < depth; ++d)
      frames.push_back(
          fmt::format("layer{}::function{}@lib{}.so", d, random() % (d < 4 ? 3 : 12), d % 5));
    frames.push_back(fmt::format("leaf{}", i));
    builder.profile.samples.push_back({Measure::on_cpu, process, builder.stack(frames),
                                       builder.labels({{"tenant", tenants[random() % 3]}}), none,
                                       9 + static_cast<std::uint32_t>(i % 8), 0, "worker",
                                       start + i * 600'000, tick});
  }
  builder.profile.start_ns = start;
  builder.profile.duration_ns = 30 * second;
  builder.profile.frequency = 999;
  return {builder.profile, options("large", {"tenant"})};
}

/// 1,000,000 samples of 20,000 distinct stacks, with lines, of 3 tenants and 100,000 users.
Made million() {
  ProfileBuilder builder("/opt/million");
  const Index process = builder.process(9, "million");
  std::mt19937 random(13);
  std::vector<Index> stacks;
  for (std::size_t i = 0; i < 20'000; ++i) {
    Frames frames{"main"};
    const std::size_t depth = 8 + random() % 16;
    for (std::size_t d = 0; d < depth; ++d)
      frames.push_back(fmt::format("layer{}::function{}#{}@lib{}.so", d, random() % (d < 4 ? 3 : 8),
                                   10 + random() % 3, d % 5));
    frames.push_back(fmt::format("leaf{}", i % 5000));
    stacks.push_back(builder.stack(frames));
  }
  const std::array<const char*, 3> tenants{"acme", "globex", "initech"};
  std::vector<Index> labels;
  for (std::size_t i = 0; i < 100'000; ++i)
    labels.push_back(
        builder.labels({{"tenant", tenants[i % 3]}, {"user", fmt::format("u{:06}", i)}}));
  for (std::uint64_t i = 0; i < 1'000'000; ++i)
    builder.profile.samples.push_back({Measure::on_cpu, process, stacks[random() % stacks.size()],
                                       labels[random() % labels.size()], none,
                                       9 + static_cast<std::uint32_t>(i % 64), 0, "worker",
                                       start + i * 30'000, tick});
  builder.profile.start_ns = start;
  builder.profile.duration_ns = 30 * second;
  builder.profile.frequency = 999;
  return {builder.profile, options("million", {"tenant"})};
}

}  // namespace

std::optional<Made> made(std::string_view name) {
  if (name == "demo") return demo();
  if (name == "known") return known();
  if (name == "hostile") return hostile();
  if (name == "large") return large();
  if (name == "million") return million();
  if (name == "empty") return Made{{}, options("empty", {})};
  return std::nullopt;
}

}  // namespace vitrine::web_test
