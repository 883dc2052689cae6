#include "services/jobs/job_id.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>
#include <span>
#include <string>

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

// Of ids in a row each digit is as often each of sixteen, at each place, and half of the bits
// change from one to the next.
TEST(JobId, IdsInARowShowNoPattern) {
  constexpr int kIds = 20'000;
  std::array<std::array<int, 16>, 32> counts{};
  std::set<std::string> ids;
  int64_t changed = 0;
  std::string before = SealedId(Bytes(kKey), 0);
  for (int i = 1; i <= kIds; ++i) {
    const std::string id = SealedId(Bytes(kKey), i);
    for (size_t at = 0; at < 32; ++at) {
      const std::string_view digits = "0123456789abcdef";
      const size_t now = digits.find(id[at + 4]), then = digits.find(before[at + 4]);
      ++counts[at][now];
      changed += __builtin_popcountll(now ^ then);
    }
    ids.insert(id);
    before = id;
  }
  EXPECT_EQ(ids.size(), static_cast<size_t>(kIds));
  for (const auto& place : counts) {
    double chi = 0;
    for (const int count : place) chi += std::pow(count - kIds / 16.0, 2) / (kIds / 16.0);
    EXPECT_LT(chi, 56) << "15 degrees of freedom: beyond it one place in a million";
  }
  EXPECT_NEAR(static_cast<double>(changed) / kIds, 64, 0.5);
}

}  // namespace
}  // namespace tutti::jobs
