// Definitions while the target changes, and in targets that are not as usual: libraries come and
// go, several modules define the same variable, files are not where they were.
#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>

#include "observe/observer.hpp"

namespace vitrine::observe {
namespace {

namespace fs = std::filesystem;
using test::Writer;
using test::WriterSpec;
using testing::HasSubstr;

WriterSpec bare(const std::string& program, const std::string& needed = "") {
  return {program, program, needed, {}, ""};
}

class TemporaryDirectory {
 public:
  TemporaryDirectory() {
    std::string pattern = (fs::temp_directory_path() / "vitrine-XXXXXX").string();
    path_ = ::mkdtemp(pattern.data());
  }
  ~TemporaryDirectory() { fs::remove_all(path_); }
  TemporaryDirectory(const TemporaryDirectory&) = delete;
  TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;

  const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

class Change : public testing::TestWithParam<const char*> {
 protected:
  std::string program() const { return "writer_" + std::string(GetParam()) + "_plain"; }
};

TEST_P(Change, PicksUpLibrariesAndThreadsThatCome) {
  Writer writer = Writer::start_bare(bare(program()));
  Observer observer(writer);
  observer.expect_agreement();
  EXPECT_TRUE(observer.finder().all().empty());

  const std::string library = Writer::slot_library("tlsdesc-a8");
  writer.command("thread one");
  writer.command("open " + library);
  writer.command("publish one " + library);
  observer.expect_agreement();
  EXPECT_EQ(observer.finder().all().size(), 2U);
  EXPECT_EQ(observer.finder().all().front().module, library);

  writer.command("thread two");
  writer.command("publish two " + library);
  writer.command("end one");
  observer.expect_agreement();
}

TEST_P(Change, NamesALibraryThatWasOpenedByARelativePath) {
  Writer writer = Writer::start_bare(bare(program()));
  Observer observer(writer);
  const std::string library = Writer::slot_library("tlsdesc-a8");
  const std::string relative = "./" + fs::relative(library).string();
  writer.command("thread one");
  writer.command("open " + relative);
  writer.command("publish one " + relative);
  observer.expect_agreement();
  EXPECT_EQ(observer.finder().all().front().module, fs::canonical(library));
}

TEST_P(Change, CostsNothingWhenThereIsNone) {
  const Writer writer = Writer::start({"", program(), "", {}, "gd-a8"});
  Observer observer(writer);
  EXPECT_TRUE(*observer.finder().refresh(std::nullopt));
  for (int i = 0; i < 3; ++i) EXPECT_FALSE(*observer.finder().refresh(std::nullopt));
}

INSTANTIATE_TEST_SUITE_P(Libc, Change, testing::Values("glibc", "musl"),
                         [](const auto& row) { return std::string(row.param); });

// The thread's DTV still holds the block of the library that is gone, under the id that the new one
// has got; only its generation tells.
TEST(Reuse, OfModuleIdsDoesNotShowStaleBlocks) {
  Writer writer = Writer::start_bare(bare("writer_glibc_plain"));
  Observer observer(writer);
  const std::string first = Writer::slot_library("gd-a8");
  const std::string second = Writer::slot_library("gd-a16");
  writer.command("thread early");
  writer.command("open " + first);
  writer.command("publish early " + first);
  observer.expect_agreement();
  const auto id = [&] {
    return std::get<target::DynamicTls>(observer.finder().all().front().location).module_id;
  };
  const auto before = id();
  writer.command("close " + first);
  writer.command("open " + second);
  observer.expect_agreement();
  EXPECT_EQ(id(), before);
  writer.command("publish main " + second);
  observer.expect_agreement();
  writer.command("publish early " + second);
  observer.expect_agreement();
}

TEST(Reuse, OfTheSameLibraryAtTheSamePlaceIsNoticed) {
  Writer writer = Writer::start_bare(bare("writer_glibc_plain"));
  Observer observer(writer);
  const std::string library = Writer::slot_library("gd-a8");
  writer.command("thread early");
  writer.command("thread other");
  for (int i = 0; i < 3; ++i) {
    writer.command("open " + library);
    writer.command(i % 2 == 0 ? "publish early " + library : "publish other " + library);
    observer.expect_agreement();
    writer.command("close " + library);
    observer.expect_agreement();
  }
}

// The dynamic linker's list is caught in every state; what is found is found whole or not at all.
TEST(Unrest, OfLibrariesIsSurvived) {
  Writer writer = Writer::start_bare(bare("writer_glibc_plain"));
  Observer observer(writer);
  const std::string stays = Writer::slot_library("tlsdesc-a64");
  writer.command("local " + stays);
  writer.command("loop " + Writer::slot_library("gd-a8"));
  std::set<std::size_t> counts;
  for (int i = 0; i < 300; ++i) {
    const auto changed = observer.finder().refresh(std::nullopt);
    ASSERT_TRUE(changed) << changed.error().message;
    counts.insert(observer.finder().all().size());
    EXPECT_TRUE(observer.process().verify());
  }
  // The library that stays is always there; the other's two slots now and then.
  EXPECT_THAT(counts, testing::IsSubsetOf({2U, 3U, 4U}));
}

TEST(Unrest, OfThreadsIsSurvived) {
  for (const std::string libc : {"glibc", "musl"}) {
    SCOPED_TRACE(libc);
    Writer writer = Writer::start_bare(bare("writer_" + libc + "_plain"));
    Observer observer(writer);
    ASSERT_TRUE(observer.finder().refresh(std::nullopt));
    writer.command("storm threads");
    target::ThreadPointers pointers;
    for (int i = 0; i < 200; ++i) {
      const auto threads = target::threads(observer.process().proc_dir());
      ASSERT_TRUE(threads) << threads.error().message;
      const auto found =
          pointers.find(observer.process(), *threads, observer.finder().thread_layout());
      pointers.keep_only(*threads);
      for (std::size_t n = 0; n < threads->size(); ++n) {
        if ((*threads)[n].id.tid == writer.pid()) {
          ASSERT_EQ(found[n], writer.thread("main").tp);
        }
      }
    }
  }
}

// Loaded again without anyone having looked in between.
TEST(Reuse, OfTheSameLibraryUnseenDoesNotShowStaleBlocks) {
  Writer writer = Writer::start_bare(bare("writer_glibc_plain"));
  Observer observer(writer);
  const std::string library = Writer::slot_library("gd-a8");
  writer.command("thread early");
  writer.command("open " + library);
  writer.command("publish early " + library);
  observer.expect_agreement();
  writer.command("close " + library);
  writer.command("open " + library);
  observer.expect_agreement();
  writer.command("publish main " + library);
  observer.expect_agreement();
}

class Model : public testing::TestWithParam<const char*> {
 protected:
  std::string library() const { return Writer::slot_library(GetParam() + std::string("-a16")); }
};

// The executable exports the same symbols: the library's code uses the executable's variables.
TEST_P(Model, InterposedByTheExecutableLeadsToItsVariable) {
  Writer writer = Writer::start_bare(bare("writer_glibc_exe_pie_a8"));
  Observer observer(writer);
  writer.command("thread early");
  writer.command("open " + library());
  writer.command("publish main " + library());
  writer.command("publish early -");
  observer.expect_agreement();
  EXPECT_EQ(observer.finder().all().size(), 2U);
  EXPECT_EQ(observer.finder().all().front().module, Writer::path("writer_glibc_exe_pie_a8"));
}

TEST_P(Model, TwoLocalDefinitionsAreBothRead) {
  Writer writer = Writer::start_bare(bare("writer_glibc_plain"));
  Observer observer(writer);
  const std::string other = Writer::slot_library("tlsdesc-a8");
  writer.command("thread early");
  writer.command("local " + other);
  writer.command("local " + library());
  for (const std::string& path : {other, library()}) {
    writer.command("publish main " + path);
    writer.command("publish early " + path);
  }
  EXPECT_EQ(writer.slots().size(), 8U);
  observer.expect_agreement();
  EXPECT_EQ(observer.finder().all().size(), 4U);
}

TEST_P(Model, WithOneDefinitionInTheExecutableAndOneBoundSymbolically) {
  Writer writer = Writer::start_bare(bare("writer_glibc_exe_pie_a8"));
  Observer observer(writer);
  const std::string symbolic = Writer::slot_library("gd-symbolic");
  writer.command("open " + symbolic);
  writer.command("open " + library());
  writer.command("publish main " + symbolic);
  writer.command("publish main " + library());
  EXPECT_EQ(writer.slots().size(), 4U);
  observer.expect_agreement();
}

INSTANTIATE_TEST_SUITE_P(Access, Model, testing::Values("tlsdesc", "gd", "ie"),
                         [](const auto& row) { return std::string(row.param); });

TEST(Namespaces, OfTheDynamicLinkerAreAllSearched) {
  Writer writer = Writer::start_bare(bare("writer_glibc_plain"));
  Observer observer(writer);
  const std::string outer = Writer::slot_library("tlsdesc-a8");
  const std::string inner = Writer::slot_library("tlsdesc-a64");
  writer.command("thread early");
  writer.command("open " + outer);
  writer.command("namespace " + inner);
  for (const std::string& path : {outer, inner}) {
    writer.command("publish main " + path);
    writer.command("publish early " + path);
  }
  observer.expect_agreement();
  EXPECT_EQ(observer.finder().all().size(), 4U);
}

// In another pid namespace the target's libc knows its threads by other ids than we do.
TEST(Namespaces, OfPidsDoNotHideThreadPointers) {
  for (const std::string libc : {"glibc", "musl"}) {
    SCOPED_TRACE(libc);
    Writer writer = Writer::start_bare(bare("writer_" + libc + "_plain"),
                                       {"unshare", "--pid", "--fork", "--kill-child"});
    writer.command("thread one");
    writer.command("thread two");
    const std::string unshare = std::to_string(writer.pid());
    pid_t pid = 0;
    std::ifstream("/proc/" + unshare + "/task/" + unshare + "/children") >> pid;
    ASSERT_NE(pid, 0);
    Observer observer(writer, pid);
    ASSERT_TRUE(observer.finder().refresh(std::nullopt));
    const auto threads = *target::threads(observer.process().proc_dir());
    target::ThreadPointers pointers;
    std::set<Address> found, expected;
    for (const auto& tp :
         pointers.find(observer.process(), threads, observer.finder().thread_layout()))
      found.insert(tp.value_or(0));
    for (const auto& thread : writer.threads()) expected.insert(thread.tp);
    EXPECT_EQ(found, expected);
    EXPECT_EQ(writer.thread("main").tid, 1);
  }
}

TEST(Files, MayBeDeletedOrReplaced) {
  const TemporaryDirectory directory;
  const fs::path library = directory.path() / "libcustomlabels_moved.so";
  const fs::path program = directory.path() / "writer";
  fs::copy(Writer::slot_library("gd-a64"), library);
  fs::copy(Writer::path("writer_glibc_exe_static_a64"), program);

  Writer dynamic = Writer::start_bare(bare("writer_glibc_plain"));
  dynamic.command("open " + library.string());
  dynamic.command("publish main " + library.string());
  Writer fixed = Writer::start_bare({"", fs::relative(program, Writer::path("")), "", {}, ""});
  fixed.command("publish main -");

  fs::remove(library);
  std::ofstream(library) << "not an ELF file any more";
  fs::remove(program);
  std::ofstream(program) << "nor is this";
  Observer(dynamic).expect_agreement();
  Observer(fixed).expect_agreement();
}

// Everything below another root: none of the paths that the target names exist for the reader.
TEST(Files, MayBeInAnotherRootDirectory) {
  const TemporaryDirectory root;
  const auto put = [&](const fs::path& from, const fs::path& to) {
    fs::create_directories((root.path() / to).parent_path());
    fs::copy(fs::canonical(from), root.path() / to);
  };
  put("/lib64/ld-linux-x86-64.so.2", "lib64/ld-linux-x86-64.so.2");
  put("/lib/x86_64-linux-gnu/libc.so.6", "lib/libc.so.6");
  put(Writer::slot_library("ie-a64"), "lib/libcustomlabels_slot.so");
  const fs::path program = Writer::path("writer_glibc_needed");
  put(program, program.relative_path());
  Writer writer = Writer::start_bare(
      bare("writer_glibc_needed"),
      {"unshare", "--mount", "env", "LD_LIBRARY_PATH=/lib", "chroot", root.path().string()});
  writer.command("thread one");
  writer.command("publish one -");
  writer.command("publish main -");
  Observer(writer).expect_agreement();
}

// The dynamic linker, called as a command, is what the kernel knows as the executable.
TEST(DynamicLinker, MayBeCalledAsACommand) {
  for (const auto& [linker, libc] :
       {std::pair("/lib64/ld-linux-x86-64.so.2", "glibc"), {"/lib/ld-musl-x86_64.so.1", "musl"}}) {
    SCOPED_TRACE(linker);
    Writer writer =
        Writer::start_bare(bare("writer_" + std::string(libc) + "_exe_pie_a64"), {linker});
    writer.command("thread one");
    writer.command("publish one -");
    writer.command("publish main -");
    Observer(writer).expect_agreement();
  }
}

TEST(Refused, IsAnotherVersionOfTheAbi) {
  Writer writer = Writer::start_bare(bare("writer_glibc_plain"));
  writer.command("open " + Writer::slot_library("version-7"));
  Observer observer(writer);
  ASSERT_TRUE(observer.finder().refresh(std::nullopt));
  EXPECT_TRUE(observer.finder().all().empty());
  const Error none = observer.finder().why_none();
  EXPECT_EQ(none.code, ErrorCode::failed);
  EXPECT_THAT(none.message, HasSubstr("custom_labels_abi_version is 7 and not 1"));
  EXPECT_THAT(none.message, HasSubstr("version-7/libcustomlabels_slot.so"));

  const std::string good = Writer::slot_library("tlsdesc-a8");
  writer.command("local " + good);  // only the object with the wrong version is refused
  ASSERT_TRUE(observer.finder().refresh(std::nullopt));
  EXPECT_EQ(observer.finder().all().size(), 2U);
}

TEST(Refused, IsADraftThatNothingTellsTheLayoutOf) {
  Writer writer = Writer::start_bare(bare("writer_glibc_plain"));
  writer.command("open " + Writer::slot_library("draft_b"));
  Observer observer(writer);
  ASSERT_TRUE(observer.finder().refresh(std::nullopt));
  EXPECT_TRUE(observer.finder().all().empty());
  EXPECT_THAT(observer.finder().why_none().message, HasSubstr("exists in two layouts"));
  format::ThreadSchema schema;
  schema.format = format::Format::v2_draft_b;
  EXPECT_TRUE(*observer.finder().refresh(schema));
  ASSERT_EQ(observer.finder().all().size(), 1U);
  EXPECT_EQ(observer.finder().all().front().format, format::Format::v2_draft_b);
}

TEST(Nothing, IsExplained) {
  const Writer plain = Writer::start_bare(bare("writer_glibc_plain"));
  Observer observer(plain);
  ASSERT_TRUE(observer.finder().refresh(std::nullopt));
  const Error none = observer.finder().why_none();
  EXPECT_THAT(none.message, HasSubstr("custom_labels_current_set"));
  EXPECT_THAT(none.message, HasSubstr("otel_thread_ctx_v1"));
  EXPECT_THAT(none.remedy, HasSubstr("not have loaded its label library yet"));

  const Writer stripped = Writer::start_bare(bare("writer_glibc_exe_stripped"));
  Observer other(stripped);
  ASSERT_TRUE(other.finder().refresh(std::nullopt));
  EXPECT_TRUE(other.finder().all().empty());
  EXPECT_THAT(other.finder().why_none().remedy, HasSubstr("static and stripped"));
}

}  // namespace
}  // namespace vitrine::observe
