// What the C interface costs beside the usual writer (customlabels_peer.c), in one run: each row is
// measured for both, in turns, by the thread's CPU time. Built twice: in an executable (static TLS),
// and against libraries (TLS descriptors).
#include <customlabels.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string_view>
#include <vector>
#include <vitrine/labels.hpp>

#include "customlabels_peer.h"

namespace {

struct Ours {
  using String = custom_labels_string_t;
  using Label = custom_labels_label_t;
  using Set = custom_labels_labelset_t;
  static constexpr auto make = custom_labels_new;
  static constexpr auto clone = custom_labels_clone;
  static constexpr auto free = custom_labels_free;
  static constexpr auto replace = custom_labels_replace;
  static constexpr auto set = custom_labels_set;
  static constexpr auto get = custom_labels_get;
  static constexpr auto run_with = custom_labels_run_with;
};
struct Peer {
  using String = peer_string;
  using Label = peer_label;
  using Set = peer_set;
  static constexpr auto make = peer_new;
  static constexpr auto clone = peer_clone;
  static constexpr auto free = peer_free;
  static constexpr auto replace = peer_replace;
  static constexpr auto set = peer_set_label;
  static constexpr auto get = peer_get;
  static constexpr auto run_with = peer_run_with;
};

/// 512 values of 12 bytes, and as many of 4 to 15.
struct Values {
  Values() {
    for (int i = 0; i < 512; ++i) {
      std::snprintf(same[i], sizeof same[i], "tenant-%05d", i);
      std::snprintf(varied[i], sizeof varied[i], "%0*d", 4 + i * 7 % 12, i);
    }
  }
  char same[512][16];
  char varied[512][16];
};
const Values values;

template <class L>
typename L::String str(std::string_view text) {
  return {text.size(), reinterpret_cast<const unsigned char*>(text.data())};
}
template <class L>
typename L::String value(unsigned i) {
  return {12, reinterpret_cast<const unsigned char*>(values.same[i % 512])};
}

constexpr std::array<std::string_view, 4> keys{"tenant", "route", "user", "region"};

template <class L>
typename L::Set* make_four() {
  auto* set = L::make(4);
  for (unsigned i = 0; i < 4; ++i) L::set(set, str<L>(keys[i]), value<L>(i), nullptr);
  return set;
}

double now_ns() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) * 1e9 + static_cast<double>(now.tv_nsec);
}

template <class F>
double time_of(unsigned turns, F&& turn) {
  const double start = now_ns();
  for (unsigned i = 0; i < turns; ++i) turn(i);
  return (now_ns() - start) / turns;
}

