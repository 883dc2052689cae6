#include "services/cache/embedding_cache.h"

#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace tutti::cache {
namespace {

using std::chrono::seconds;

// A model whose row of an input depends on its tokens alone.
std::vector<float> RowOf(const std::vector<TokenId>& input) {
  float sum = 0;
  for (const TokenId token : input) sum = sum * 31 + static_cast<float>(token) / 7;
  return {sum, -sum, 1};
}

class EmbeddingCacheTest : public ::testing::Test {
 protected:
  struct Asked {
    size_t computed = 0;
    api::EncodeResult result;
    std::shared_ptr<api::CacheReport> report = std::make_shared<api::CacheReport>();
  };
  Asked Ask(const std::vector<std::vector<TokenId>>& inputs, api::EncodeRequest request = {},
            uint64_t instance = 1) {
    Asked asked;
    request.cache_report = asked.report;
    std::vector<TokenId> tokens;
    std::vector<int32_t> lengths;
    for (const auto& input : inputs) {
      tokens.insert(tokens.end(), input.begin(), input.end());
      lengths.push_back(static_cast<int32_t>(input.size()));
    }
    const auto known = cache_->Look({.request = request,
                                     .tokens = tokens,
                                     .types = {},
                                     .lengths = lengths,
                                     .model = model_,
                                     .model_instance = instance});
    if (known == nullptr) return asked;
    asked.computed = known->missing().size();
    if (asked.computed > 0) asked.result.width = 3;
    for (const size_t index : known->missing()) {
      const std::vector<float> row = RowOf(inputs[index]);
      asked.result.values.insert(asked.result.values.end(), row.begin(), row.end());
      asked.result.tokens.push_back(lengths[index]);
    }
    if (between_) between_();
    known->Complete(&asked.result);
    return asked;
  }
  static std::vector<std::vector<TokenId>> Texts(TokenId first, size_t count) {
    std::vector<std::vector<TokenId>> texts;
    for (size_t i = 0; i < count; ++i)
      texts.emplace_back(1 + i % 5, first + static_cast<TokenId>(i));
    return texts;
  }
  static void ExpectRows(const std::vector<std::vector<TokenId>>& inputs,
                         const api::EncodeResult& result) {
    ASSERT_EQ(result.values.size(), inputs.size() * 3);
    ASSERT_EQ(result.tokens.size(), inputs.size());
    EXPECT_EQ(result.width, 3);
    for (size_t i = 0; i < inputs.size(); ++i) {
      const std::vector<float> row(result.values.begin() + static_cast<std::ptrdiff_t>(i * 3),
                                   result.values.begin() + static_cast<std::ptrdiff_t>(i * 3 + 3));
      EXPECT_EQ(row, RowOf(inputs[i])) << i;
      EXPECT_EQ(result.tokens[i], static_cast<int32_t>(inputs[i].size())) << i;
    }
  }

