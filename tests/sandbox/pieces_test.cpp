// Files that are written piece by piece: whole or not at all, whatever ends them.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>
#include <vector>

#include "sandbox/files.hpp"
#include "sandbox/place.hpp"

namespace vitrine::sandbox {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::string content_of(const std::string& path) {
  std::ifstream in(path);
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

std::vector<std::string> names_in(const Place& place) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(place.path()))
    names.push_back(entry.path().filename());
  return names;
}

/// `count` pieces of 100,000 bytes, each of another letter.
std::string piece(int number) {
  return std::string(100'000, static_cast<char>('a' + number % 26));
}
Content pieces(int count, int* made = nullptr) {
  return [=](const auto& add) -> Result<void> {
    for (int n = 0; n < count; ++n) {
      if (made != nullptr) *made = n + 1;
      TRY(add(piece(n)));
    }
    return {};
  };
}
std::string whole(int count) {
  std::string all;
  for (int n = 0; n < count; ++n) all += piece(n);
  return all;
}

TEST(Pieces, AreTheContentOfAFile) {
  const Place place;
  ASSERT_TRUE(write_pieces(place / "file", pieces(30)));
  EXPECT_EQ(content_of(place / "file"), whole(30));
  ASSERT_TRUE(write_pieces(place / "file", pieces(2)));  // another, shorter one
  EXPECT_EQ(content_of(place / "file"), whole(2));
  ASSERT_TRUE(write_pieces(place / "file", pieces(0)));
  EXPECT_EQ(content_of(place / "file"), "");
  EXPECT_THAT(names_in(place), ElementsAre("file"));
}

TEST(Pieces, AreNotSeenBeforeTheLast) {
  const Place place;
  place.write("file", "before");
  const Content looks = [&](const auto& add) -> Result<void> {
    for (int n = 0; n < 3; ++n) {
      TRY(add(piece(n)));
      EXPECT_EQ(content_of(place / "file"), "before");
    }
    return {};
  };
  ASSERT_TRUE(write_pieces(place / "file", looks));
  EXPECT_EQ(content_of(place / "file"), whole(3));
}

TEST(Pieces, LeaveAFileAsItWasWhereOneCannotBeMade) {
  const Place place;
  place.write("file", "before");
  const Error why{ErrorCode::limit, "no more of it", "a remedy"};
  const Content breaks = [&](const auto& add) -> Result<void> {
    TRY(add(piece(0)));
    return tl::unexpected(why);
  };
  for (const char* name : {"file", "none"}) {
    const auto written = write_pieces(place / name, breaks);
    ASSERT_FALSE(written);
    EXPECT_EQ(written.error(), why);
  }
  EXPECT_EQ(content_of(place / "file"), "before");
  EXPECT_THAT(names_in(place), ElementsAre("file"));
}

TEST(Pieces, GoThroughAPipe) {
  const Place place;
  ASSERT_EQ(::mkfifo((place / "pipe").c_str(), 0600), 0);
  std::string received;
  std::jthread reader([&] { received = content_of(place / "pipe"); });
  const auto written = write_pieces(place / "pipe", pieces(30));
  reader.join();
  EXPECT_TRUE(written) << written.error().message;
  EXPECT_EQ(received, whole(30));
  EXPECT_TRUE(std::filesystem::is_fifo(place / "pipe"));
}

TEST(Pieces, OfAnErrorEndWhatAPipeGets) {
  const Place place;
  ASSERT_EQ(::mkfifo((place / "pipe").c_str(), 0600), 0);
  std::string received;
  std::jthread reader([&] { received = content_of(place / "pipe"); });
  const auto written = write_pieces(place / "pipe", [](const auto& add) -> Result<void> {
    TRY(add(piece(0)));
    return fail(ErrorCode::failed, "broken");
  });
  reader.join();
  ASSERT_FALSE(written);
  EXPECT_EQ(written.error().message, "broken");
  EXPECT_EQ(received, piece(0));
}

// No more is made than there is room for.
TEST(Pieces, EndWhereThereIsNoRoom) {
  int made = 0;
  const auto written = write_pieces("/dev/full", pieces(30, &made));
  ASSERT_FALSE(written);
  EXPECT_THAT(written.error().message, HasSubstr("/dev/full"));
  EXPECT_THAT(written.error().message, HasSubstr("No space left"));
  EXPECT_EQ(made, 1);
  made = 0;
  EXPECT_TRUE(write_pieces("/dev/null", pieces(3, &made)));
  EXPECT_EQ(made, 3);
}

TEST(Pieces, OfWhatIsNoPlaceToWriteAreNotMade) {
  const Place place;
  int made = 0;
  EXPECT_FALSE(write_pieces(place / "none/file", pieces(3, &made)));
  EXPECT_FALSE(write_pieces(place.path(), pieces(3, &made)));
  EXPECT_EQ(made, 0);
  EXPECT_THAT(names_in(place), ElementsAre());
}

}  // namespace
}  // namespace vitrine::sandbox
