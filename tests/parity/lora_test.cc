// LoRA adapters of small decoders compared with peft (LoraGoldens()), over bases in both forms.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <mutex>
#include <set>
#include <string>

#include "decoder_families.h"
#include "runner/cpu_model_runner.h"
#include "runner/testing/direct_driver.h"

namespace tutti::parity {
namespace {

using model::WeightMode;

// The greatest difference of a logit from the golden's, of the text in steps of `every` tokens.
double WorstOf(const FamilyGolden& golden, const std::shared_ptr<const model::Weights>& weights,
               const engine::Adapter* adapter, kernels::Isa isa) {
  std::mutex mutex;
  std::map<int, std::vector<float>> rows;
  runner::CpuRunnerOptions options;
  options.kernels = &kernels::KernelsFor(isa);
  options.pool = std::make_shared<runner::ComputePool>(runner::ComputePoolOptions{.workers = 2});
  options.kv_bytes = size_t{16} << 20;
  if (weights->config().window > 0) options.kv_blocks = options.window_blocks = 64;
  options.context = weights->config().context_length;
  options.max_step_tokens = 64;
  options.state_slots = 2;
  options.adapters = true;
  options.logits_tap = [&](uint32_t, int position, std::span<const float> logits) {
    const std::lock_guard lock(mutex);
    rows[position].assign(logits.begin(), logits.end());
  };
  auto runner = runner::CpuModelRunner::Create(weights, options);
  EXPECT_TRUE(runner.ok()) << runner.status();
  if (!runner.ok()) return INFINITY;
  runner::DirectDriver driver(**runner, 3);
  const int sequence = driver.NewSequence();
  driver.SetAdapter(sequence, adapter);
  for (size_t at = 0; at < golden.ids.size(); at += golden.every) {
    const auto begin = golden.ids.begin() + static_cast<ptrdiff_t>(at);
    const runner::DirectDriver::Part part{sequence,
                                          {begin, begin + static_cast<ptrdiff_t>(golden.every)}};
    const auto result = driver.Step({&part, 1});
    EXPECT_TRUE(result.ok() && result->slices[0].status.ok());
  }
  double worst = 0;
  for (size_t i = 0; i < golden.logits.size(); ++i) {
    const std::vector<float>& row = rows[static_cast<int>((i + 1) * golden.every) - 1];
    if (row.size() < golden.logits[i].size()) return INFINITY;
    for (size_t k = 0; k < golden.logits[i].size(); ++k) {
      worst = std::max(
          worst, std::fabs(static_cast<double>(row[k]) - static_cast<double>(golden.logits[i][k])));
    }
  }
  return worst;
}

TEST(LoraParity, EveryFamilyIsWithinAThousandthOfPeft) {
  std::set<std::string> families;
  for (const FamilyGolden& golden : LoraGoldens()) {
    families.insert(golden.family);
    const FamilyGolden& base = GoldenOf(golden.family);
    for (const bool folder : {true, false}) {
      SCOPED_TRACE(golden.family + (folder ? " of a folder" : " of a GGUF"));
      const auto weights =
          folder ? LoadFolder(base, WeightMode::kF32) : LoadGguf(base, WeightMode::kF32);
      ASSERT_TRUE(weights.ok()) << weights.status();
      const auto lora = LoadLora(golden, (*weights)->config());
      ASSERT_TRUE(lora.ok()) << lora.status();
      const runner::CpuAdapter adapter(*lora);
      const kernels::Isa isa = kernels::DetectIsas().back();
      EXPECT_LT(WorstOf(golden, *weights, &adapter, isa), 1e-3);
      EXPECT_GT(WorstOf(golden, *weights, nullptr, isa), 0.05) << "the adapter does nothing";
    }
  }
  EXPECT_GE(families.size(), 20u);
}

TEST(LoraParity, EveryInstructionSetAgrees) {
  const FamilyGolden& golden = LoraGoldens().front();
  const auto weights = LoadGguf(GoldenOf(golden.family), WeightMode::kF32);
  ASSERT_TRUE(weights.ok()) << weights.status();
  const auto lora = LoadLora(golden, (*weights)->config());
  ASSERT_TRUE(lora.ok()) << lora.status();
  const runner::CpuAdapter adapter(*lora);
  for (const kernels::Isa isa : kernels::DetectIsas())
    EXPECT_LT(WorstOf(golden, *weights, &adapter, isa), 1e-3) << kernels::IsaName(isa);
}

}  // namespace
}  // namespace tutti::parity
