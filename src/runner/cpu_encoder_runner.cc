#include "runner/cpu_encoder_runner.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace tutti::runner {
namespace {

constexpr int kMaxWorkers = 64;  // beyond, the pass is shared anyway

// Rows of the most loaded worker if each idle worker takes the next slice and the time of a slice
// is proportional to its rows.
int LongestShare(std::span<const int32_t> offsets, const std::vector<EncoderSlice>& slices,
                 int workers) {
  int64_t load[kMaxWorkers] = {};
  for (const EncoderSlice& slice : slices) {
    int64_t& next = *std::min_element(load, load + workers);
    next += offsets[static_cast<size_t>(slice.first + slice.count)] -
            offsets[static_cast<size_t>(slice.first)];
  }
  return static_cast<int>(*std::max_element(load, load + workers));
}

}  // namespace

EncoderWorker::EncoderWorker(std::unique_ptr<model::Encoder> encoder, int max_items)
    : encoder_(std::move(encoder)) {
  offsets_.reserve(static_cast<size_t>(max_items) + 1);
  scored_.reserve(static_cast<size_t>(max_items));
}

Result<std::unique_ptr<EncoderWorker>> EncoderWorker::Create(
    std::shared_ptr<const model::EncoderWeights> weights, const kernels::KernelTable& kernels,
    int max_items, int max_rows) {
  model::Encoder::Options options;
  options.workers = 1;
  options.max_rows = max_rows;
  options.max_scored = max_items;
  ASSIGN_OR_RETURN(auto encoder, model::Encoder::Create(std::move(weights), kernels, options));
  return std::unique_ptr<EncoderWorker>(new EncoderWorker(std::move(encoder), max_items));
}

void EncoderWorker::Run(const engine::EncodeBatch& batch, int first, int count) {
  const auto begin = static_cast<size_t>(batch.offsets[static_cast<size_t>(first)]);
  const auto rows = static_cast<size_t>(batch.offsets[static_cast<size_t>(first + count)]) - begin;
  offsets_.clear();
  scored_.clear();
  for (int i = first; i <= first + count; ++i) {
    const auto offset = batch.offsets[static_cast<size_t>(i)] - static_cast<int32_t>(begin);
    offsets_.push_back(offset);
    if (i < first + count &&
        batch.items[static_cast<size_t>(i)].output == api::EncodeOutput::kScores)
      scored_.push_back(offset);
  }
  model::EncoderBatch slice;
  slice.tokens = batch.tokens.subspan(begin, rows);
  if (!batch.types.empty()) slice.types = batch.types.subspan(begin, rows);
  slice.offsets = offsets_;
  slice.scored = scored_;
  encoder_->Prepare(slice);
  model::Team team(board_, 0, position_);
  encoder_->Run(slice, team);
  position_ = team.position();
}

void CutSlices(std::span<const int32_t> offsets, int workers, std::vector<EncoderSlice>& slices) {
  slices.clear();
  const int items = static_cast<int>(offsets.size()) - 1;
  if (workers > kMaxWorkers || items < workers) return;
  const int rows = offsets.back() - offsets.front();
  const int rounds = std::max(1, (rows + workers * kSliceRows - 1) / (workers * kSliceRows));
  const int target = (rows + rounds * workers - 1) / (rounds * workers);
  EncoderSlice slice;
  for (int item = 0; item < items; ++item) {
    const int begin = offsets[static_cast<size_t>(slice.first)];
    const int end = offsets[static_cast<size_t>(item) + 1];
    const int size = end - offsets[static_cast<size_t>(item)];
    // Closed where it is nearer to the target without this item than with it.
    if (slice.count > 0 && end - begin - target > size - (end - begin - target)) {
      slices.push_back(slice);
      slice = {item, 0};
    }
    ++slice.count;
  }
  slices.push_back(slice);
  // What slices gain is lost if one worker has over an eighth more than its share of the rows. A
  // single worker has nothing to balance and gains from the cache.
  const int mean = (rows + workers - 1) / workers;
  if (LongestShare(offsets, slices, workers) > mean + mean / 8) slices.clear();
}

