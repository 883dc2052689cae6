#include "runner/cpu_encoder_runner.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/check.h"

namespace tutti::runner {

CpuEncoderRunner::CpuEncoderRunner(std::shared_ptr<ComputePool> pool,
                                   std::unique_ptr<model::Encoder> encoder,
                                   engine::EncoderLimits limits)
    : pool_(std::move(pool)), encoder_(std::move(encoder)), limits_(limits) {}

Result<std::unique_ptr<CpuEncoderRunner>> CpuEncoderRunner::Create(
    std::shared_ptr<const model::EncoderWeights> weights, const CpuEncoderOptions& options) {
  CHECK(options.kernels != nullptr && options.pool != nullptr);
  CHECK(options.max_items >= 1 && options.max_tokens >= 1);
  const model::EncoderConfig& config = weights->config();
  engine::EncoderLimits limits;
  limits.max_items = options.max_items;
  limits.max_item_tokens = config.max_tokens;
  limits.max_tokens = std::max(options.max_tokens, config.max_tokens);
  limits.vocab_size = config.vocab_size;
  limits.types = std::max(config.token_types, 1);
  limits.width = config.width;
  model::Encoder::Options encoder_options;
  encoder_options.workers = options.pool->workers();
  encoder_options.max_rows = limits.max_tokens;
  ASSIGN_OR_RETURN(auto encoder,
                   model::Encoder::Create(std::move(weights), *options.kernels, encoder_options));
  return std::unique_ptr<CpuEncoderRunner>(
      new CpuEncoderRunner(options.pool, std::move(encoder), limits));
}

void CpuEncoderRunner::Launch(const engine::EncodeBatch& batch) {
  CHECK(!batch.items.empty() && batch.items.size() <= static_cast<size_t>(limits_.max_items));
  const model::EncoderBatch packed{batch.tokens, batch.types, batch.offsets};
  encoder_->Prepare(packed);
  all_numbers_.store(true, std::memory_order_relaxed);
  pool_->Run([&](model::Team& team) {
    encoder_->Run(packed, team);
    team.ForEachInOrder(static_cast<int>(batch.items.size()),
                        [&](int index) { Finish(batch.items[static_cast<size_t>(index)]); });
  });
}

void CpuEncoderRunner::Finish(const engine::EncodeItem& item) {
  const auto width = static_cast<size_t>(limits_.width);
  const float* rows = encoder_->hidden() + static_cast<size_t>(item.first) * width;
  if (item.output == api::EncodeOutput::kTokens) {
    CHECK_EQ(item.out.size(), static_cast<size_t>(item.tokens) * width);
    std::copy(rows, rows + item.out.size(), item.out.begin());
  } else {
    CHECK(item.output == api::EncodeOutput::kPooled && item.out.size() == width);
    model::PoolRows(rows, item.tokens, limits_.width, encoder_->weights().config().pooling,
                    item.out.data());
  }
  const auto number = [](float value) { return std::isfinite(value); };
  if (!std::all_of(item.out.begin(), item.out.end(), number))
    all_numbers_.store(false, std::memory_order_relaxed);
}

Status CpuEncoderRunner::Collect() {
  if (all_numbers_.load(std::memory_order_relaxed)) return OkStatus();
  return Internal("the model gave a vector that is not a number");
}

}  // namespace tutti::runner
