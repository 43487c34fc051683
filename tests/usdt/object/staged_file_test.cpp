#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "sandbox/files.hpp"
#include "usdt/object/workshop.hpp"

namespace vitrine::usdt {
namespace {

namespace fs = std::filesystem;

std::span<const std::byte> bytes(std::string_view text) {
  return std::as_bytes(std::span(text));
}

class Staged : public testing::Test {
 protected:
  void SetUp() override { std::ofstream(old_) << "old"; }

  static std::string content(const std::string& path) {
    std::ifstream file(path);
    return {std::istreambuf_iterator<char>(file), {}};
  }

  std::size_t files() const {
    std::size_t count = 0;
    for ([[maybe_unused]] const auto& entry : fs::directory_iterator(shop_.path(""))) ++count;
    return count;
  }

  test::Workshop shop_;
  std::string old_ = shop_.path("old"), none_ = shop_.path("none");
};

TEST_F(Staged, ChangesNothingUntilPutInPlace) {
  {
    const auto staged = sandbox::StagedFile::write(old_, bytes("new"));
    ASSERT_TRUE(staged);
    EXPECT_EQ(content(old_), "old");
    EXPECT_EQ(files(), 2U);
  }
  EXPECT_EQ(content(old_), "old");
  EXPECT_EQ(files(), 1U);
}

TEST_F(Staged, PutInPlaceAndBack) {
  {
    auto changed = sandbox::StagedFile::write(old_, bytes("new"));
    auto created = sandbox::StagedFile::write(none_, bytes("first"));
    ASSERT_TRUE(changed && created);
    ASSERT_TRUE(changed->put_in_place());
    ASSERT_TRUE(created->put_in_place());
    EXPECT_EQ(content(old_), "new");
    EXPECT_EQ(content(none_), "first");
    created->put_back();
    changed->put_back();
    EXPECT_EQ(content(old_), "old");
  }
  EXPECT_FALSE(fs::exists(none_));
  EXPECT_EQ(files(), 1U);
  {
    auto changed = sandbox::StagedFile::write(old_, bytes("new"));
    ASSERT_TRUE(changed && changed->put_in_place());
  }
  EXPECT_EQ(content(old_), "new");
  EXPECT_EQ(files(), 1U);
}

TEST_F(Staged, SaysWhatCannotBeWritten) {
  const auto nowhere = sandbox::StagedFile::write(shop_.path("no/such/file"), bytes("new"));
  ASSERT_FALSE(nowhere);
  EXPECT_EQ(nowhere.error().code, ErrorCode::not_found);
  EXPECT_THAT(nowhere.error().message, testing::HasSubstr("no/such/file"));
  EXPECT_FALSE(sandbox::StagedFile::write(shop_.path(""), bytes("new")));
  EXPECT_EQ(files(), 1U);
}

}  // namespace
}  // namespace vitrine::usdt
