#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/ascii.h"

namespace tutti {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(SplitAt, GivesThePartsBetweenSeparators) {
  EXPECT_THAT(SplitAt("a|bc|d", '|'), ElementsAre("a", "bc", "d"));
  EXPECT_THAT(SplitAt("a", '|'), ElementsAre("a"));
  EXPECT_THAT(SplitAt("", '|'), IsEmpty());
  EXPECT_THAT(SplitAt("|a||b|", '|'), ElementsAre("", "a", "", "b"));
}

}  // namespace
}  // namespace tutti
