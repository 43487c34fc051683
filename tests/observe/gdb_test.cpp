// gdb, which has its own way to thread-local variables (libthread_db), finds them where we do.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <regex>
#include <sstream>

#include "observe/observer.hpp"
#include "support/child.hpp"

namespace vitrine::observe {
namespace {

using test::Writer;
using test::WriterSpec;

// tid → address of the variable, as gdb prints it for each thread.
std::map<pid_t, Address> ask_gdb(pid_t pid, const std::string& variable) {
  const auto outcome = test::run({"gdb", "-nx", "-batch", "-p", std::to_string(pid), "-ex",
                                  "thread apply all -s print &" + variable});
  std::map<pid_t, Address> addresses;
  std::istringstream lines(outcome.out);
  const std::regex thread(R"(^Thread \d+ \(Thread 0x[0-9a-f]+ \(LWP (\d+)\))");
  const std::regex value(R"(^\$\d+ = .* (0x[0-9a-f]+))");
  pid_t tid = 0;
  for (std::string line; std::getline(lines, line);) {
    std::smatch match;
    if (std::regex_search(line, match, thread)) tid = std::stoi(match[1]);
    if (std::regex_search(line, match, value)) addresses[tid] = std::stoull(match[1], nullptr, 16);
  }
  EXPECT_FALSE(addresses.empty()) << outcome.out << outcome.err;
  return addresses;
}

class Gdb : public testing::TestWithParam<std::string> {};

TEST_P(Gdb, Agrees) {
  const auto rows = test::location_matrix();
  const auto row = std::find_if(rows.begin(), rows.end(),
                                [&](const WriterSpec& spec) { return spec.name == GetParam(); });
  ASSERT_NE(row, rows.end());
  const Writer writer = Writer::start(*row);
  Observer observer(writer);
  observer.expect_agreement();
  // Of a thread that has not used the variable gdb cannot always tell.
  const auto addresses = ask_gdb(writer.pid(), "custom_labels_current_set");
  for (const char* name : {"main", "early", "late"}) {
    const pid_t tid = writer.thread(name).tid;
    ASSERT_TRUE(addresses.contains(tid)) << name;
    EXPECT_TRUE(observer.displays(tid, addresses.at(tid))) << name;
  }
}

INSTANTIATE_TEST_SUITE_P(Rows, Gdb,
                         testing::Values("glibc_exe_pie_a64", "glibc_exe_nopie_a8",
                                         "glibc_needed_gd_a16", "glibc_needed_ie_a64",
                                         "glibc_dlopen_tlsdesc_a64", "glibc_dlopen_gd_a8",
                                         "glibc_exhausted_tlsdesc_a8"),
                         [](const auto& row) { return row.param; });

}  // namespace
}  // namespace vitrine::observe
