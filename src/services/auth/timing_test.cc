// The time of a refusal reveals nothing about a key.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "services/auth/accounts.h"
#include "services/auth/testing/opened_store.h"
#include "services/auth/testing/timing_test_rig.h"

namespace tutti::auth {
namespace {

using testing::kNow;

constexpr int kKeys = 40;
constexpr int kSamples = 25'000;  // for each key

std::string With(std::string text, size_t at) {
  text[at] = text[at] == 'A' ? 'B' : 'A';
  return text;
}

class TimingTest : public ::testing::Test {
 protected:
  void SetUp() override {
    for (int i = 0; i < kKeys; ++i) {
      const std::string name = "ci" + std::to_string(i);
      auto key = accounts_->CreateKey({.name = name, .grant = {}, .expires_s = {}}, kNow);
      ASSERT_TRUE(key.ok());
      keys_.push_back(key->text);
    }
    shown_ = keys_[0];
  }

  // Compares every key with a wrong letter at the start of its secret and with one at the end.
  TimingResult CompareEnds(const std::function<void(size_t key)>& run) {
    std::vector<std::string> first, last;
    for (const std::string& key : keys_) {
      first.push_back(With(key, kKeyChars - kKeySecretChars));
      last.push_back(With(key, kKeyChars - 1));
    }
    return CompareTexts(first, last, kSamples, shown_, run);
  }

  std::unique_ptr<store::Store> store_ = OpenedStore();
  std::unique_ptr<Accounts> accounts_ = *Accounts::Open(store_.get());
  std::vector<std::string> keys_;
  std::string shown_;
};

// A real difference is there in every round; one by chance is not.
TEST_F(TimingTest, AKeyWrongAtItsFirstLetterTakesAsLongAsOneWrongAtItsLast) {
  const SnapshotRef snapshot = accounts_->snapshot();
  double least = INFINITY, difference_ns = 0;
  int accepted = 0;
  for (int round = 0; round < 3 && least >= 4.5; ++round) {
    const TimingResult result = CompareEnds([&](size_t) {
      if (CheckKey(*snapshot, shown_, kNow).ok()) ++accepted;
    });
    if (std::abs(result.t) >= least) continue;
    least = std::abs(result.t);
    difference_ns = result.mean_a_ns - result.mean_b_ns;
  }
  EXPECT_EQ(accepted, 0);
  RecordProperty("t", std::to_string(least));
  EXPECT_LT(least, 4.5) << "they differ by " << difference_ns << " ns";
}

// Checks the rig itself: it detects a comparison that stops at the first wrong letter.
TEST_F(TimingTest, AComparisonThatStopsEarlyIsFound) {
  volatile int equal = 0;
  const TimingResult result = CompareEnds([&](size_t key) {
    int same = 1;
    for (size_t i = kKeyChars - kKeySecretChars; i < shown_.size() && same != 0; ++i) {
      const volatile char* const letter = &shown_[i];
      same = *letter == keys_[key][i] ? 1 : 0;
    }
    equal = equal + same;
  });
  EXPECT_GT(std::abs(result.t), 4.5);
  EXPECT_LT(result.mean_a_ns, result.mean_b_ns);
}

}  // namespace
}  // namespace tutti::auth
