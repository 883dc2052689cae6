#include "services/jobs/job_id.h"

#include <gtest/gtest.h>

#include <span>
#include <string>

#include "amount.h"
#include "id_patterns.h"

namespace tutti::jobs {
namespace {

store::Blob Bytes(const std::string& key) { return std::as_bytes(std::span(key)); }

const std::string kKey = "sixteen bytes it";  // NOLINT: a text is no constant

TEST(JobId, SaysItsNumberToWhoHasTheKey) {
  for (const int64_t number : {int64_t{0}, int64_t{1}, int64_t{77'000'000'000}, INT64_MAX}) {
    const std::string id = SealedId(Bytes(kKey), number);
    EXPECT_EQ(id.size(), 36u);
    EXPECT_EQ(NumberIn(Bytes(kKey), id), number) << id;
    EXPECT_NE(NumberIn(Bytes("another sixteen!"), id), number);
  }
  EXPECT_NE(SealedId(Bytes(kKey), 1), SealedId(Bytes(kKey), 1)) << "a row is used again";
}

TEST(JobId, OtherTextsHaveNoNumber) {
  const std::string id = SealedId(Bytes(kKey), 5);
  for (const std::string& text :
       {std::string(), std::string("job_"), id.substr(0, 35), id + "0", "JOB_" + id.substr(4),
        id.substr(0, 35) + "g", id.substr(0, 35) + "A", id.substr(4), std::string(36, '\0')}) {
    EXPECT_EQ(NumberIn(Bytes(kKey), text), std::nullopt) << text;
  }
}

TEST(JobIdOfAMillion, NoneComesTwiceAndNoneTellsOfTheNext) {
  support::ExpectNoPattern(support::Amount(1'000'000, 100'000), [number = int64_t{0}]() mutable {
    return SealedId(Bytes(kKey), ++number);
  });
}

}  // namespace
}  // namespace tutti::jobs
