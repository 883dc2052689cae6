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
  limits.width = config.labels.empty() ? config.width : 0;
  limits.labels = static_cast<int>(config.labels.size());
  model::Encoder::Options encoder_options;
  encoder_options.workers = options.pool->workers();
  encoder_options.max_rows = limits.max_tokens;
  encoder_options.max_scored = limits.max_items;
  ASSIGN_OR_RETURN(auto encoder,
                   model::Encoder::Create(std::move(weights), *options.kernels, encoder_options));
  return std::unique_ptr<CpuEncoderRunner>(
      new CpuEncoderRunner(options.pool, std::move(encoder), limits));
}

void CpuEncoderRunner::Launch(const engine::EncodeBatch& batch) {
  CHECK(!batch.items.empty() && batch.items.size() <= static_cast<size_t>(limits_.max_items));
  scored_.clear();
  score_of_.clear();
  for (const engine::EncodeItem& item : batch.items) {
    score_of_.push_back(static_cast<int>(scored_.size()));
    if (item.output == api::EncodeOutput::kScores) scored_.push_back(item.first);
  }
  const model::EncoderBatch packed{batch.tokens, batch.types, batch.offsets, scored_};
  encoder_->Prepare(packed);
  all_numbers_.store(true, std::memory_order_relaxed);
  pool_->Run([&](model::Team& team) {
    encoder_->Run(packed, team);
    team.ForEachInOrder(static_cast<int>(batch.items.size()),
                        [&](int index) { Finish(index, batch.items[static_cast<size_t>(index)]); });
  });
}

void CpuEncoderRunner::Finish(int index, const engine::EncodeItem& item) {
  const auto width = static_cast<size_t>(limits_.width);
  const float* rows = encoder_->hidden() + static_cast<size_t>(item.first) * width;
  switch (item.output) {
    case api::EncodeOutput::kTokens:
      CHECK(width > 0 && item.out.size() == static_cast<size_t>(item.tokens) * width);
      std::copy(rows, rows + item.out.size(), item.out.begin());
      break;
    case api::EncodeOutput::kPooled:
      CHECK(width > 0 && item.out.size() == width);
      model::PoolRows(rows, item.tokens, limits_.width, encoder_->weights().config().pooling,
                      item.out.data());
      break;
    case api::EncodeOutput::kScores: {
      CHECK(limits_.labels > 0 && item.out.size() == static_cast<size_t>(limits_.labels));
      const float* scores = encoder_->scores(score_of_[static_cast<size_t>(index)]);
      std::copy(scores, scores + item.out.size(), item.out.begin());
      break;
    }
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