struct SetOne {
  static constexpr const char* name = "replace one label of four";
  static constexpr double wanted = 0.5;
  template <class L>
  static double run(unsigned turns) {
    auto* set = make_four<L>();
    L::replace(set);
    const double ns =
        time_of(turns, [&](unsigned i) { L::set(set, str<L>(keys[i % 4]), value<L>(i), nullptr); });
    L::replace(nullptr);
    L::free(set);
    return ns;
  }
};
struct SetVaried {
  static constexpr const char* name = "the same, values of 4 to 15 bytes";
  static constexpr double wanted = 0;
  template <class L>
  static double run(unsigned turns) {
    auto* set = make_four<L>();
    L::replace(set);
    const double ns = time_of(turns, [&](unsigned i) {
      const char* text = values.varied[i % 512];
      L::set(set, str<L>(keys[i % 4]), str<L>({text, 4 + i % 512 * 7 % 12}), nullptr);
    });
    L::replace(nullptr);
    L::free(set);
    return ns;
  }
};
struct ReplacePair {
  static constexpr const char* name = "a pair of replace";
  static constexpr double wanted = 1;
  template <class L>
  static double run(unsigned turns) {
    auto* set = make_four<L>();
    const double ns = time_of(turns, [&](unsigned) { L::replace(L::replace(set)); });
    L::free(set);
    return ns;
  }
};
struct ReplaceInner {
  static constexpr const char* name = "the same, on top of another set";
  static constexpr double wanted = 1;
  template <class L>
  static double run(unsigned turns) {
    auto *set = make_four<L>(), *outer = make_four<L>();
    L::replace(outer);
    const double ns = time_of(turns, [&](unsigned) { L::replace(L::replace(set)); });
    L::replace(nullptr);
    L::free(outer);
    L::free(set);
    return ns;
  }
};
struct CloneSetSwapFree {
  static constexpr const char* name = "clone, set one, replace, free";
  static constexpr double wanted = 0.5;
  template <class L>
  static double run(unsigned turns) {
    auto* set = make_four<L>();
    L::replace(set);
    const double ns = time_of(turns, [&](unsigned i) {
      auto* copy = L::clone(set);
      L::set(copy, str<L>(keys[i % 4]), value<L>(i), nullptr);
      L::replace(copy);
      L::free(set);
      set = copy;
    });
    L::replace(nullptr);
    L::free(set);
    return ns;
  }
};
struct RunWith {
  static constexpr const char* name = "run_with of three labels";
  static constexpr double wanted = 0.5;
  template <class L>
  static double run(unsigned turns) {
    auto* set = make_four<L>();
    L::replace(set);
    const double ns = time_of(turns, [&](unsigned i) {
      typename L::Label labels[] = {{str<L>(keys[0]), value<L>(i)},
                                    {str<L>(keys[1]), value<L>(i + 1)},
                                    {str<L>("request"), value<L>(i + 2)}};
      L::run_with(
          set, labels, 3, [](void* data) { return data; }, nullptr, nullptr);
    });
    L::replace(nullptr);
    L::free(set);
    return ns;
  }
};
struct Get {
  static constexpr const char* name = "get one label of four";
  static constexpr double wanted = 1;
  template <class L>
  static double run(unsigned turns) {
    auto* set = make_four<L>();
    std::size_t sum = 0;
    const double ns =
        time_of(turns, [&](unsigned i) { sum += L::get(set, str<L>(keys[i % 4]))->value.len; });
    L::free(set);
    if (sum != turns * std::size_t{12}) std::abort();
    return ns;
  }
};

double median(std::vector<double>& times) {
  std::sort(times.begin(), times.end());
  return times[times.size() / 2];
}

template <class Row>
bool measure() {
  constexpr unsigned turns = 20'000;  // short against what else disturbs the machine
  std::vector<double> ours, peer;
  for (int round = 0; round < 151; ++round) {
    ours.push_back(Row::template run<Ours>(turns));
    peer.push_back(Row::template run<Peer>(turns));
  }
  const double a = median(ours), b = median(peer);
  std::printf("%-36s %8.2f %8.2f %8.2f", Row::name, a, b, a / b);
  if (Row::wanted != 0) std::printf("   wanted %.1f", Row::wanted);
  std::printf("\n");
  // As printed, with two decimals.
  return Row::wanted == 0 || a / b < Row::wanted + 0.005;
}

long resident_bytes() {
  std::ifstream file("/proc/self/statm");
  long total = 0, resident = 0;
  file >> total >> resident;
  return resident * sysconf(_SC_PAGESIZE);
}

/// Handles made among scopes and edits, and held.
void measure_memory() {
  constexpr int count = 10'000;
  static custom_labels_labelset_t* held[count];
  const vitrine::labels::Key tenant{"tenant"};
  { vitrine::labels::Scope first{tenant, "first"}; }
  const auto round = [&](int i) {
    for (unsigned j = 0; j < 5; ++j) {
      vitrine::labels::Scope scope{tenant, values.same[(static_cast<unsigned>(i) + j) % 512]};
    }
    held[i] = make_four<Ours>();
  };
  for (int i = 0; i < 100; ++i) {
    round(i);
    custom_labels_free(held[i]);
  }
  const long before = resident_bytes();
  for (int i = 0; i < count; ++i) round(i);
  std::printf("%-36s %8ld bytes each\n", "10,000 sets of four, made among scopes",
              (resident_bytes() - before) / count);
  for (auto* set : held) custom_labels_free(set);
}

}  // namespace

int main() {
  std::printf("%-36s %8s %8s %8s\n", "", "ns", "peer's", "ratio");
  bool met = measure<SetOne>();
  measure<SetVaried>();
  met = measure<ReplacePair>() && met;
  met = measure<ReplaceInner>() && met;
  met = measure<CloneSetSwapFree>() && met;
  met = measure<RunWith>() && met;
  met = measure<Get>() && met;
  measure_memory();
  return met ? 0 : 1;
}
