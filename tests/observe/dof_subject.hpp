// Builds dof_subject.c as `vitrine usdt` has it: header, compiler, object step, linker.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

#include "support/child.hpp"
#include "usdt/header.hpp"
#include "usdt/link.hpp"
#include "usdt/parse.hpp"

namespace vitrine::test {

inline std::string content(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

inline void put(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

/// A folder with the program "shop", which ends with it.
class DofProgram {
 public:
  explicit DofProgram(usdt::EnabledProtocol protocol, const std::string& flags = "-O2 -pie -fPIE",
                      bool long_nop = false) {
    build(protocol, flags, long_nop);
  }
  DofProgram(const DofProgram&) = delete;
  DofProgram& operator=(const DofProgram&) = delete;
  ~DofProgram() { std::filesystem::remove_all(folder_); }

  [[nodiscard]] std::string path() const { return folder_ + "/shop"; }

  /// Replaces bytes of the program wherever they are; they must be there.
  void replace(const std::string& from, const std::string& to) const {
    std::string bytes = content(path());
    std::size_t found = 0;
    for (std::size_t at = bytes.find(from); at != bytes.npos; at = bytes.find(from, at + 1)) {
      bytes.replace(at, to.size(), to);
      ++found;
    }
    EXPECT_GE(found, 2U);  // a site and a stub
    put(path(), bytes);
  }

  static void run(const std::string& command) {
    EXPECT_EQ(std::system(command.c_str()), 0) << command;
  }

 private:
  void build(usdt::EnabledProtocol protocol, const std::string& flags, bool long_nop) {
    char pattern[] = "/tmp/vitrine_dof.XXXXXX";
    folder_ = ::mkdtemp(pattern);
    const auto definition = usdt::parse(content(DOF_SUBJECT ".d"), "shop.d");
    ASSERT_TRUE(definition) << definition.error().message;
    const auto header =
        usdt::header_text(*definition, {.file_name = "shop.h", .enabled = protocol});
    ASSERT_TRUE(header) << header.error().message;
    put(folder_ + "/shop.h", *header);
    run("cc " + flags + " -I" + folder_ + " -c " DOF_SUBJECT ".c -o " + folder_ + "/shop.o");
    usdt::LinkOptions options;
    options.objects = {folder_ + "/shop.o"};
    options.output = folder_ + "/probes.o";
    options.enabled = protocol;
    options.long_nop = long_nop;
    options.sdt = false;  // else the notes beside the DOF would be read
    const auto linked = usdt::link(*definition, options);
    ASSERT_TRUE(linked) << linked.error().message;
    // The libraries among the flags come behind what wants them.
    run("cc -o " + path() + " " + folder_ + "/shop.o " + folder_ + "/probes.o " + flags);
  }

  std::string folder_;
};

inline Child start(const DofProgram& program) {
  Child child = Child::spawn({program.path()});
  EXPECT_EQ(child.read_line(), "ready");
  return child;
}

}  // namespace vitrine::test
