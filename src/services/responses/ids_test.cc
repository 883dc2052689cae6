#include "services/responses/ids.h"

#include <gtest/gtest.h>

#include "amount.h"
#include "services/responses/testing/id_patterns.h"

namespace tutti::responses {
namespace {

TEST(NewIdOfAMillion, NoneComesTwiceAndNoneTellsOfTheNext) {
  ExpectNoPattern(support::Amount(1'000'000, 100'000), [] { return NewId("job_"); });
}

}  // namespace
}  // namespace tutti::responses
