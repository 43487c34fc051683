// Works, or waits, for two tenants in turn, each time with a label set made anew.
//
//   label_turns work|wait|new|span      prints "ready"; new: works, each time for another request; span: in
//                                       another span
#include <time.h>
#include <unistd.h>

#include <array>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <string>
#include <string_view>
#include <vitrine/labels.hpp>

namespace {

volatile std::uint64_t sink;

[[gnu::noinline]] void work() {
  std::uint64_t hash = sink;
  for (int i = 0; i < 200'000; ++i) hash = hash * 31 + 7;
  sink = hash;
}

[[gnu::noinline]] void wait() {
  const timespec half{0, 500'000};
  nanosleep(&half, nullptr);
}

}  // namespace

int main(int argc, char** argv) {
  static const vitrine::labels::Key tenant("tenant"), route("route");
  constexpr std::array<std::string_view, 2> tenants{"acme", "globex"};
  const bool waits = argc == 2 && std::string_view(argv[1]) == "wait";
  const bool is_new = argc == 2 && std::string_view(argv[1]) == "new";
  const bool has_span = argc == 2 && std::string_view(argv[1]) == "span";
  static const vitrine::labels::Key request("request");
  std::puts("ready");
  std::fflush(stdout);
  for (std::size_t turn = 0;; ++turn) {
    if (is_new) {
      const std::string number = std::to_string(::getpid()) + "-" + std::to_string(turn);
      const vitrine::labels::Scope scope(
          {{tenant, tenants[turn % 2]}, {route, "/pay"}, {request, number}});
      work();
      continue;
    }
    if (has_span) {
      vitrine::labels::Trace trace({}, {});
      trace.trace_id.bytes[0] = trace.span_id.bytes[0] = 1;
      std::memcpy(&trace.trace_id.bytes[1], &turn, sizeof turn);
      std::memcpy(&trace.span_id.bytes[1], &turn, 7);
      const vitrine::labels::Scope scope(trace, {{tenant, tenants[turn % 2]}, {route, "/pay"}});
      work();
      continue;
    }
    const vitrine::labels::Scope scope({{tenant, tenants[turn % 2]}, {route, "/pay"}});
    waits ? wait() : work();
  }
}
