// The probes of live processes: all that they execute, whatever became of its name.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "observe/probe_listing.hpp"
#include "observe/probes/functions.hpp"
#include "observe/probes/probes.hpp"
#include "observe/ps.hpp"

namespace vitrine::observe {
namespace {

using namespace vitrine::test;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

Child started(std::vector<std::string> command) {
  Child child = Child::spawn(std::move(command));
  child.read_until("ready");
  return child;
}

ProcessProbes probes_of(const Child& child) {
  auto found = ProbeFiles({.functions = true}).of_process(child.pid());
  EXPECT_TRUE(found) << found.error().message;
  return found ? std::move(*found) : ProcessProbes{};
}

std::vector<ProbeModule> modules_named(const ProcessProbes& found, const std::string& part) {
  std::vector<ProbeModule> modules;
  for (const ProbeModule& module : found.modules)
    if (module.file->path.find(part) != std::string::npos) modules.push_back(module);
  return modules;
}

/// The file's bytes at each site are those that the process has at its runtime address, and the
/// file that is attached to has them.
void expect_same_bytes(const Child& child, const ProbeModule& module) {
  const int memory = ::open(fmt::format("/proc/{}/mem", child.pid()).c_str(), O_RDONLY | O_CLOEXEC);
  const int file = ::open(fmt::format("/proc/self/fd/{}", module.file->file->original()).c_str(),
                          O_RDONLY | O_CLOEXEC);
  ASSERT_TRUE(memory >= 0 && file >= 0);
  std::size_t compared = 0;
  for (const probe::Probe& probe : module.file->probes)
    for (const probe::Site& site : probe.sites) {
      char in_memory[32], in_file[32];
      ASSERT_TRUE(site.file_offset);
      ASSERT_EQ(::pread(memory, in_memory, 32, static_cast<off_t>(site.address + module.bias)), 32);
      ASSERT_EQ(::pread(file, in_file, 32, static_cast<off_t>(*site.file_offset)), 32);
      EXPECT_EQ(std::string(in_memory, 32), std::string(in_file, 32)) << probe.name;
      ++compared;
    }
  EXPECT_GT(compared, 0U);
  ::close(memory);
  ::close(file);
}

/// The listing of the file itself.
Listing listing_of_file(const std::string& path) {
  const auto file = ProbeFiles().open(path);
  EXPECT_TRUE(file);
  return file ? listing(**file) : Listing{};
}

void expect_subject(const Child& child, const ProcessProbes& found, const std::string& part,
                    const char* original = PROBE_SUBJECT) {
  const auto modules = modules_named(found, part);
  ASSERT_THAT(modules, SizeIs(1)) << part;
  EXPECT_EQ(listing(*modules[0].file), listing_of_file(original));
  expect_same_bytes(child, modules[0]);
}

TEST(ProcessProbes, AreThoseOfItsFilesPlusTheBias) {
  const Child child = started({PROBE_SUBJECT});
  const ProcessProbes found = probes_of(child);
  EXPECT_THAT(found.problems, IsEmpty());
  expect_subject(child, found, "probe_subject");
}

TEST(ProcessProbes, OfALibraryThatWasLoadedLater) {
  const Child child = started({PROBE_SUBJECT_DLOPEN, PROBE_SUBJECT_LIBRARY});
  const ProcessProbes found = probes_of(child);
  expect_subject(child, found, "probe_subject_library", PROBE_SUBJECT_LIBRARY);
  expect_subject(child, found, "probe_subject_dlopen", PROBE_SUBJECT_DLOPEN);
}

class Copied : public testing::Test {
 protected:
  Copied() {
    char name[] = "/tmp/vitrine-probes-XXXXXX";
    directory_ = ::mkdtemp(name);
    program_ = directory_ + "/copied program";
    std::filesystem::copy_file(PROBE_SUBJECT, program_);
  }
  ~Copied() override { std::filesystem::remove_all(directory_); }
  std::string directory_, program_;
};

TEST_F(Copied, DeletedFilesAreStillRead) {
  const Child child = started({program_});
  ASSERT_TRUE(std::filesystem::remove(program_));
  expect_subject(child, probes_of(child), "copied program");
}

/// Whether a pattern selects functions of the files of a process.
bool selects(const Child& child, const std::string& pattern) {
  const auto wanted = function_patterns(std::vector<std::string>{pattern});
  EXPECT_TRUE(wanted);
  ProbeFiles files({false, *wanted});
  const auto found = files.of_process(child.pid());
  EXPECT_TRUE(found);
  return found && std::ranges::any_of(found->modules, [](const ProbeModule& module) {
           return std::ranges::any_of(module.file->probes, [](const probe::Probe& one) {
             return one.kind == probe::Kind::function;
           });
         });
}

TEST_F(Copied, FunctionsOfDeletedAndReplacedFilesAreFoundByTheirNames) {
  const Child child = started({program_});
  const std::vector<std::string> patterns{"func:copied program:main", "func:" + program_ + ":main",
                                          "func:copied*m:main", "func:" + directory_ + "/*m:main"};
  for (const std::string& pattern : patterns) EXPECT_TRUE(selects(child, pattern)) << pattern;
  ASSERT_TRUE(std::filesystem::remove(program_));
  for (const std::string& pattern : patterns) EXPECT_TRUE(selects(child, pattern)) << pattern;
  std::filesystem::copy_file(PROBE_SUBJECT_DLOPEN, program_);
  for (const std::string& pattern : patterns) EXPECT_TRUE(selects(child, pattern)) << pattern;
  EXPECT_FALSE(selects(child, "func:copied program (deleted):main"));
}

TEST_F(Copied, FunctionsOfAFileThatIsCalledLikeADeletedOneAreFoundByThatName) {
  const std::string odd = directory_ + "/odd (deleted)";
  std::filesystem::rename(program_, odd);
  const Child child = started({odd});
  EXPECT_TRUE(selects(child, "func:odd (deleted):main"));
  EXPECT_FALSE(selects(child, "func:odd:main"));
  ASSERT_TRUE(std::filesystem::remove(odd));
  EXPECT_TRUE(selects(child, "func:odd (deleted):main"));
}

TEST_F(Copied, FunctionsOfADeletedFileThatHasAnotherNameAreFound) {
  const Child child = started({program_});
  std::filesystem::create_hard_link(program_, directory_ + "/other");
  ASSERT_TRUE(std::filesystem::remove(program_));
  EXPECT_TRUE(selects(child, "func:copied program:main"));
}

TEST_F(Copied, AnotherFileOfTheSameNameIsNotMistakenForIt) {
  const Child child = started({program_});
  ASSERT_TRUE(std::filesystem::remove(program_));
  std::filesystem::copy_file(PROBE_SUBJECT_DLOPEN, program_);
  const auto modules = modules_named(probes_of(child), "copied program");
  ASSERT_THAT(modules, SizeIs(1));
  EXPECT_EQ(modules[0].file->build_id, (*ProbeFiles().open(PROBE_SUBJECT))->build_id);
  expect_same_bytes(child, modules[0]);
}

TEST_F(Copied, FilesOfAnotherMountNamespaceAreReached) {
  const std::string script = "mount -t tmpfs none " + directory_ + " && cp " PROBE_SUBJECT " " +
                             directory_ + "/inside && exec " + directory_ + "/inside";
  const Child child = started({"unshare", "-m", "sh", "-c", script});
  ASSERT_FALSE(std::filesystem::exists(directory_ + "/inside"));
  expect_subject(child, probes_of(child), "/inside");
}

TEST_F(Copied, NewlinesAndEscapesInPathsAreTakenAsTheyAre) {
  const std::string odd = directory_ + "/two\nlines \\012 \x1b[31m";
  std::filesystem::rename(program_, odd);
  const Child child = started({odd});
  const auto modules = modules_named(probes_of(child), "lines");
  ASSERT_THAT(modules, SizeIs(1));
  expect_same_bytes(child, modules[0]);
}

TEST(ProcessProbes, OfA32BitProgram) {
  const Child child = started({PROBE_SUBJECT_32});
  const ProcessProbes found = probes_of(child);
  expect_subject(child, found, "probe_subject_32", PROBE_SUBJECT_32);
}

TEST(ProcessProbes, OfAFileReadOnceAreKeptForItsOtherProcesses) {
  const Child first = started({PROBE_SUBJECT});
  const Child second = started({PROBE_SUBJECT});
  ProbeFiles files;
  const auto one = files.of_process(first.pid());
  const auto two = files.of_process(second.pid());
  ASSERT_TRUE(one && two);
  const auto a = modules_named(*one, "probe_subject"), b = modules_named(*two, "probe_subject");
  ASSERT_TRUE(a.size() == 1 && b.size() == 1);
  EXPECT_EQ(a[0].file, b[0].file);
}

TEST(ProcessProbes, AreCountedByPs) {
  const Child child = started({PROBE_SUBJECT});
  const auto count = [&](const ListOptions& options) -> std::size_t {
    const auto list = list_publishers(options);
    EXPECT_TRUE(list);
    for (const Publisher& publisher : list->publishers)
      if (publisher.pid == child.pid()) return publisher.probes;
    return 0;
  };
  ListOptions with_probes;
  with_probes.with_probes = true;
  EXPECT_EQ(count(with_probes), 3U);
  EXPECT_EQ(count({}), 0U) << "probes alone are not listed unless asked for";
}

/// What the listing says when it runs with the rights of another user.
TEST(ProcessProbes, OfAnotherUserNeedACapability) {
  const Child child = started({PROBE_SUBJECT});
  ChildOptions nobody;
  nobody.uid = 65534;
  const Outcome outcome = run({VITRINE, "probes", std::to_string(child.pid())}, nobody);
  EXPECT_EQ(outcome.status, 3);
  EXPECT_THAT(outcome.err, HasSubstr("CAP_SYS_PTRACE"));
}

/// Without CAP_SYS_ADMIN there is no map_files: the executable and paths serve.
TEST(ProcessProbes, OfOnesOwnProcessNeedNoCapability) {
  ChildOptions nobody;
  nobody.uid = 65534;
  Child child = Child::spawn({PROBE_SUBJECT_DLOPEN, PROBE_SUBJECT_LIBRARY}, nobody);
  child.read_until("ready");
  const Outcome outcome = run({VITRINE, "probes", std::to_string(child.pid())}, nobody);
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("probe_subject_library"));
  EXPECT_THAT(outcome.out, HasSubstr("probe_subject_dlopen"));
  EXPECT_EQ(outcome.err, "");
}

TEST(ProcessProbes, OfNoProcessAreAnError) {
  EXPECT_EQ(ProbeFiles().of_process(4194300).error().code, ErrorCode::not_found);
  const auto of_kernel_thread = ProbeFiles().of_process(2);
  ASSERT_FALSE(of_kernel_thread);
  EXPECT_EQ(of_kernel_thread.error().code, ErrorCode::not_found);
  EXPECT_THAT(of_kernel_thread.error().message, HasSubstr("it is a kernel thread"));
  EXPECT_EQ(ProbeFiles().of_process(0).error().code, ErrorCode::not_found);
}

}  // namespace
}  // namespace vitrine::observe
