#include <gtest/gtest.h>

#include "amount.h"
#include "base/random.h"
#include "id_patterns.h"

namespace tutti {
namespace {

TEST(NewIdOfAMillion, NoneComesTwiceAndNoneTellsOfTheNext) {
  support::ExpectNoPattern(support::Amount(1'000'000, 100'000), [] { return NewId("job_"); });
}

}  // namespace
}  // namespace tutti
