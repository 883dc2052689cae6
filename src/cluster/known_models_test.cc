#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "cluster/placement.h"

namespace tutti::cluster {
namespace {

std::vector<api::ModelInfo> Brought(const std::string& id, std::vector<std::string> aliases = {}) {
  api::ModelInfo model;
  model.id = id;
  model.aliases = std::move(aliases);
  return {model};
}

TEST(KnownModels, ANameIsKnownForAWhileAfterItsLastWorkerWent) {
  KnownModels known;
  TimePoint now{};
  known.Came(Brought("m", {"alias"}), now);
  known.Came(Brought("m"), now);  // by another, which knows it by one name alone
  known.Left(Brought("m", {"alias"}), now);
  now += KnownModels::kRemembered - std::chrono::seconds(1);
  EXPECT_TRUE(known.Contains("alias", now));
  now += std::chrono::seconds(1);
  EXPECT_FALSE(known.Contains("alias", now));
  EXPECT_TRUE(known.Contains("m", now)) << "a worker has it";
  known.Left(Brought("m"), now);
  EXPECT_TRUE(known.Contains("m", now));
  EXPECT_EQ(known.ids(), std::vector<std::string>{"m"});
  now += KnownModels::kRemembered;
  EXPECT_FALSE(known.Contains("m", now));
  EXPECT_FALSE(known.Contains("never", now));
}

TEST(KnownModels, OneThatComesAgainKeepsItsPlace) {
  KnownModels known;
  TimePoint now{};
  known.Came(Brought("a"), now);
  known.Came(Brought("b"), now);
  known.Left(Brought("a"), now);
  known.Came(Brought("c"), now);
  known.Came(Brought("a"), now);
  EXPECT_EQ(known.ids(), (std::vector<std::string>{"a", "b", "c"}));
  now += 2 * KnownModels::kRemembered;
  known.Came(Brought("d"), now);
  EXPECT_EQ(known.ids(), (std::vector<std::string>{"a", "b", "c", "d"})) << "all are there";
}

// A frontend that went on for months remembered every model that there ever was.
TEST(KnownModels, OfThoseThatAreGoneTheOldestAreForgotten) {
  KnownModels known;
  TimePoint now{};
  known.Came(Brought("stays"), now);
  for (size_t i = 0; i < 3 * KnownModels::kMaxGone; ++i) {
    now += std::chrono::milliseconds(1);
    known.Came(Brought(std::to_string(i)), now);
    known.Left(Brought(std::to_string(i)), now);
  }
  EXPECT_EQ(known.ids().size(), KnownModels::kMaxGone + 1);
  EXPECT_TRUE(known.Contains("stays", now));
  EXPECT_FALSE(known.Contains("0", now));
  EXPECT_TRUE(known.Contains(std::to_string(3 * KnownModels::kMaxGone - 1), now));
  now += KnownModels::kRemembered;
  known.Came(Brought("new"), now);
  EXPECT_EQ(known.ids(), (std::vector<std::string>{"stays", "new"})) << "what is long gone";
}

}  // namespace
}  // namespace tutti::cluster
