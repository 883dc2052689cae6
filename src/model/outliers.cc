#include "model/outliers.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "kernels/attention_plan.h"
#include "model/decoder.h"

namespace tutti::model {
namespace {

// Tokens that are run. The row of the first one is not counted: it is an attention sink, whose
// outliers are not those of other rows.
constexpr int kTokens = 16;
// The share of the input's squared quantisation error that a column must save to be kept as floats.
// Each column costs three vector operations for each row and 16 outputs.
constexpr double kMinSaving = 0.02;

// The rows of one matrix's input.
class Rows {
 public:
  explicit Rows(int width) : width_(static_cast<size_t>(width)) {}

  // Scales the row to length 1: an error matters relative to the row that it is in.
  void Add(const float* x) {
    const double length = std::sqrt(std::inner_product(x, x + width_, x, 0.0));
    if (!(length > 0) || !std::isfinite(length)) return;
    for (size_t i = 0; i < width_; ++i) values_.push_back(x[i] / length);
  }

  // The columns whose removal lowers the sum of the blocks' squared maxima most. The squared error
  // of rounding is proportional to that sum. Columns are removed one by one, as the second greatest
  // value of a block counts only when the greatest is gone.
  std::vector<int32_t> Find() {
    std::vector<int32_t> columns;
    double total = 0;
    for (size_t at = 0; at < values_.size(); at += kernels::kQuantBlock)
      total += GreatestOf(at).square;
    while (std::ssize(columns) < kernels::kMaxOutliers) {
      std::vector<double> savings(width_);
      for (size_t at = 0; at < values_.size(); at += kernels::kQuantBlock) {
        const Greatest greatest = GreatestOf(at);
        savings[greatest.index % width_] += greatest.square - greatest.second_square;
      }
      const auto best = std::max_element(savings.begin(), savings.end());
      if (best == savings.end() || *best <= 0 || *best < kMinSaving * total) break;
      const auto column = static_cast<size_t>(best - savings.begin());
      columns.push_back(static_cast<int32_t>(column));
      for (size_t at = column; at < values_.size(); at += width_) values_[at] = 0;
    }
    std::sort(columns.begin(), columns.end());
    return columns;
  }

 private:
  struct Greatest {
    size_t index = 0;
    double square = 0, second_square = 0;
  };
  // The greatest and second greatest square in the block that begins at value `at`.
  Greatest GreatestOf(size_t at) const {
    Greatest greatest;
    for (size_t i = at; i < at + kernels::kQuantBlock; ++i) {
      const double square = values_[i] * values_[i];
      if (square > greatest.square) {
        greatest = {i, square, greatest.square};
      } else {
        greatest.second_square = std::max(greatest.second_square, square);
      }
    }
    return greatest;
  }

  size_t width_;
  std::vector<double> values_;  // row after row
};

class Collector : public InputObserver {
 public:
  Collector(int layers, int width)
      : inputs_(static_cast<size_t>(layers), {Rows(width), Rows(width)}) {}

  void Observe(Input input, int layer, const float* x) override {
    auto& [attention, feed_forward] = inputs_[static_cast<size_t>(layer)];
    (input == Input::kAttention ? attention : feed_forward).Add(x);
  }

  std::vector<std::pair<Rows, Rows>>& inputs() { return inputs_; }

