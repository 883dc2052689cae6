// Time of one row through the chain, by vocabulary. Each run first checks its answer.
#include <benchmark/benchmark.h>

#include "base/check.h"
#include "base/random.h"
#include "sampling/sampler.h"

namespace tutti::sampling {
namespace {

std::vector<float> Row(size_t vocab) {
  Random random(1);
  std::vector<float> row(vocab);
  for (float& x : row) {
    double sum = 0;
    for (int i = 0; i < 6; ++i) sum += random.Uniform() - 0.5;
    x = static_cast<float>(sum * 8);
  }
  for (int i = 0; i < 40; ++i) row[random.Below(vocab)] += 10;  // a peak, as models have
  return row;
}

void Run(benchmark::State& bench, const api::SamplingParams& params, size_t output_tokens = 0) {
  const std::vector<float> row = Row(static_cast<size_t>(bench.range(0)));
  const std::vector<TokenId> output(output_tokens, 17);
  const RowState state{&params, {}, output, {}, 7, 0};
  SamplerScratch scratch;
  std::vector<float> copy = row;
  const TokenId expected = SampleRow(copy, state, scratch).token;
  CHECK(expected >= 0);
  for (auto _ : bench) {
    bench.PauseTiming();
    copy = row;
    bench.ResumeTiming();
    CHECK_EQ(SampleRow(copy, state, scratch).token, expected);
  }
}

void Greedy(benchmark::State& bench) {
  api::SamplingParams params;
  params.temperature = 0;
  params.repetition_penalty = 1.1;
  Run(bench, params, 200);
}
void Temperature(benchmark::State& bench) { Run(bench, {}); }
void TopK(benchmark::State& bench) {
  api::SamplingParams params;
  params.top_k = 40;
  params.top_p = 0.95;
  Run(bench, params);
}
void TopP(benchmark::State& bench) {
  api::SamplingParams params;
  params.temperature = 0.8;
  params.top_p = 0.95;
  Run(bench, params);
}
BENCHMARK(Greedy)->Arg(49152)->Arg(151936);
BENCHMARK(Temperature)->Arg(49152)->Arg(151936);
BENCHMARK(TopK)->Arg(49152)->Arg(151936);
BENCHMARK(TopP)->Arg(49152)->Arg(151936);

}  // namespace
}  // namespace tutti::sampling
