// `vitrine usdt dump` as a user meets it, on a DOF written by hand (tests/probe/dof_file.S).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "support/child.hpp"

namespace vitrine::test {
namespace {

using testing::HasSubstr;

class UsdtDump : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = "/tmp/vitrine-dump-XXXXXX";
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::string build(const std::vector<std::string>& options) {
    const std::string path = folder_ + "/file";
    std::vector<std::string> command{"gcc", "-nostdlib", "-o", path, DOF_SUBJECT};
    command.insert(command.end(), options.begin(), options.end());
    const Outcome outcome = run(command);
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    return path;
  }

  static Outcome dump(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), {VITRINE, "usdt", "dump"});
    return run(std::move(arguments));
  }

  static nlohmann::json only_object(const std::string& path) {
    const Outcome outcome = dump({"--json", path});
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    return nlohmann::json::parse(outcome.out);
  }

  /// The address that nm gives a symbol.
  static std::string address_of(const std::string& symbol, const std::string& path) {
    const Outcome outcome = run({"nm", path});
    std::istringstream lines(outcome.out);
    for (std::string address, kind, name; lines >> address >> kind >> name;)
      if (name == symbol) {
        address.erase(0, address.find_first_not_of('0'));
        return "0x" + address;
      }
    ADD_FAILURE() << "no " << symbol;
    return {};
  }

  std::string folder_;
};

TEST_F(UsdtDump, ShowsProvidersProbesAndSites) {
  const std::string path = build({"-pie"});
  const Outcome outcome = dump({path});
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_EQ(outcome.err, "");
  EXPECT_THAT(outcome.out, HasSubstr("needs no dynamic relocations"));
  EXPECT_THAT(outcome.out, HasSubstr("provider shop  Private/Private/Unknown"));
  EXPECT_THAT(outcome.out, HasSubstr("tick(int)"));
  EXPECT_THAT(outcome.out, HasSubstr(address_of("serve_site", path) + "  serve+0x"));
}

TEST_F(UsdtDump, GivesOneObjectADof) {
  const std::string path = build({"-pie"});
  const auto object = only_object(path);
  EXPECT_EQ(object.at("file"), path);
  EXPECT_EQ(object.at("model"), "lp64");
  EXPECT_EQ(object.at("version"), 1);
  EXPECT_EQ(object.at("dynamic_relocations"), 0);
  const auto& record = object.at("providers").at(0).at("records").at(0);
  EXPECT_EQ(record.at("probe"), "tick");
  EXPECT_EQ(record.at("relocation"), "dofrel");
  EXPECT_EQ(record.at("types"), nlohmann::json({"int"}));
  EXPECT_EQ(record.at("sites"), nlohmann::json({address_of("serve_site", path)}));
  EXPECT_EQ(record.at("address"), address_of("serve", path));
}

TEST_F(UsdtDump, CountsDynamicRelocations) {
  const std::string path = build({"-pie", "-DABSOLUTE"});
  const auto object = only_object(path);
  EXPECT_EQ(object.at("dynamic_relocations"), 1);
  EXPECT_EQ(object.at("providers").at(0).at("records").at(0).at("sites"),
            nlohmann::json({address_of("serve_site", path)}));
  EXPECT_THAT(dump({path}).out, HasSubstr("needs 1 dynamic relocation: 1 × R_X86_64_RELATIVE"));
}

TEST_F(UsdtDump, SaysWhatALinkerHasToDoWithAnObject) {
  const std::string path = build({"-c"});
  const auto object = only_object(path);
  EXPECT_FALSE(object.contains("dynamic_relocations"));
  const auto& relocation = object.at("relocations").at(0);
  EXPECT_EQ(relocation.at("type"), "R_X86_64_PC64");
  EXPECT_EQ(relocation.at("symbol"), "serve");
  EXPECT_TRUE(object.at("providers").at(0).at("records").at(0).at("address").is_null());
  EXPECT_THAT(dump({path}).out, HasSubstr("not linked yet: 1 × R_X86_64_PC64"));
}

TEST_F(UsdtDump, SaysWhatIsBroken) {
  const std::string path = build({"-pie"});
  const auto object = only_object(path);
  const auto offset = std::stoul(object.at("file_offset").get<std::string>(), nullptr, 16);
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(static_cast<std::streamoff>(offset + 6)).put('\x9');
  file.close();
  const Outcome outcome = dump({path});
  EXPECT_EQ(outcome.status, 1);
  EXPECT_THAT(outcome.err, HasSubstr("its version is 9"));
}

TEST_F(UsdtDump, DemanglesFunctionsInTextAlone) {
  const std::string path = build({"-pie", "-DFUNCTION=\"_ZN4shop5serveEi\""});
  EXPECT_THAT(dump({path}).out, HasSubstr("  shop::serve(int)+0x"));
  const auto record = only_object(path).at("providers").at(0).at("records").at(0);
  EXPECT_EQ(record.at("function"), "_ZN4shop5serveEi");
}

TEST_F(UsdtDump, SaysThatThereIsNone) {
  const Outcome none = dump({"/bin/true"});
  EXPECT_EQ(none.status, 0);
  EXPECT_EQ(none.out, "/bin/true: no DOF\n");
  EXPECT_EQ(dump({"--json", "/bin/true"}).out, "");
  EXPECT_EQ(dump({"/nonexistent"}).status, 4);
  EXPECT_EQ(dump({"/etc/passwd"}).status, 1);
  EXPECT_EQ(dump({}).status, 2);
}

}  // namespace
}  // namespace vitrine::test