 private:
  std::vector<std::pair<Rows, Rows>> inputs_;  // [layers] of attention and of the feed-forward
};

// Ids spread over the vocabulary, the same at every start. Real text is not needed: outliers hardly
// depend on the token.
std::vector<TokenId> FixedTokens(int count, int vocabulary) {
  std::vector<TokenId> tokens;
  for (uint64_t i = 1; i <= static_cast<uint64_t>(count); ++i) {
    tokens.push_back(
        static_cast<TokenId>((i * 2654435761u >> 8) % static_cast<uint64_t>(vocabulary)));
  }
  return tokens;
}

// The machine's best kernels that can read the weights. Weights for --isa scalar may hold pairs of
// bfloat16, which AVX2 and the integer part of AVX-512 cannot multiply.
const kernels::KernelTable& KernelsThatRead(const Weights& weights) {
  const std::vector<kernels::Isa> isas = kernels::DetectIsas();
  for (auto isa = isas.rbegin(); isa != isas.rend(); ++isa) {
    const kernels::KernelTable& table = kernels::KernelsFor(*isa);
    const bool reads = (table.gemm.bf16_pairs || !weights.bf16_pairs()) &&
                       (table.gemm.bf16_tiles || !weights.bf16_tiles());
    if (reads) return table;
  }
  return kernels::KernelsFor(isas.front());
}

}  // namespace

Result<OutlierColumns> FindOutliers(std::shared_ptr<const Weights> weights) {
  const ModelConfig& config = weights->config();
  const int layers = config.layers;
  OutlierColumns found;
  found.attention.resize(static_cast<size_t>(layers));
  found.feed_forward.resize(static_cast<size_t>(layers));
  const int count = std::min(kTokens, config.context_length);

  Collector collector(layers, config.width);
  Decoder::Options options;
  options.max_rows = count;
  options.max_head_rows = 1;
  options.context = count;
  options.kv_dtype = KvDtype::kF32;
  options.observer = &collector;
  ASSIGN_OR_RETURN(const auto decoder,
                   Decoder::Create(weights, KernelsThatRead(*weights), options));
  static_assert(kTokens <= kBlockTokens, "one block of the cache holds them");
  ASSIGN_OR_RETURN(auto kv, kernels::AlignedBuffer::Allocate(decoder->kv_block_bytes()));
  const int32_t block = 0;
  const kernels::AttentionSequence sequence{
      .blocks = &block, .start = 0, .rows = count, .first_row = 0};
  kernels::AttentionPlan plan;
  plan.Build(decoder->attention_shape(), {&sequence, 1}, /*workers=*/1);
  kernels::AttentionPlan window_plan;
  if (decoder->has_window_plan()) {
    window_plan.Build(decoder->window_shape(), {&sequence, 1}, /*workers=*/1,
                      /*share_prefixes=*/true, config.attention_window());
  }
  ASSIGN_OR_RETURN(
      auto partials,
      kernels::AlignedBuffer::Allocate(
          std::max(plan.partial_floats(), window_plan.partial_floats()) * sizeof(float)));
  const std::vector<TokenId> tokens = FixedTokens(count, config.vocab_size);
  DecoderBatch batch;
  batch.tokens = tokens;
  batch.places = plan.places();
  batch.attention = plan.work();
  batch.attention_items = plan.items();
  batch.window.attention = window_plan.work();
  batch.window.attention_items = window_plan.items();
  batch.partials = reinterpret_cast<float*>(partials.data());
  batch.kv = kv.data();
  batch.kv_blocks = 1;
  ASSIGN_OR_RETURN(auto state, kernels::AlignedBuffer::Allocate(decoder->state_bytes()));
  std::fill_n(state.data(), state.size(), std::byte{0});
  const StateSlice slice{.first_row = 0, .rows = count, .state = state.data()};
  batch.states = {&slice, 1};
  PhaseBoard board(1);
  Team team(board, 0, {});
  decoder->RunLayers(batch, team);

  for (size_t i = 0; i < static_cast<size_t>(layers); ++i) {
    found.attention[i] = collector.inputs()[i].first.Find();
    found.feed_forward[i] = collector.inputs()[i].second.Find();
  }
  Rows head(config.width);
  std::vector<float> row(static_cast<size_t>(config.width));
  for (int i = 1; i < count; ++i) {
    decoder->FinalRow(i, row.data());
    head.Add(row.data());
  }
  found.head = head.Find();
  return found;
}

}  // namespace tutti::model
