#include "runner/cpu_decoder_embedder.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/check.h"
#include "model/encoder.h"

namespace tutti::runner {
Result<std::unique_ptr<CpuDecoderEmbedder>> CpuDecoderEmbedder::Create(
    std::shared_ptr<const model::Weights> weights, const DecoderEmbedderOptions& options) {
  CHECK(options.kernels != nullptr && options.pool != nullptr);
  CHECK(options.max_items >= 1 && options.max_tokens >= 1 && options.max_item_tokens >= 1 &&
        options.max_step_tokens >= 1);
  const model::ModelConfig& config = weights->config();
  CHECK_EQ(model::Decoder::StateBytes(config), 0u) << "a recurrent decoder gives no embeddings";
  engine::EncoderLimits limits;
  limits.max_items = options.max_items;
  limits.max_item_tokens = std::min(options.max_item_tokens, config.context_length);
  limits.max_tokens = std::max(options.max_tokens, limits.max_item_tokens);
  limits.vocab_size = config.vocab_size;
  if (options.head.scores()) {
    limits.labels = 1;
  } else {
    limits.token_width = config.width;
    limits.width = options.head.dense.empty() ? config.width
                                              : static_cast<int>(options.head.dense.back().columns);
  }
  // The cache lives for one batch only, so that int8 would save little memory, and its rounding
  // would change the embedding.
  const model::KvDtype kv_dtype =
      weights->mode() == model::WeightMode::kF32 ? model::KvDtype::kF32 : model::KvDtype::k16Bit;
  const size_t block_bytes =
      model::Decoder::KvBlockBytes(config, weights->mode(), *options.kernels, kv_dtype);
  model::Decoder::Options decoder_options;
  decoder_options.workers = options.pool->workers();
  const int step = config.both_ways ? std::max(options.max_step_tokens, limits.max_item_tokens)
                                    : options.max_step_tokens;
  decoder_options.max_rows = std::min(step, limits.max_tokens);
  decoder_options.max_head_rows = 1;  // no head is run
  decoder_options.context = limits.max_item_tokens;
  decoder_options.kv_dtype = kv_dtype;
  ASSIGN_OR_RETURN(auto decoder,
                   model::Decoder::Create(std::move(weights), *options.kernels, decoder_options));
  // Each text begins a block of its own.
  const auto blocks = static_cast<size_t>(BlocksFor(limits.max_tokens) + limits.max_items);
  ASSIGN_OR_RETURN(auto kv, kernels::AlignedBuffer::Allocate(blocks * block_bytes));
  return std::unique_ptr<CpuDecoderEmbedder>(
      new CpuDecoderEmbedder(options, limits, std::move(decoder), std::move(kv)));
}

CpuDecoderEmbedder::CpuDecoderEmbedder(const DecoderEmbedderOptions& options,
                                       engine::EncoderLimits limits,
                                       std::unique_ptr<model::Decoder> decoder,
                                       kernels::AlignedBuffer kv)
    : pool_(options.pool),
      pooling_(options.pooling),
      head_(options.head),
      limits_(limits),
      decoder_(std::move(decoder)),
      kv_(std::move(kv)),
      pass_(*decoder_, pool_->workers(), /*share_prefixes=*/true) {
  const auto items = static_cast<size_t>(limits.max_items);
  const auto width = static_cast<size_t>(decoder_->weights().config().width);
  blocks_.resize(static_cast<size_t>(BlocksFor(limits.max_tokens)) + items);
  for (size_t i = 0; i < blocks_.size(); ++i) blocks_[i] = static_cast<int32_t>(i);
  first_block_.reserve(items);
  if (pooling_ == model::Pooling::kMean) sums_.resize(items * width);
  if (!head_.dense.empty()) pooled_.assign(items, std::vector<float>(width));
  normed_.assign(static_cast<size_t>(pool_->workers()), std::vector<float>(width));
  parts_.reserve(items);
  sequences_.reserve(items);
  tokens_.reserve(static_cast<size_t>(decoder_->options().max_rows));
}

void CpuDecoderEmbedder::Launch(const engine::EncodeBatch& batch) {
  CHECK(!batch.items.empty() && batch.items.size() <= static_cast<size_t>(limits_.max_items));
  CHECK(batch.tokens.size() <= static_cast<size_t>(limits_.max_tokens));
  status_ = OkStatus();
  LayOutBlocks(batch);
  std::fill(sums_.begin(), sums_.end(), 0);
  size_t item = 0;
  int row = 0;
  while (item < batch.items.size()) {
    Fill(batch, item, row);
    if (status_ = RunStep(batch); !status_.ok()) return;
  }
}

void CpuDecoderEmbedder::LayOutBlocks(const engine::EncodeBatch& batch) {
  first_block_.clear();
  int next = 0;
  for (const engine::EncodeItem& item : batch.items) {
    CHECK(item.tokens >= 1 && item.tokens <= limits_.max_item_tokens) << item.tokens;
    first_block_.push_back(next);
    next += BlocksFor(item.tokens);
  }
  CHECK_LE(static_cast<size_t>(next), blocks_.size());
}

void CpuDecoderEmbedder::Fill(const engine::EncodeBatch& batch, size_t& item, int& row) {
  const int room = decoder_->options().max_rows;
  const bool both_ways = decoder_->weights().config().both_ways;
  parts_.clear();
  sequences_.clear();
  tokens_.clear();
  while (item < batch.items.size() && static_cast<int>(tokens_.size()) < room) {
    const engine::EncodeItem& text = batch.items[item];
    const auto first_row = static_cast<int>(tokens_.size());
    const int rows = std::min(text.tokens - row, room - first_row);
    if (both_ways && rows < text.tokens) return;  // in a step of its own, whole
    parts_.push_back({static_cast<int>(item), row, rows, first_row});
    sequences_.push_back({blocks_.data() + first_block_[item], row, rows,
                          static_cast<int32_t>(first_row), both_ways});
    const auto tokens =
        batch.tokens.subspan(static_cast<size_t>(text.first + row), static_cast<size_t>(rows));
    tokens_.insert(tokens_.end(), tokens.begin(), tokens.end());
    row += rows;
    if (row < text.tokens) return;  // the step is full
    ++item;
    row = 0;
  }
}

Status CpuDecoderEmbedder::RunStep(const engine::EncodeBatch& batch) {
  ASSIGN_OR_RETURN(model::DecoderBatch step, pass_.Prepare(tokens_, sequences_, {}));
  step.kv = kv_.data();
  step.kv_blocks = static_cast<int>(blocks_.size());
  pool_->Run([&](model::Team& team) {
    (void)decoder_->RunLayers(step, team);  // never aborted
    team.ForEachInOrder(static_cast<int>(parts_.size()), [&](int index) {
      FinishPart(batch, parts_[static_cast<size_t>(index)], team.worker());
    });
  });
  return OkStatus();
}

// Pools the rows of one text that the step computed.
void CpuDecoderEmbedder::FinishPart(const engine::EncodeBatch& batch, const Part& part,
                                    int worker) {
  const engine::EncodeItem& item = batch.items[static_cast<size_t>(part.item)];
  const auto width = static_cast<size_t>(limits_.of(item.output));
  const bool all = item.output == api::EncodeOutput::kTokens;
  const bool scored = item.output == api::EncodeOutput::kScores;
  CHECK(width > 0 && scored == head_.scores() &&
        item.out.size() == (all ? static_cast<size_t>(item.tokens) * width : width));
  std::vector<float>& normed = normed_[static_cast<size_t>(worker)];
  for (int r = 0; r < part.rows; ++r) {
    const int row = part.start + r;
    const bool last = row == item.tokens - 1;
    const bool pools = all || pooling_ == model::Pooling::kMean ||
                       pooling_ == model::Pooling::kMax ||
                       (pooling_ == model::Pooling::kCls ? row == 0 : last);
    if (!(scored ? last : pools)) continue;
    decoder_->FinalRow(part.first_row + r, normed.data());
    if (scored) {
      item.out[0] = Score(normed);
    } else if (all) {
      std::copy(normed.begin(), normed.end(),
                item.out.begin() + static_cast<std::ptrdiff_t>(static_cast<size_t>(row) * width));
    } else {
      const bool projects = !head_.dense.empty();
      std::vector<float>* vector = projects ? &pooled_[static_cast<size_t>(part.item)] : nullptr;
      PoolRow(item, part.item, row, normed.data(), projects ? vector->data() : item.out.data());
      if (projects && last) Project(*vector, item.out);
    }
  }
}

// The difference of the two logits, each as the model's head gives it.
float CpuDecoderEmbedder::Score(const std::vector<float>& last_row) const {
  const model::ModelConfig& config = decoder_->weights().config();
  const auto logit = [&](const std::vector<float>& row) {
    double sum = 0;
    for (size_t i = 0; i < row.size(); ++i) sum += double{last_row[i]} * double{row[i]};
    sum *= config.logit_scale;
    const double cap = config.logit_softcap;
    return cap > 0 ? cap * std::tanh(sum / cap) : sum;
  };
  return static_cast<float>(logit(head_.yes) - (head_.no.empty() ? 0 : logit(head_.no)));
}

// Rows are added in order, so that a sum over several steps has the same bits as in one step.
void CpuDecoderEmbedder::PoolRow(const engine::EncodeItem& item, int index, int row,
                                 const float* values, float* out) {
  const auto width = static_cast<size_t>(limits_.token_width);
  switch (pooling_) {
    case model::Pooling::kCls:
    case model::Pooling::kLast:
      std::copy(values, values + width, out);
      return;
    case model::Pooling::kMax:
      for (size_t i = 0; i < width; ++i)
        out[i] = row == 0 ? values[i] : model::PoolMax(out[i], values[i]);
      return;
    case model::Pooling::kMean: {
      double* sums = sums_.data() + static_cast<size_t>(index) * width;
      for (size_t i = 0; i < width; ++i) sums[i] += values[i];
      if (row < item.tokens - 1) return;
      for (size_t i = 0; i < width; ++i) out[i] = static_cast<float>(sums[i] / item.tokens);
      return;
    }
  }
}

// Sums ascend over the inputs, for all outputs at once.
void CpuDecoderEmbedder::Project(const std::vector<float>& vector, std::span<float> out) const {
  std::vector<float> x = vector, y;
  for (const model::VectorHead::Dense& layer : head_.dense) {
    const size_t columns = layer.columns;
    y.assign(columns, 0);
    for (size_t i = 0; i < x.size(); ++i) {
      const float* row = layer.weight.data() + i * columns;
      for (size_t o = 0; o < columns; ++o) y[o] += x[i] * row[o];
    }
    for (size_t o = 0; o < columns; ++o) {
      if (!layer.bias.empty()) y[o] += layer.bias[o];
      if (layer.activation) y[o] = model::Activate(*layer.activation, y[o]);
    }
    x.swap(y);
  }
  std::copy(x.begin(), x.end(), out.begin());
}

}  // namespace tutti::runner
