#include "sampling/sampler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <set>

#include "base/random.h"
#include "sampling/row_ops.h"

namespace tutti::sampling {
namespace {

std::vector<float> RandomRow(uint64_t seed, size_t vocab, double spread = 4.0) {
  Random random(seed);
  std::vector<float> row(vocab);
  for (float& x : row) {
    // Roughly normal: the sum of uniform numbers.
    double sum = 0;
    for (int i = 0; i < 6; ++i) sum += random.Uniform() - 0.5;
    x = static_cast<float>(sum * spread);
  }
  return row;
}

Draw Sample(std::vector<float> row, const RowState& state) {
  SamplerScratch scratch;
  return SampleRow(row, state, scratch);
}

// The chain once more, in doubles and by full sorts: token -> probability.
std::map<TokenId, double> Reference(const std::vector<float>& row, const RowState& state) {
  const api::SamplingParams& p = *state.params;
  const double kOut = -std::numeric_limits<double>::infinity();
  std::vector<double> x(row.begin(), row.end());
  if (!p.allowed_token_ids.empty()) {
    const std::set<TokenId> allowed(p.allowed_token_ids.begin(), p.allowed_token_ids.end());
    for (size_t i = 0; i < x.size(); ++i) {
      if (!allowed.contains(static_cast<TokenId>(i))) x[i] = kOut;
    }
  }
  for (const TokenId id : p.banned_token_ids) x[static_cast<size_t>(id)] = kOut;
  if (static_cast<int>(state.output.size()) < p.min_tokens) {
    for (const TokenId id : state.end_tokens) x[static_cast<size_t>(id)] = kOut;
  }
  for (const auto& [id, bias] : p.logit_bias)
    x[static_cast<size_t>(id)] += static_cast<double>(bias);
  std::set<TokenId> seen(state.prompt.begin(), state.prompt.end());
  seen.insert(state.output.begin(), state.output.end());
  for (const TokenId id : seen) {
    double& v = x[static_cast<size_t>(id)];
    v = v > 0 ? v / p.repetition_penalty : v * p.repetition_penalty;
  }
  std::map<TokenId, int> counts;
  for (const TokenId id : state.output) ++counts[id];
  for (const auto& [id, count] : counts) {
    x[static_cast<size_t>(id)] -= p.frequency_penalty * count + p.presence_penalty;
  }
  std::vector<TokenId> order(x.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](TokenId a, TokenId b) {
    return x[static_cast<size_t>(a)] > x[static_cast<size_t>(b)];
  });
  while (!order.empty() && x[static_cast<size_t>(order.back())] == kOut) order.pop_back();
  if (p.top_k > 0 && static_cast<size_t>(p.top_k) < order.size())
    order.resize(static_cast<size_t>(p.top_k));
  const double max = x[static_cast<size_t>(order.front())];
  std::vector<double> w;
  for (const TokenId id : order)
    w.push_back(std::exp((x[static_cast<size_t>(id)] - max) / p.temperature));
  const double total = std::accumulate(w.begin(), w.end(), 0.0);
  double sum = 0;
  size_t keep = 0;
  while (keep < w.size() && sum < p.top_p * total) sum += w[keep++];
  w.resize(keep);
  while (w.size() > 1 && w.back() < p.min_p) w.pop_back();
  const double left = std::accumulate(w.begin(), w.end(), 0.0);
  std::map<TokenId, double> result;
  for (size_t i = 0; i < w.size(); ++i) result[order[i]] = w[i] / left;
  return result;
}

// P(chi-square with k degrees of freedom > x), by the regularised incomplete gamma function.
double ChiSquareTail(double x, double k) {
  const double a = k / 2, z = x / 2;
  if (z <= 0) return 1;
  if (z < a + 1) {  // series
    double term = 1 / a, sum = term;
    for (double n = a + 1; term > sum * 1e-15; ++n) sum += term *= z / n;
    return 1 - sum * std::exp(-z + a * std::log(z) - std::lgamma(a));
  }
  double b = z + 1 - a, c = 1e300, d = 1 / b, h = d;  // continued fraction
  for (int i = 1; i < 10000; ++i) {
    const double an = -i * (i - a);
    b += 2;
    d = 1 / (an * d + b);
    c = b + an / c;
    h *= d * c;
    if (std::abs(d * c - 1) < 1e-14) break;
  }
  return h * std::exp(-z + a * std::log(z) - std::lgamma(a));
}

// Draws `draws` positions of one row and compares the frequencies with the filtered distribution.
void ExpectFrequencies(const std::vector<float>& row, api::SamplingParams params, int draws,
                       uint64_t seed) {
  RowState state;
  state.params = &params;
  state.seed = seed;
  // The position is the number of tokens drawn; penalties are off here, so their values do not
  // matter.
  std::vector<TokenId> output(static_cast<size_t>(draws), 0);
  const std::map<TokenId, double> expected = Reference(row, state);
  std::map<TokenId, int> seen;
  SamplerScratch scratch;
  std::vector<float> copy;
  for (int i = 0; i < draws; ++i) {
    state.output = std::span(output).first(static_cast<size_t>(i));
    copy = row;
    const Draw draw = SampleRow(copy, state, scratch);
    ASSERT_TRUE(draw.status.ok()) << draw.status;
    ASSERT_TRUE(expected.contains(draw.token)) << "token " << draw.token << " was filtered out";
    ++seen[draw.token];
  }
  double chi = 0, rest_expected = 0, rest_seen = 0;
  int cells = 0;
  for (const auto& [token, p] : expected) {
    const double e = p * draws;
    if (e < 5) {  // pool the rare ones, as the test demands
      rest_expected += e;
      rest_seen += seen[token];
      continue;
    }
    chi += (seen[token] - e) * (seen[token] - e) / e;
    ++cells;
  }
  if (rest_expected >= 5) {
    chi += (rest_seen - rest_expected) * (rest_seen - rest_expected) / rest_expected;
    ++cells;
  }
  ASSERT_GE(cells, 2);
  EXPECT_GT(ChiSquareTail(chi, cells - 1), 0.01)
      << "chi-square " << chi << " over " << cells << " cells";
}

TEST(ChiSquareTail, EqualsTabulatedValues) {
  EXPECT_NEAR(ChiSquareTail(3.841, 1), 0.05, 1e-4);
  EXPECT_NEAR(ChiSquareTail(23.209, 10), 0.01, 1e-5);
  EXPECT_NEAR(ChiSquareTail(124.342, 100), 0.05, 1e-4);
}

// U86: measured token frequencies match the filtered distribution, chi-square p > 0.01.
TEST(SampleRow, FrequenciesMatchTheFilteredDistribution) {
  const std::vector<float> row = RandomRow(3, 500, 3.0);
  const auto with = [](double t, int k, double p, double m) {
    api::SamplingParams params;
    params.temperature = t;
    params.top_k = k;
    params.top_p = p;
    params.min_p = m;
    return params;
  };
  uint64_t seed =
      200;  // fixed; over six such seeds 1 of 54 tests fell below 0.01, as chance has it
  for (const auto& params : {with(1, 0, 1, 0), with(0.7, 0, 1, 0), with(1, 20, 1, 0),
                             with(1, 0, 0.9, 0), with(1.3, 50, 0.8, 0), with(1, 0, 1, 0.05),
                             with(2, 0, 0.99, 0.01), with(1, 400, 0.95, 0)}) {
    ExpectFrequencies(row, params, 20'000, ++seed);
  }
}

TEST(SampleRow, FrequenciesMatchOnAFlatVocabularyThatNeedsTheFallback) {
  api::SamplingParams params;
  params.temperature = 2;
  params.top_p = 0.9;
  ExpectFrequencies(RandomRow(9, 3000, 1.0), params, 6'000, 5);
}

// Every combination of the chain against the slow reference: never a token outside the filtered
// set, and every likely token of it is reached.
TEST(SampleRow, DrawsExactlyFromTheReferenceSet) {
  Random random(11);
  SamplerScratch scratch;
  for (int round = 0; round < 1500; ++round) {
    const size_t vocab = 1 + random.Below(700);
    const std::vector<float> row = RandomRow(random.Next(), vocab, 1 + 6 * random.Uniform());
    api::SamplingParams params;
    params.temperature = 0.05 + 1.95 * random.Uniform();
    if (random.Chance(0.5)) params.top_k = static_cast<int>(random.Between(-1, 100));
    if (random.Chance(0.5)) params.top_p = 0.01 + 0.99 * random.Uniform();
    if (random.Chance(0.3)) params.min_p = random.Uniform();
    if (random.Chance(0.3)) params.repetition_penalty = 0.5 + 2 * random.Uniform();
    if (random.Chance(0.3)) params.presence_penalty = random.Uniform() * 4 - 2;
    if (random.Chance(0.3)) params.frequency_penalty = random.Uniform() * 4 - 2;
    const auto any = [&] { return static_cast<TokenId>(random.Below(vocab)); };
    for (uint64_t i = random.Below(5); i > 0; --i)
      params.logit_bias.push_back({any(), static_cast<float>(random.Between(-9, 9))});
    if (random.Chance(0.2)) {
      for (uint64_t i = random.Below(20); i > 0; --i) params.allowed_token_ids.push_back(any());
    }
    if (random.Chance(0.2)) params.banned_token_ids.push_back(any());
    params.min_tokens = static_cast<int>(random.Below(10));
    std::vector<TokenId> prompt, output, end = {any()};
    for (uint64_t i = random.Below(8); i > 0; --i) prompt.push_back(any());
    for (uint64_t i = random.Below(8); i > 0; --i) output.push_back(any());
    RowState state{&params, prompt,        output,
                   end,     random.Next(), static_cast<uint32_t>(random.Below(8))};

    std::vector<float> copy = row;
    const Draw draw = SampleRow(copy, state, scratch);
    const bool none_left = [&] {
      std::set<TokenId> left;
      if (params.allowed_token_ids.empty()) {
        for (size_t i = 0; i < vocab; ++i) left.insert(static_cast<TokenId>(i));
      }
      left.insert(params.allowed_token_ids.begin(), params.allowed_token_ids.end());
      for (const TokenId id : params.banned_token_ids) left.erase(id);
      if (static_cast<int>(output.size()) < params.min_tokens) left.erase(end[0]);
      return left.empty();
    }();
    if (none_left) {
      EXPECT_EQ(draw.status.reason(), "invalid_logit_mask");
      EXPECT_EQ(draw.status.param(), !params.allowed_token_ids.empty()  ? "allowed_token_ids"
                                     : !params.banned_token_ids.empty() ? "banned_token_ids"
                                                                        : "");
      continue;
    }
    ASSERT_TRUE(draw.status.ok()) << draw.status;
    const auto expected = Reference(row, state);
    // Rounding may move one token over the border of top_p or min_p; it is then the least probable.
    if (!expected.contains(draw.token)) {
      api::SamplingParams wider = params;
      wider.top_p = std::min(1.0, params.top_p + 1e-5);
      wider.min_p = params.min_p * (1 - 1e-5);
      RowState wide = state;
      wide.params = &wider;
      EXPECT_TRUE(Reference(row, wide).contains(draw.token)) << "round " << round;
    }
    if (expected.size() == 1) {
      EXPECT_EQ(draw.token, expected.begin()->first);
    }
  }
}

TEST(SampleRow, TemperatureZeroTakesTheHighestAndOfEqualsTheLowestId) {
  api::SamplingParams params;
  params.temperature = 0;
  const RowState state{&params, {}, {}, {}, 1, 0};
  std::vector<float> row = RandomRow(5, 1000);
  row[300] = row[301] = row[77] = 50;
  EXPECT_EQ(Sample(row, state).token, 77);
  EXPECT_TRUE(state.plain_argmax());
  params.banned_token_ids = {77};
  EXPECT_FALSE(state.plain_argmax());
  EXPECT_EQ(Sample(row, state).token, 300);
}

TEST(SampleRow, TopKOneEqualsGreedyAtAnyTemperature) {
  api::SamplingParams greedy, top1;
  greedy.temperature = 0;
  top1.temperature = 1.9;
  top1.top_k = 1;
  for (uint64_t seed = 0; seed < 50; ++seed) {
    const std::vector<float> row = RandomRow(seed, 999);
    EXPECT_EQ(Sample(row, {&top1, {}, {}, {}, seed, 0}).token,
              Sample(row, {&greedy, {}, {}, {}, 0, 0}).token);
  }
}

TEST(SampleRow, TheDrawDependsOnSeedStreamAndPositionAndOnNothingElse) {
  api::SamplingParams params;
  const std::vector<float> row = RandomRow(5, 2000, 1.0);
  std::vector<TokenId> output = {1, 2, 3};
  const RowState state{&params, {}, output, {}, 42, 1};
  const TokenId token = Sample(row, state).token;
  SamplerScratch used;  // a scratch full of other rows' leavings changes nothing
  for (uint64_t i = 0; i < 20; ++i) {
    api::SamplingParams other;
    other.top_p = 0.5;
    other.repetition_penalty = 1.5;
    std::vector<float> junk = RandomRow(i, 100 + 3000 * (i % 2));
    SampleRow(junk, {&other, output, output, {}, i, 0}, used);
    std::vector<float> copy = row;
    EXPECT_EQ(SampleRow(copy, state, used).token, token);
  }
  std::set<TokenId> varied;
  for (uint32_t stream = 0; stream < 8; ++stream)
    varied.insert(Sample(row, {&params, {}, output, {}, 42, stream}).token);
  for (uint64_t seed = 0; seed < 8; ++seed)
    varied.insert(Sample(row, {&params, {}, output, {}, seed, 1}).token);
  EXPECT_GT(varied.size(), 8u);
}

TEST(SampleRow, RowsThatAreNotFiniteFailWithAStatus) {
  api::SamplingParams params;
  for (const float bad :
       {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    for (const size_t at : {size_t{0}, size_t{63}, size_t{64}, size_t{640}}) {
      for (const double temperature : {0.0, 1.0}) {
        params.temperature = temperature;
        std::vector<float> row = RandomRow(1, 641);
        row[at] = bad;
        EXPECT_EQ(Sample(row, {&params, {}, {}, {}, 1, 0}).status.reason(), "logits_not_finite");
      }
    }
  }
  EXPECT_FALSE(Sample({}, {&params, {}, {}, {}, 1, 0}).status.ok());
}

TEST(SampleRow, ExtremeButFiniteValuesStillDraw) {
  api::SamplingParams params;
  for (const double temperature : {1e-300, 1e-6, 1.0, 2.0}) {
    for (const double top_p : {1e-9, 0.5, 1.0}) {
      params.temperature = temperature;
      params.top_p = top_p;
      const std::vector<float> row = {-3e38F, 3e38F, 0, -3e38F};
      EXPECT_EQ(Sample(row, {&params, {}, {}, {}, 1, 0}).token, 1);
    }
  }
  params = {};
  params.top_p = 0.5;
  EXPECT_GE(Sample(std::vector<float>(5000, 0.0F), {&params, {}, {}, {}, 1, 0}).token,
            0);  // all equal
}

// 1e-38 once gave a logit beyond all floats, and with it an internal error.
TEST(SampleRow, ARepetitionPenaltyOfAlmostNothingStillDraws) {
  const std::vector<TokenId> seen = {1, 2};
  for (const double penalty : {1e-300, 1e-45, 1e-38, 1e-30, 10.0}) {
    for (const double temperature : {0.0, 1e-6, 1.0}) {
      api::SamplingParams params;
      params.repetition_penalty = penalty;
      params.temperature = temperature;
      params.banned_token_ids = {2};
      const std::vector<float> row = {0.5F, 20.0F, 30.0F, -4.0F};
      const auto drawn = Sample(row, {&params, seen, {}, {}, 1, 0});
      EXPECT_TRUE(drawn.status.ok()) << penalty;
      if (penalty < 1) {
        EXPECT_EQ(drawn.token, 1) << penalty << " at " << temperature;
      }
      EXPECT_NE(drawn.token, 2) << "what is banned stays banned";
    }
  }
}

TEST(SampleRow, IdsOutsideTheRowAreIgnored) {
  api::SamplingParams params;
  params.logit_bias = {{-1, 5.0F}, {1 << 30, 5.0F}};
  params.banned_token_ids = {-5, 99999};
  params.repetition_penalty = 2;
  params.presence_penalty = 1;
  params.min_tokens = 9;
  std::vector<TokenId> wild = {-1, 1 << 30};
  EXPECT_TRUE(Sample(RandomRow(1, 100), {&params, wild, wild, wild, 1, 0}).status.ok());
}

TEST(RowLogprobs, EqualTheLogSoftmaxOfTheRow) {
  for (const size_t vocab : {size_t{1}, size_t{50}, size_t{64}, size_t{5000}}) {
    const std::vector<float> row = RandomRow(vocab, vocab, 5.0);
    double sum = 0;
    for (const float x : row) sum += std::exp(static_cast<double>(x));
    SamplerScratch scratch;
    const RowLogprobs got = RowLogprobsOf(row, static_cast<TokenId>(vocab / 2), 20, scratch);
    EXPECT_NEAR(got.chosen.logprob, static_cast<double>(row[vocab / 2]) - std::log(sum), 2e-6);
    ASSERT_EQ(got.top.size(), std::min<size_t>(20, vocab));
    std::vector<float> sorted = row;
    std::sort(sorted.rbegin(), sorted.rend());
    for (size_t i = 0; i < got.top.size(); ++i) {
      EXPECT_NEAR(got.top[i].logprob, static_cast<double>(sorted[i]) - std::log(sum), 2e-6);
      EXPECT_EQ(row[static_cast<size_t>(got.top[i].token)], sorted[i]);
    }
  }
}

TEST(RowLogprobs, OfARowThatIsNotFiniteAreNaN) {
  std::vector<float> row(100, 0.0F);
  row[70] = std::numeric_limits<float>::quiet_NaN();
  SamplerScratch scratch;
  const RowLogprobs got = RowLogprobsOf(row, 3, 5, scratch);
  EXPECT_TRUE(std::isnan(got.chosen.logprob));
  EXPECT_TRUE(got.top.empty());
}

// One arithmetic: a machine with fewer instructions draws the same tokens.
TEST(RowOps, EveryInstructionSetGivesTheSameBits) {
  const RowOps* const* list = nullptr;
  const size_t count = AllRowOps(&list);
  for (const size_t n :
       {size_t{1}, size_t{16}, size_t{63}, size_t{64}, size_t{65}, size_t{1000}, size_t{49152}}) {
    std::vector<float> row = RandomRow(n, n, 20.0);
    row[n / 2] = -std::numeric_limits<float>::infinity();
    std::vector<std::vector<float>> outputs;
    for (size_t i = 0; i < count; ++i) {
      std::vector<float> out(2 * RowBlocks(n) + n);
      EXPECT_TRUE(list[i]->block_max(row.data(), n, out.data()));
      list[i]->block_exp_sum(row.data(), n, 20.0F, 0.7F, out.data() + RowBlocks(n));
      list[i]->exp(row.data(), n, 20.0F, 0.7F, out.data() + 2 * RowBlocks(n));
      outputs.push_back(std::move(out));
    }
    for (size_t i = 1; i < count; ++i)
      EXPECT_EQ(outputs[i], outputs[0]) << list[i]->name << " at " << n;
  }
}

TEST(RowOps, ExpIsAccurate) {
  std::vector<float> x, y(200'001);
  for (int i = 0; i <= 200'000; ++i) x.push_back(-static_cast<float>(i) * 43.4e-5F);
  PickedRowOps().exp(x.data(), x.size(), 0.0F, 1.0F, y.data());
  double worst = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    const double exact = std::exp(static_cast<double>(x[i]));
    worst = std::max(worst, std::abs(static_cast<double>(y[i]) - exact) / exact);
  }
  EXPECT_LT(worst, 3e-7);
}

}  // namespace
}  // namespace tutti::sampling
