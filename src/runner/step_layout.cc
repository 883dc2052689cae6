#include "runner/step_layout.h"

#include "base/check.h"

namespace tutti::runner {

void StepLayout::Reserve(int max_tokens, int max_slices) {
  const auto tokens = static_cast<size_t>(max_tokens);
  const auto slices = static_cast<size_t>(max_slices);
  tokens_.reserve(tokens);
  sequences_.reserve(slices);
  head_.reserve(tokens);
  head_rows_.reserve(tokens);
  bad_token_.reserve(slices);
}

void StepLayout::Build(const engine::StepPlan& plan, int vocab_size, bool all_logits) {
  tokens_.clear();
  sequences_.clear();
  head_.clear();
  head_rows_.clear();
  bad_token_.assign(plan.slices.size(), 0);
  for (size_t i = 0; i < plan.slices.size(); ++i) {
    const engine::SequenceSlice& slice = plan.slices[i];
    const auto rows = static_cast<int32_t>(slice.tokens.size());
    const auto first_row = static_cast<int32_t>(tokens_.size());
    CHECK_GE(rows, 1);
    CHECK_GE(static_cast<int64_t>(slice.blocks.size()) * kBlockTokens, int64_t{slice.start} + rows)
        << "sequence " << slice.sequence;
    sequences_.push_back({slice.blocks.data(), slice.start, rows, first_row});
    for (const TokenId token : slice.tokens) {
      const bool known = token >= 0 && token < vocab_size;
      tokens_.push_back(known ? token : 0);
      if (!known) bad_token_[i] = 1;
    }
    AddHeadRows(slice, static_cast<int32_t>(i), first_row, all_logits);
  }
}

void StepLayout::AddHeadRows(const engine::SequenceSlice& slice, int32_t index, int32_t first_row,
                             bool all_logits) {
  const auto rows = static_cast<int32_t>(slice.tokens.size());
  const bool score = slice.prompt_logprobs >= 0;
  const int32_t first_draw = rows - 1 - slice.drafts;
  CHECK(slice.drafts >= 0 && slice.drafts <= engine::kMaxDrafts && first_draw >= 0);
  for (int32_t offset = score ? 0 : first_draw; offset < rows; ++offset) {
    const bool last = offset == rows - 1;
    HeadRow row;
    row.row = first_row + offset;
    row.slice = index;
    row.offset = offset;
    if (score)
      row.successor = last ? slice.next_token : slice.tokens[static_cast<size_t>(offset) + 1];
    row.sample = offset >= first_draw && slice.sample;
    row.draw = offset - first_draw;
    if (row.successor == kNoToken && !row.sample) continue;
    CHECK(!row.sample || slice.sampler != nullptr);
    row.needs_logits = all_logits || row.successor != kNoToken ||
                       (row.sample && !engine::HistoryOf(slice, row.draw).plain_argmax());
    head_.push_back(row);
    head_rows_.push_back(row.row);
  }
}

}  // namespace tutti::runner
