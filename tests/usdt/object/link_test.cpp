// The whole step on files.
#include "usdt/link.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <set>

#include "dof/reader.hpp"
#include "usdt/object/workshop.hpp"

namespace vitrine::usdt {
namespace {

using test::bytes_of;
using test::Workshop;
using testing::HasSubstr;

std::string program() {
  return std::string(test::shop_header) + test::shop_program;
}

class Link : public testing::Test {
 protected:
  Result<LinkReport> link(std::vector<std::string> objects, LinkOptions options = {}) {
    options.objects = std::move(objects);
    if (options.output.empty()) options.output = output_;
    return usdt::link(test::shop(), options);
  }

  std::string another(const std::string& name) {
    return shop_.compile(name, std::string(test::shop_header) + "void " + name +
                                   "(void) { __dtrace_shop___done(); __asm__ volatile(\"\"); }");
  }

  Workshop shop_;
  std::string output_ = shop_.path("probes.o");
};

TEST_F(Link, ProgramsRunAsTheyDid) {
  const auto object = shop_.compile("a", program());
  const auto report = link({object});
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_EQ(report->sites, 3U);
  EXPECT_EQ(report->enabled_sites, 2U);
  EXPECT_THAT(report->rewritten, testing::ElementsAre(object));
  for (const char* linker : {"bfd", "gold", "lld", "mold"}) {
    const auto file = shop_.path(linker);
    const auto linked = test::shell("gcc -pie -fuse-ld=" + std::string(linker) + " -o " + file +
                                    " " + object + " " + output_);
    ASSERT_EQ(linked.status, 0) << linked.err;
    EXPECT_EQ(linked.err, "") << linker;
    const auto ran = test::run({file});
    EXPECT_EQ(ran.status, 0);
    EXPECT_EQ(ran.out, "2\n");
  }
}

/// Two outputs in one program, each with all stubs, counters and a DOF of its own.
TEST_F(Link, SeveralOutputsGoTogether) {
  const auto a = shop_.compile("a", program()), b = another("b");
  ASSERT_TRUE(link({a}));
  LinkOptions second;
  second.output = shop_.path("second.o");
  ASSERT_TRUE(link({b}, second));
  for (const char* linker : {"bfd", "gold", "lld", "mold"}) {
    const auto file = shop_.path(linker);
    const auto linked = test::shell("gcc -pie -fuse-ld=" + std::string(linker) + " -o " + file +
                                    " " + a + " " + b + " " + output_ + " " + second.output +
                                    " && objcopy --dump-section .SUNW_dof=" + file + ".dof " +
                                    file + " " + file + ".copy");
    ASSERT_EQ(linked.status, 0) << linked.err;
    EXPECT_EQ(linked.err, "") << linker;
    EXPECT_EQ(test::run({file}).out, "2\n");
    const auto read = dof::read(bytes_of(file + ".dof"));
    EXPECT_EQ(read.objects.size(), 2U) << linker;
    EXPECT_TRUE(read.problems.empty());
  }
}

TEST_F(Link, EveryDeclaredProbeHasAStubAndACounter) {
  LinkOptions none;
  none.without_objects = find_machine(native_machine);
  const auto report = link({}, none);
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_EQ(report->sites, 0U);
  const auto said = test::shell("LC_ALL=C readelf -sW " + output_).out;
  for (const char* name : {"__dtrace_shop___order__start", "__dtraceenabled_shop___order__start",
                           "__dtracesemaphore_shop___order__start", "__dtrace_shop___done",
                           "__dtraceenabled_shop___done", "__dtracesemaphore_shop___done"})
    EXPECT_THAT(said, testing::ContainsRegex(std::string("WEAK +HIDDEN +[0-9]+ ") + name));
}

/// What perl's makefile relies on: it then makes an empty object in place of this one.
TEST_F(Link, ObjectsOfWhichNoneCallsAProbeAreAnError) {
  const auto object = shop_.compile("a", "int main(void) { return 0; }");
  const auto report = link({object});
  ASSERT_FALSE(report);
  EXPECT_THAT(report.error().message, HasSubstr("none of the objects calls a declared probe"));
  EXPECT_FALSE(std::filesystem::exists(output_));
  EXPECT_TRUE(link({object, another("b")}));
}

/// Who called a stub is in its call frame information, frame pointer or not.
TEST_F(Link, DebuggersUnwindStubs) {
  const auto object =
      shop_.compile("a",
                    std::string(test::shop_header) +
                        "void (*volatile address)(void) = __dtrace_shop___done;\n"
                        "__attribute__((noinline)) int deep(int x) {\n"
                        "  volatile int kept[9]; kept[1] = x; address();\n"
                        "  return kept[1];\n}\n"
                        "int main(int n, char **v) { (void)v; return deep(n) - 1; }",
                    "gcc -O2 -fPIE -fomit-frame-pointer");
  ASSERT_TRUE(link({object}));
  for (const char* linker : {"bfd", "gold", "lld", "mold"}) {
    const auto file = shop_.path(linker);
    const auto linked = test::shell("gcc -pie -fuse-ld=" + std::string(linker) + " -o " + file +
                                    " " + object + " " + output_);
    ASSERT_EQ(linked.status, 0) << linked.err;
    const auto said = test::shell(
        "gdb -q -nx -batch -ex 'break *__dtrace_shop___done' -ex run "
        "-ex stepi -ex bt " +
        file);
    EXPECT_THAT(said.out, testing::ContainsRegex("#1 .* in deep"));
    EXPECT_THAT(said.out, testing::ContainsRegex("#2 .* in main"));
  }
}

TEST_F(Link, StrictWantsEachProbeUsed) {
  const auto a = shop_.compile("a", program()), b = another("b");
  LinkOptions strict;
  strict.strict = true;
  EXPECT_TRUE(link({a}, strict));
  const auto before = bytes_of(b);
  const auto done = link({b}, strict);
  ASSERT_FALSE(done);
  EXPECT_THAT(done.error().message, HasSubstr("shop:order-start"));
  EXPECT_EQ(bytes_of(b), before);
}

TEST_F(Link, KeepsModeAndFollowsLinks) {
  const auto object = shop_.compile("a", program());
  ASSERT_EQ(::chmod(object.c_str(), 0640), 0);
  const auto alias = shop_.path("link.o");
  std::filesystem::create_symlink(object, alias);
  const auto report = link({alias, object});  // once, though given twice
  ASSERT_TRUE(report);
  EXPECT_EQ(report->rewritten.size(), 1U);
  EXPECT_TRUE(std::filesystem::is_symlink(alias));
  struct stat status {};
  ASSERT_EQ(::stat(object.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 07777, 0640U);
}

/// One bad object costs the run, not the good ones.
TEST_F(Link, AllOrNothing) {
  const auto a = shop_.compile("a", program());
  const auto before = bytes_of(a);
  const auto names = [&] {
    std::set<std::string> all;
    for (const auto& entry : std::filesystem::directory_iterator(shop_.path("")))
      all.insert(entry.path().filename());
    return all;
  };
  const auto bad = shop_.path("bad.o");
  std::ofstream(bad) << "\177ELF and nothing more";
  const auto all = names();
  std::filesystem::create_directory(shop_.path("folder.o"));
  ASSERT_EQ(::mkfifo(shop_.path("pipe.o").c_str(), 0600), 0);
  for (const std::string& other :
       {bad, shop_.path("folder.o"), shop_.path("pipe.o"), shop_.path("none.o"), output_}) {
    const auto done = link({a, other});
    ASSERT_FALSE(done) << other;
    EXPECT_THAT(done.error().message, HasSubstr(other));
    EXPECT_EQ(bytes_of(a), before);
    EXPECT_FALSE(std::filesystem::exists(output_));
  }
  std::filesystem::remove(shop_.path("folder.o"));
  std::filesystem::remove(shop_.path("pipe.o"));
  EXPECT_EQ(names(), all);  // no temporary file is left
  LinkOptions nowhere;
  nowhere.output = shop_.path("no/such/folder.o");
  EXPECT_FALSE(link({a}, nowhere));
  nowhere.output = shop_.path("");
  EXPECT_FALSE(link({a}, nowhere));
  EXPECT_EQ(bytes_of(a), before);
  EXPECT_EQ(names(), all);
}

/// Steps of several providers over the same objects, at once, in several orders, and under the names of
/// hard links: none takes back what another one did.
TEST_F(Link, StepsAtOnceKeepEachOthersWork) {
  constexpr int steps = 6, rounds = 10;
  const auto provider = [](int i) { return "p" + std::to_string(i); };
  const auto definition = [&](int i) {
    Probe fire;
    fire.name = "fire";
    Provider one;
    one.name = provider(i);
    one.probes = {fire};
    Definition all;
    all.providers = {one};
    return all;
  };
  std::string calls;
  for (int i = 0; i < steps; ++i) {
    const auto call = "__dtrace_" + provider(i) + "___fire";
    calls += "extern void " + call + "(void) __attribute__((visibility(\"hidden\")));\n" +
             "void f" + std::to_string(i) + "(void) { " + call + "(); __asm__ volatile(\"\"); }\n";
  }
  const auto original = shop_.compile("original", calls);
  const std::vector<std::string> names = {shop_.path("a.o"), shop_.path("b.o"), shop_.path("c.o")};
  const auto step = [&](int i) {
    LinkOptions options;
    options.objects = names;
    std::ranges::rotate(options.objects, options.objects.begin() + i % 3);
    options.output = shop_.path("out" + std::to_string(i) + ".o");
    return usdt::link(definition(i), options);
  };
  for (int round = 0; round < rounds; ++round) {
    for (const auto& name : names) std::filesystem::remove(name);
    std::filesystem::copy_file(original, names[0]);
    std::filesystem::copy_file(original, names[1]);
    std::filesystem::create_hard_link(names[0], names[2]);
    std::vector<pid_t> children;
    for (int i = 0; i < steps; ++i) {
      children.push_back(::fork());
      if (children.back() == 0) ::_exit(step(i) ? 0 : 1);
    }
    for (const pid_t child : children) {
      int status = -1;
      ASSERT_EQ(::waitpid(child, &status, 0), child);
      EXPECT_EQ(status, 0);
    }
    for (int i = 0; i < steps; ++i) {
      const auto again = step(i);
      ASSERT_TRUE(again) << again.error().message;
      EXPECT_EQ(again->sites, names.size()) << provider(i);
      EXPECT_THAT(again->rewritten, testing::IsEmpty()) << provider(i) << ", round " << round;
    }
  }
}

/// Whether /proc/locks lists a process that waits for a lock of this file.
bool is_awaited(const std::string& path) {
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0) return false;
  const auto inode = ":" + std::to_string(status.st_ino) + " ";
  std::ifstream locks("/proc/locks");
  for (std::string line; std::getline(locks, line);)
    if (line.find("->") != std::string::npos && line.find(inode) != std::string::npos) return true;
  return false;
}

TEST_F(Link, AStepWaitsForWhoHoldsAnObject) {
  const auto object = shop_.compile("a", program());
  const auto before = bytes_of(object);
  FileDescriptor held(::open(object.c_str(), O_RDWR | O_CLOEXEC));
  struct flock whole {};
  whole.l_type = F_WRLCK;
  ASSERT_EQ(::fcntl(held.get(), F_OFD_SETLK, &whole), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    static_cast<void>(held.close());
    ::_exit(link({object}) ? 0 : 1);
  }
  int status = -1;
  while (!is_awaited(object)) ASSERT_EQ(::waitpid(child, &status, WNOHANG), 0) << "it did not wait";
  EXPECT_EQ(bytes_of(object), before);
  const auto replacement = shop_.compile("replacement", "int main(void) { return 0; }");
  std::filesystem::rename(replacement, object);  // the child must see this one
  ASSERT_TRUE(held.close());
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 1) << "none calls a probe";
}

/// An object that this user cannot write to, in a folder where nothing can be made, is read.
TEST_F(Link, ObjectsThatNeedNoChangeMayBeReadOnly) {
  const auto object = shop_.compile("a", program());
  ASSERT_TRUE(link({object}));
  const auto folder = shop_.path("fixed");
  std::filesystem::create_directory(folder);
  std::filesystem::copy_file(object, folder + "/a.o");
  const pid_t child = ::fork();
  if (child == 0) {
    if (::unshare(CLONE_NEWNS) != 0 || ::mount("", "/", "", MS_REC | MS_PRIVATE, "") != 0 ||
        ::mount(folder.c_str(), folder.c_str(), "", MS_BIND, "") != 0 ||
        ::mount("", folder.c_str(), "", MS_BIND | MS_REMOUNT | MS_RDONLY, "") != 0)
      ::_exit(2);
    const auto done = link({folder + "/a.o"});
    ::_exit(done && done->sites == 3 && done->rewritten.empty() ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

TEST_F(Link, MachinesDoNotMix) {
  const auto a = shop_.compile("a", program());
  const auto b = shop_.compile("b", "int b;", "aarch64-linux-gnu-gcc");
  const auto before = bytes_of(a);
  const auto done = link({a, b});
  ASSERT_FALSE(done);
  EXPECT_THAT(done.error().message, HasSubstr("aarch64"));
  EXPECT_THAT(done.error().message, HasSubstr("x86-64"));
  EXPECT_EQ(bytes_of(a), before);
}

TEST_F(Link, ProtocolsDoNotMix) {
  const auto a = shop_.compile("a", program());
  ASSERT_TRUE(link({a}));
  const auto before = bytes_of(a);
  LinkOptions pointer;
  pointer.enabled = EnabledProtocol::pointer;
  const auto done = link({a}, pointer);
  ASSERT_FALSE(done);
  EXPECT_THAT(done.error().message, HasSubstr("another protocol"));
  EXPECT_EQ(bytes_of(a), before);
}

/// A disk too small for the rewritten objects, and one too small for the output alone.
TEST_F(Link, FullDisk) {
  const auto object = shop_.compile("a", program()), copy = shop_.path("copy.o");
  std::filesystem::copy_file(object, copy);
  ASSERT_TRUE(link({copy}));
  const auto pages = [](const std::string& file) {
    return (std::filesystem::file_size(file) + 4095) / 4096 * 4096;
  };
  const auto room = pages(object) + pages(copy);
  const auto folder = shop_.path("disk");
  std::filesystem::create_directory(folder);
  const pid_t child = ::fork();
  if (child == 0) {
    const auto check = [](bool holds, int code) {
      if (!holds) ::_exit(code);
    };
    check(::unshare(::geteuid() == 0 ? CLONE_NEWNS : CLONE_NEWNS | CLONE_NEWUSER) == 0, 10);
    check(::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0, 11);
    // The probe object takes a few pages: its semaphores begin one.
    for (const auto size : {room - 4096, room, room + 4 * 4096}) {
      check(::mount("none", folder.c_str(), "tmpfs", 0, fmt::format("size={}", size).c_str()) == 0,
            12);
      const auto on_it = folder + "/a.o";
      check(std::filesystem::copy_file(object, on_it), 13);
      const auto before = bytes_of(on_it);
      LinkOptions options;
      options.output = folder + "/probes.o";
      const auto done = link({on_it}, options);
      check(done.has_value() == (size > room), 14);
      if (done) break;
      check(done.error().message.find("No space left") != std::string::npos, 15);
      check(bytes_of(on_it) == before, 16);
      check(!std::filesystem::exists(options.output), 17);
      std::size_t files = 0;
      for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator(folder))
        ++files;
      check(files == 1, 18);
      check(::umount(folder.c_str()) == 0, 19);
    }
    ::_exit(0);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

}  // namespace
}  // namespace vitrine::usdt
