// Every seed of every fuzz target through the parser that it is for. A property that does not hold
// aborts: the seed is then the last one that was named.
#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <set>
#include <string>
#include <vector>

#define TARGET(name) int take_##name(const std::uint8_t* data, std::size_t size);
extern "C" {
#include "targets.inc"
}
#undef TARGET

namespace vitrine {
namespace {

namespace fs = std::filesystem;

struct Target {
  std::string name;
  int (*take)(const std::uint8_t* data, std::size_t size);
};

#define TARGET(name) {#name, take_##name},
const std::vector<Target> all_targets{
#include "targets.inc"
};
#undef TARGET

class FuzzSeeds : public testing::TestWithParam<Target> {};

TEST_P(FuzzSeeds, AreTaken) {
  std::size_t count = 0;
  for (const auto& file : fs::directory_iterator(fs::path(FUZZ_CORPUS) / GetParam().name)) {
    std::cerr << GetParam().name << '/' << file.path().filename().string() << '\n';
    std::ifstream stream(file.path(), std::ios::binary);
    const std::vector<char> bytes{std::istreambuf_iterator<char>(stream), {}};
    ASSERT_FALSE(bytes.empty()) << file.path();
    EXPECT_EQ(GetParam().take(reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size()),
              0);
    ++count;
  }
  EXPECT_GT(count, 0U);
}

INSTANTIATE_TEST_SUITE_P(Of, FuzzSeeds, testing::ValuesIn(all_targets),
                         [](const auto& target) { return target.param.name; });

TEST(FuzzTargets, AreAsManyAsThereAreCorpora) {
  std::set<std::string> targets, corpora;
  for (const Target& target : all_targets) targets.insert(target.name);
  for (const auto& folder : fs::directory_iterator(FUZZ_CORPUS))
    corpora.insert(folder.path().filename().string());
  EXPECT_EQ(targets, corpora);
}

TEST(FuzzTargets, HaveSmallCorpora) {
  std::uintmax_t bytes = 0;
  for (const auto& file : fs::recursive_directory_iterator(FUZZ_CORPUS))
    if (file.is_regular_file()) bytes += file.file_size();
  EXPECT_LT(bytes, 1'500'000U);
}

}  // namespace
}  // namespace vitrine
