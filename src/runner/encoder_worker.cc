#include "runner/encoder_worker.h"

#include <utility>

namespace tutti::runner {

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

}  // namespace tutti::runner
