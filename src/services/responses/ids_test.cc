#include "services/responses/ids.h"

#include <gtest/gtest.h>

#include "amount.h"
#include "services/responses/testing/id_patterns.h"

namespace tutti::responses {
namespace {

TEST(NewIdOfAMillion, NoneComesTwiceAndNoneTellsOfTheNext) {
  ExpectNoPattern(support::Amount(1'000'000, 100'000), [] { return NewId("job_"); });
}

// Each response had a seed of its own, so that no two of them were equal to a cache of answers.
TEST(SettleSeed, OnlyWhatDrawsHasOneAndNobodyElseHas) {
  api::GenerateRequest greedy, drawn, named;
  greedy.sampling.temperature = 0;
  named.sampling.seed = 7;
  for (api::GenerateRequest* request : {&greedy, &drawn, &named}) SettleSeed(request);
  EXPECT_FALSE(greedy.sampling.seed.has_value());
  EXPECT_FALSE(greedy.cache.no_store);
  EXPECT_TRUE(drawn.sampling.seed.has_value());
  EXPECT_TRUE(drawn.cache.no_store);
  EXPECT_EQ(named.sampling.seed, 7);
  EXPECT_FALSE(named.cache.no_store);
}

}  // namespace
}  // namespace tutti::responses