  ManualClock clock_;
  const std::shared_ptr<EmbeddingCache> cache_ =
      std::make_shared<EmbeddingCache>(AnswerLimits{.ttl = seconds(60)}, clock_);
  api::ModelInfo model_;
  std::function<void()> between_;
};

// N44.
TEST_F(EmbeddingCacheTest, OfThirtyTwoTextsOfWhichTwentyFourAreKnownEightAreComputed) {
  EXPECT_EQ(Ask(Texts(100, 24)).computed, 24u);
  // Known and new ones mixed.
  std::vector<std::vector<TokenId>> texts;
  const auto known = Texts(100, 24), fresh = Texts(900, 8);
  for (size_t i = 0; i < 8; ++i) {
    for (size_t k = 0; k < 3; ++k) texts.push_back(known[23 - (i * 3 + k)]);
    texts.push_back(fresh[i]);
  }
  const Asked asked = Ask(texts);
  EXPECT_EQ(asked.computed, 8u);
  EXPECT_EQ(asked.report->outcome(), api::CacheOutcome::kMiss);
  ExpectRows(texts, asked.result);
  const Asked again = Ask(texts);
  EXPECT_EQ(again.computed, 0u);
  EXPECT_EQ(again.report->outcome(), api::CacheOutcome::kHit);
  ExpectRows(texts, again.result);
}

TEST_F(EmbeddingCacheTest, EqualTextsOfACallAreComputedOnce) {
  const std::vector<std::vector<TokenId>> texts = {{1, 2}, {3}, {1, 2}, {1, 2}, {3}};
  const Asked asked = Ask(texts);
  EXPECT_EQ(asked.computed, 2u);
  ExpectRows(texts, asked.result);
}

TEST_F(EmbeddingCacheTest, AnotherTenantModelOutputOrCutOfTheTokensIsAnotherInput) {
  EXPECT_EQ(Ask({{1, 2}, {3}}).computed, 2u);
  EXPECT_EQ(Ask({{1}, {2, 3}}).computed, 2u);
  api::EncodeRequest other;
  other.tenant = "b";
  EXPECT_EQ(Ask({{3}}, other).computed, 1u);
  other = {};
  other.output = api::EncodeOutput::kScores;
  EXPECT_EQ(Ask({{3}}, other).computed, 1u);
  EXPECT_EQ(Ask({{3}}, {}, /*instance=*/2).computed, 1u);
  // Later changes of the result do not affect the stored rows.
  other = {};
  other.normalize = true;
  other.dimensions = 1;
  EXPECT_EQ(Ask({{3}}, other).computed, 0u);
}

TEST_F(EmbeddingCacheTest, TheWishesOfTheClientHold) {
  EXPECT_EQ(Ask({{1}}).computed, 1u);
  clock_.Advance(seconds(5));
  api::EncodeRequest request;
  request.cache.max_age = seconds(5);
  EXPECT_EQ(Ask({{1}}, request).computed, 0u);
  request.cache.max_age = seconds(4);
  EXPECT_EQ(Ask({{1}}, request).computed, 1u);
  request.cache = {.no_cache = true};
  EXPECT_EQ(Ask({{1}}, request).computed, 1u);
  EXPECT_EQ(cache_->stats().bypasses, 1u) << "counted as it is told";
  request.cache = {.no_store = true};
  EXPECT_EQ(Ask({{1}}, request).report->outcome(), api::CacheOutcome::kBypass);
  request = {};
  request.output = api::EncodeOutput::kTokens;
  EXPECT_EQ(Ask({{1}}, request).report->outcome(), api::CacheOutcome::kBypass);
  clock_.Advance(seconds(60));
  EXPECT_EQ(Ask({{1}}).computed, 1u);
}

TEST_F(EmbeddingCacheTest, AFlushForgetsAndWhatWasUnderWayIsNotKept) {
  EXPECT_EQ(Ask({{1}, {2}}).computed, 2u);
  between_ = [this] { EXPECT_EQ(cache_->Flush(""), 2u); };
  EXPECT_EQ(Ask({{3}}).computed, 1u);
  between_ = nullptr;
  EXPECT_EQ(cache_->stats().entries, 0u);
  EXPECT_EQ(Ask({{3}}).computed, 1u);
  EXPECT_EQ(cache_->Flush(std::nullopt), 1u);
  EXPECT_EQ(cache_->stats().bytes, 0u);
}

TEST(EmbeddingCacheBounds, TheCapHoldsOverAHundredThousandTexts) {
  ManualClock clock;
  const AnswerLimits limits{.bytes = 1 << 20, .tenant_bytes = 1 << 18, .ttl = seconds(60)};
  const auto cache = std::make_shared<EmbeddingCache>(limits, clock);
  const api::ModelInfo model;
  for (TokenId first = 0; first < 100000; first += 100) {
    std::vector<TokenId> tokens;
    for (TokenId i = 0; i < 100; ++i) tokens.push_back(first + i);
    const std::vector<int32_t> lengths(100, 1);
    const api::EncodeRequest request;
    const auto known = cache->Look(
        {.request = request, .tokens = tokens, .types = {}, .lengths = lengths, .model = model});
    ASSERT_EQ(known->missing().size(), 100u);
    api::EncodeResult result{.width = 8,
                             .values = std::vector<float>(800, 1.0f),
                             .rows = {},
                             .tokens = lengths,
                             .timings = {}};
    known->Complete(&result);
    ASSERT_LE(cache->stats().bytes, limits.tenant_bytes);
  }
  EXPECT_GT(cache->stats().entries, 100u);
}

}  // namespace
}  // namespace tutti::cache
