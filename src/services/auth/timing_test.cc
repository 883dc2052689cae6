// The time of a refusal reveals nothing about a key.
#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "services/auth/accounts.h"
#include "services/auth/testing/opened_store.h"
#include "services/auth/testing/timing_test_rig.h"

namespace tutti::auth {
namespace {

using testing::kNow;

constexpr int kSamples = 1'000'000;

std::string With(std::string text, size_t at) {
  text[at] = text[at] == 'A' ? 'B' : 'A';
  return text;
}

class TimingTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto key = accounts_->CreateKey({.name = "ci", .grant = {}, .expires_s = {}}, kNow);
    ASSERT_TRUE(key.ok());
    text_ = key->text;
  }

  // Writes one of two texts of the same length. Both are read and the same bytes written, whichever
  // it is: where a text comes from would show in the time of what reads it next.
  static void Choose(const std::string& a, const std::string& b, bool second, std::string& out) {
    const char mask = second ? '\xff' : '\0';
    for (size_t i = 0; i < out.size(); ++i)
      out[i] = static_cast<char>(a[i] ^ (mask & (a[i] ^ b[i])));
  }

  // Least t-statistic over three rounds that compare the times of two wrong keys. The keys are
  // tried in random order and from the same place in memory. A real difference is there in every
  // round; one by chance is not.
  double LeastDifference(const std::string& a, const std::string& b) {
    const SnapshotRef snapshot = accounts_->snapshot();
    std::string shown = a;
    double least = INFINITY;
    int accepted = 0;
    for (int round = 0; round < 3 && least >= 4.5; ++round) {
      const TimingResult result = CompareTimes(
          kSamples, [&](bool second) { Choose(a, b, second, shown); },
          [&] {
            if (CheckKey(*snapshot, shown, kNow).ok()) ++accepted;
          });
      least = std::min(least, std::abs(result.t));
    }
    EXPECT_EQ(accepted, 0);
    RecordProperty("t", std::to_string(least));
    return least;
  }

  std::unique_ptr<store::Store> store_ = OpenedStore();
  std::unique_ptr<Accounts> accounts_ = *Accounts::Open(store_.get());
  std::string text_;
};

TEST_F(TimingTest, AKeyWrongAtItsFirstLetterTakesAsLongAsOneWrongAtItsLast) {
  const size_t first = text_.size() - kKeySecretChars;
  EXPECT_LT(LeastDifference(With(text_, first), With(text_, text_.size() - 1)), 4.5);
}

// Checks the rig itself: it detects a comparison that stops at the first wrong letter.
TEST_F(TimingTest, AComparisonThatStopsEarlyIsFound) {
  const std::string first = With(text_, 0), last = With(text_, text_.size() - 1);
  std::string shown = text_;
  volatile int equal = 0;
  const TimingResult result = CompareTimes(
      kSamples / 10, [&](bool second) { Choose(first, last, second, shown); },
      [&] {
        int same = 1;
        for (size_t i = 0; i < shown.size() && same != 0; ++i) {
          const volatile char* const letter = &shown[i];
          same = *letter == text_[i] ? 1 : 0;
        }
        equal = equal + same;
      });
  EXPECT_GT(std::abs(result.t), 4.5);
  EXPECT_LT(result.mean_a_ns, result.mean_b_ns);
}

}  // namespace
}  // namespace tutti::auth
