// SHA-256: ours beside OpenSSL's, on what we hash: both ends of a file, for its name in a profile,
// and redacted values. And what linking libcrypto would cost every command: its start with the
// library loaded, beside its start without.
#include <fmt/format.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <span>
#include <vector>

#include "base/redaction.hpp"
#include "process.hpp"

using namespace vitrine;

namespace {

constexpr int rounds = 9;
constexpr int starts = 60;

/// The best of some rounds: microseconds a call.
double microseconds_of(int calls, auto&& work) {
  using Clock = std::chrono::steady_clock;
  double best = 0;
  for (int round = 0; round < rounds; ++round) {
    const auto start = Clock::now();
    for (int call = 0; call < calls; ++call) work();
    const std::chrono::duration<double, std::micro> took = Clock::now() - start;
    best = round == 0 ? took.count() / calls : std::min(best, took.count() / calls);
  }
  return best;
}

void print(const char* what, double ours, double theirs) {
  fmt::print("{:<34} ours {:>8.2f} us   OpenSSL {:>8.2f} us   ratio {:.2f}\n", what, ours, theirs,
             ours / theirs);
}

}  // namespace

int main() {
  const std::vector<std::byte> ends(8200, std::byte{7}), key(32, std::byte{1}),
      value(24, std::byte{3});
  std::array<unsigned char, EVP_MAX_MD_SIZE> out{};
  unsigned size = 0;
  unsigned kept = 0;
  const auto theirs = [&] {
    EVP_Digest(ends.data(), ends.size(), out.data(), &size, EVP_sha256(), nullptr);
    kept += out[0];
  };
  const auto begin = std::chrono::steady_clock::now();
  theirs();
  const std::chrono::duration<double, std::micro> first = std::chrono::steady_clock::now() - begin;
  if (!std::ranges::equal(sha256(ends), std::span(out).first(size))) return 1;
  print("both ends of a file, 8200 bytes", microseconds_of(100, [&] { kept += sha256(ends)[0]; }),
        microseconds_of(100, theirs));
  print("HMAC of a value of 24 bytes",
        microseconds_of(1000, [&] { kept += hmac_sha256(key, value)[0]; }),
        microseconds_of(1000, [&] {
          HMAC(EVP_sha256(), key.data(), static_cast<int>(key.size()),
               reinterpret_cast<const unsigned char*>(value.data()), value.size(), out.data(),
               &size);
          kept += out[0];
        }));
  fmt::print("OpenSSL's first digest of a process: {:.0f} us ({:x})\n", first.count(), kept);

  std::vector<double> without, with;
  for (int start = -1; start < starts; ++start)  // the first warms the page cache
    for (const bool loaded : {false, true}) {
      const char* preload = loaded ? "LD_PRELOAD=libcrypto.so.3" : "LD_PRELOAD=";
      const auto cost = bench::run({"env", preload, VITRINE, "probes", "/bin/true"});
      if (!cost) return 1;
      if (start >= 0) (loaded ? with : without).push_back(cost->processor);
    }
  const double ours = bench::median(without), linked = bench::median(with);
  fmt::print(
      "`vitrine probes /bin/true`, processor time: {:.2f} ms, with libcrypto {:.2f} ms, {:.2f}\n",
      ours, linked, linked / ours);
}
