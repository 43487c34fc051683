// CPU time for debug information: what is left of a ration, by the clock and by what files took.
#include <gtest/gtest.h>

#include "symbol/background.hpp"

namespace vitrine::symbol {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

class LeftOfARation : public testing::Test {
 protected:
  [[nodiscard]] bool suffices(int likely_ms, int second) {
    return left.suffices_for(milliseconds(likely_ms), began + seconds(second));
  }

  RationLeft::Clock::time_point began = RationLeft::Clock::now();
  RationLeft left{Ration{milliseconds(500), milliseconds(250), seconds(60)}, began};
};

TEST_F(LeftOfARation, AtFirstIsForAnyFileWhileThereIsAny) {
  EXPECT_TRUE(suffices(1000, 0));
  left.spend(milliseconds(499));
  EXPECT_TRUE(suffices(1000, 59));
  left.spend(milliseconds(1));
  EXPECT_FALSE(suffices(1, 59));
}

TEST_F(LeftOfARation, EndsWithItsFirstTime) {
  EXPECT_FALSE(suffices(1, 60)) << "half a second is there that nothing has used";
  left.save(milliseconds(9));
  EXPECT_FALSE(suffices(10, 61));
  left.save(milliseconds(1));
  EXPECT_TRUE(suffices(10, 62));
  left.spend(milliseconds(10));
  EXPECT_FALSE(suffices(1, 63));
}

TEST_F(LeftOfARation, IsSavedUpToABoundWhichSufficesForAll) {
  ASSERT_FALSE(suffices(1, 60));
  left.save(milliseconds(249));
  EXPECT_FALSE(suffices(5000, 61));
  left.save(seconds(100));
  EXPECT_TRUE(suffices(5000, 62));
  left.spend(milliseconds(250));
  EXPECT_FALSE(suffices(1, 63)) << "no more than the bound was saved";
}

TEST_F(LeftOfARation, IsOwedUpToABound) {
  left.spend(milliseconds(600));
  EXPECT_FALSE(suffices(1, 1));
  left.save(milliseconds(100));
  EXPECT_FALSE(suffices(1, 2)) << "a debt of 100 ms has been paid";
  left.save(milliseconds(1));
  EXPECT_TRUE(suffices(1, 3));
  ASSERT_FALSE(suffices(1, 60));
  left.spend(seconds(30));
  left.save(milliseconds(251));
  EXPECT_TRUE(suffices(1, 61)) << "more was owed than the bound";
}

}  // namespace
}  // namespace vitrine::symbol
