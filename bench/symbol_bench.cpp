// Symbolising: ours beside llvm-symbolizer, on the same addresses of a large program with debug
// information, inlined functions and lines included. Per address: the first request, with all that
// is parsed for it; others of the same program afterwards; the same ones once more. And libdw's own
// search for the scopes and the line of an address, which walks the unit's tree each time.
#include <elfutils/libdw.h>
#include <elfutils/libdwfl.h>
#include <fcntl.h>
#include <fmt/format.h>

#include <chrono>
#include <cstdlib>
#include <span>

#include "sandbox/files.hpp"
#include "symbol/llvm_symbolizer.hpp"
#include "symbol/symboliser.hpp"

using namespace vitrine;

namespace {

constexpr std::size_t count = 10'000;
constexpr std::size_t searched = 200;  // by libdw, once its tables are read

double seconds_of(auto&& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

void print(const char* what, double seconds, std::size_t addresses) {
  fmt::print("{:<46}{:>8.2f} us an address ({} in {:.2f} s)\n", what,
             seconds * 1e6 / static_cast<double>(addresses), addresses, seconds);
}

/// How many scopes libdw finds around an address, inlined functions included; and its line.
std::size_t scopes_and_line(Dwfl_Module* module, Address address) {
  Dwarf_Addr bias = 0;
  Dwarf_Die *unit = dwfl_module_addrdie(module, address, &bias), *scopes = nullptr;
  if (unit == nullptr) return 0;
  const int found = dwarf_getscopes(unit, address - bias, &scopes);
  dwarf_getsrc_die(unit, address - bias);
  std::free(scopes);
  return found > 0 ? static_cast<std::size_t>(found) : 0;
}

/// Whether libdw finds any scope.
bool search_by_libdw(const std::string& path, std::span<const Address> addresses) {
  Dwfl_Callbacks callbacks{};
  callbacks.find_elf = dwfl_build_id_find_elf;
  callbacks.find_debuginfo = dwfl_standard_find_debuginfo;
  callbacks.section_address = dwfl_offline_section_address;
  Dwfl* session = dwfl_begin(&callbacks);
  Dwfl_Module* module = dwfl_report_offline(session, "", path.c_str(), -1);
  dwfl_report_end(session, nullptr, nullptr);
  Dwarf_Addr start = 0;
  dwfl_module_info(module, nullptr, &start, nullptr, nullptr, nullptr, nullptr, nullptr);
  std::size_t scopes = 0;
  const auto search = [&] {
    for (const Address address : addresses) scopes += scopes_and_line(module, start + address);
  };
  print("libdw's dwarf_getscopes, first", seconds_of(search), addresses.size());
  print("libdw's dwarf_getscopes, the same again", seconds_of(search), addresses.size());
  dwfl_end(session);
  return scopes != 0;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string path = argc > 1 ? argv[1] : LARGE_PROGRAM;
  auto addresses = test::drawn_addresses(path, 2 * count);
  const std::vector<Address> more(addresses.begin() + count, addresses.end());
  addresses.resize(count);
  const auto file = sandbox::open_regular_at(AT_FDCWD, path);
  if (!file) return 1;
  const symbol::File asked{path, file->get(), {}};

  symbol::Symboliser symboliser;
  symbol::Resolved first;
  const double ours = seconds_of([&] { first = symboliser.resolve(asked, addresses); });
  print("ours, first", ours, count);
  print("ours, others", seconds_of([&] { symboliser.resolve(asked, more); }), count);
  print("ours, the same again", seconds_of([&] { symboliser.resolve(asked, addresses); }), count);
  const double one = seconds_of([&] {
    symbol::Symboliser fresh;
    fresh.resolve(asked, std::vector{addresses[0]});
  });
  print("ours, one alone", one, 1);

  if (!search_by_libdw(path, std::span(addresses).first(searched))) return 1;

  std::vector<symbol::Frames> theirs;
  const double llvm = seconds_of([&] { theirs = test::llvm_frames(path, addresses); });
  print("llvm-symbolizer, its process and JSON included", llvm, count);
  std::size_t same = 0;
  for (std::size_t i = 0; i < count; ++i) same += test::same(first.frames[i], theirs[i]) ? 1U : 0U;
  fmt::print("{:.2f}x of its time; {:.2f} % of the answers are the same\n", ours / llvm,
             100.0 * static_cast<double>(same) / static_cast<double>(count));
  return first.problem.empty() ? 0 : 1;
}
