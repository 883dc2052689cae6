// The file of a grid: its keys, and errors that name the key. The runs themselves are tested on
// real weights (tests/e2e).
#include "bench/encode_grid.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

namespace tutti::bench {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string Refused(const std::string& text) {
  const auto plan = ParseGridPlan(text, "grid.toml");
  return plan.ok() ? "" : plan.status().message();
}

std::vector<std::string> Names(const std::string& text) {
  std::vector<std::string> names;
  const GridPlan plan = ParseGridPlan(text, "g").value();
  for (const GridCell& cell : plan.cells) names.push_back(cell.Name());
  return names;
}

TEST(GridPlan, ListsAreDimensions) {
  EXPECT_THAT(
      Names("model = 'm'\nbatch = [1, 8]\nconcurrency = 4\norder = 'given'\n"),
      ElementsAre("batch 1, concurrency 4, tokens 16", "batch 8, concurrency 4, tokens 16"));
  EXPECT_THAT(Names("model = 'm'\nbatch = 1\nconcurrency = 2\norder = 'given'\n"
                    "[options]\nthreads = 1\n\"encode.window_ms\" = [0, 10]\n"),
              ElementsAre("batch 1, concurrency 2, tokens 16, encode.window_ms 0, threads 1",
                          "batch 1, concurrency 2, tokens 16, encode.window_ms 10, threads 1"));
  EXPECT_EQ(Names("model = 'm'\n").size(), 9u) << "batch 1, 8, 32 x concurrency 1, 4, 8";
}

TEST(GridPlan, TheOrderIsAsAskedAndTheCellsAreTheSame) {
  const auto given = Names("model = 'm'\norder = 'given'\n");
  auto reversed = Names("model = 'm'\norder = 'reversed'\n");
  const auto shuffled = Names("model = 'm'\nseed = 3\n");
  EXPECT_EQ(shuffled, Names("model = 'm'\nseed = 3\n")) << "the seed decides";
  EXPECT_NE(shuffled, given);
  EXPECT_EQ(std::set(shuffled.begin(), shuffled.end()), std::set(given.begin(), given.end()));
  std::reverse(reversed.begin(), reversed.end());
  EXPECT_EQ(reversed, given);
}

TEST(GridPlan, FaultsNameTheKeyOrTheLine) {
  EXPECT_THAT(Refused("batch = [1]\n"), HasSubstr("neither a model"));
  EXPECT_THAT(Refused("model = 'm'\nbatch = [0]\n"), HasSubstr("batch"));
  EXPECT_THAT(Refused("model = 'm'\nbatch = []\n"), HasSubstr("batch"));
  EXPECT_THAT(Refused("model = 'm'\nbatch = ['1']\n"), HasSubstr("batch"));
  EXPECT_THAT(Refused("model = 3\n"), HasSubstr("model: a text"));
  EXPECT_THAT(Refused("model = 'm'\nconcurency = 3\n"), HasSubstr("did you mean concurrency"));
  EXPECT_THAT(Refused("model = 'm'\norder = 'sideways'\n"), HasSubstr("order"));
  EXPECT_THAT(Refused("model = 'm'\nrequests = [1, 2]\n"), HasSubstr("requests: one number"));
  EXPECT_THAT(Refused("model = 'm'\n[options]\nport = 1\n"), HasSubstr("options.port"));
  EXPECT_THAT(Refused("model = 'm'\n[options]\nthreads = 0\n"), HasSubstr("threads"));
  EXPECT_THAT(Refused("url = 'u'\n[options]\nthreads = [1, 2]\n"), HasSubstr("options.threads"));
  EXPECT_THAT(Refused("url = 'u'\n[options]\nthreads = 1\n"), HasSubstr("options.threads"));
  EXPECT_THAT(Refused("model = 'm'\nbatch = [1\n"), HasSubstr("grid.toml: line"));
  EXPECT_THAT(ReadGridPlan("/there/is/none").status().message(), HasSubstr("/there/is/none"));
}

}  // namespace
}  // namespace tutti::bench