CpuEncoderRunner::CpuEncoderRunner(std::shared_ptr<ComputePool> pool,
                                   std::unique_ptr<model::Encoder> encoder,
                                   std::vector<std::unique_ptr<EncoderWorker>> workers,
                                   engine::EncoderLimits limits)
    : pool_(std::move(pool)),
      encoder_(std::move(encoder)),
      workers_(std::move(workers)),
      limits_(limits) {
  const auto items = static_cast<size_t>(limits.max_items);
  slices_.reserve(items);
  scored_.reserve(items);
  score_of_.reserve(items);
}

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
  limits.width = config.labels.empty() ? config.vector_width() : 0;
  limits.token_width = config.labels.empty() ? config.token_width() : 0;
  limits.labels = static_cast<int>(config.labels.size());
  model::Encoder::Options encoder_options;
  encoder_options.workers = options.pool->workers();
  encoder_options.max_rows = limits.max_tokens;
  encoder_options.max_scored = limits.max_items;
  ASSIGN_OR_RETURN(auto encoder,
                   model::Encoder::Create(weights, *options.kernels, encoder_options));
  std::vector<std::unique_ptr<EncoderWorker>> workers;
  for (int worker = 0; worker < options.pool->workers(); ++worker) {
    ASSIGN_OR_RETURN(auto encoder_worker,
                     EncoderWorker::Create(weights, *options.kernels, limits.max_items,
                                           std::max(2 * kSliceRows, limits.max_item_tokens)));
    workers.push_back(std::move(encoder_worker));
  }
  return std::unique_ptr<CpuEncoderRunner>(
      new CpuEncoderRunner(options.pool, std::move(encoder), std::move(workers), limits));
}

size_t CpuEncoderRunner::scratch_bytes() const {
  size_t bytes = encoder_->scratch_bytes();
  for (const auto& worker : workers_) bytes += worker->encoder().scratch_bytes();
  return bytes;
}

void CpuEncoderRunner::Launch(const engine::EncodeBatch& batch) {
  CHECK(!batch.items.empty() && batch.items.size() <= static_cast<size_t>(limits_.max_items));
  CutSlices(batch.offsets, pool_->workers(), slices_);
  if (slices_.empty()) {
    RunTogether(batch);
  } else {
    RunInSlices(batch);
  }
}

void CpuEncoderRunner::RunTogether(const engine::EncodeBatch& batch) {
  scored_.clear();
  score_of_.clear();
  for (const engine::EncodeItem& item : batch.items) {
    score_of_.push_back(static_cast<int>(scored_.size()));
    if (item.output == api::EncodeOutput::kScores) scored_.push_back(item.first);
  }
  const model::EncoderBatch packed{batch.tokens, batch.types, batch.offsets, scored_};
  encoder_->Prepare(packed);
  pool_->Run([&](model::Team& team) {
    encoder_->Run(packed, team);
    team.ForEachInOrder(static_cast<int>(batch.items.size()), [&](int index) {
      const engine::EncodeItem& item = batch.items[static_cast<size_t>(index)];
      Finish(item, *encoder_, team.worker(), item.first, score_of_[static_cast<size_t>(index)]);
    });
  });
}

void CpuEncoderRunner::RunInSlices(const engine::EncodeBatch& batch) {
  pool_->Run([&](model::Team& team) {
    EncoderWorker& encoder_worker = *workers_[static_cast<size_t>(team.worker())];
    team.ForEachInOrder(static_cast<int>(slices_.size()), [&](int index) {
      const EncoderSlice& slice = slices_[static_cast<size_t>(index)];
      encoder_worker.Run(batch, slice.first, slice.count);
      const int begin = batch.items[static_cast<size_t>(slice.first)].first;
      int score = 0;
      for (int i = slice.first; i < slice.first + slice.count; ++i) {
        const engine::EncodeItem& item = batch.items[static_cast<size_t>(i)];
        Finish(item, encoder_worker.encoder(), 0, item.first - begin, score);
        if (item.output == api::EncodeOutput::kScores) ++score;
      }
    });
  });
}

void CpuEncoderRunner::Finish(const engine::EncodeItem& item, model::Encoder& encoder, int worker,
                              int first_row, int score) {
  switch (item.output) {
    case api::EncodeOutput::kTokens:
      CHECK(limits_.of(item.output) > 0 &&
            item.out.size() ==
                static_cast<size_t>(item.tokens) * static_cast<size_t>(limits_.of(item.output)));
      encoder.WriteTokens(first_row, item.tokens, worker, item.out);
      break;
    case api::EncodeOutput::kPooled:
      CHECK(limits_.width > 0 && item.out.size() == static_cast<size_t>(limits_.width));
      encoder.WriteVector(first_row, item.tokens, worker, item.out);
      break;
    case api::EncodeOutput::kScores: {
      CHECK(limits_.labels > 0 && item.out.size() == static_cast<size_t>(limits_.labels));
      const float* scores = encoder.scores(score);
      std::copy(scores, scores + item.out.size(), item.out.begin());
      break;
    }
  }
}

}  // namespace tutti::runner
