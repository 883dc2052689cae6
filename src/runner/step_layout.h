// StepLayout: maps the slices of a StepPlan to the rows of the forward pass, and lists the rows
// whose logits are needed.
//
// Pure function of the plan. Member of CpuModelRunner; rebuilt for every step on the engine thread
// in reused memory, read by the compute threads.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/types.h"
#include "engine/step_plan.h"
#include "kernels/attention_plan.h"

namespace tutti::runner {

// A row whose logits or argmax are needed.
struct HeadRow {
  int32_t row = 0;               // of the step
  int32_t slice = 0;             // of the plan
  int32_t offset = 0;            // of the row in its slice
  TokenId successor = kNoToken;  // whose log-probability to report, or none
  bool sample = false;           // draw the next token from it
  int32_t draw = 0;              // ... as draw so many of its slice (engine::HistoryOf)
  bool needs_logits = false;     // false: the argmax answers it
};

class StepLayout {
 public:
  void Reserve(int max_tokens, int max_slices);

  // Lays the plan out. Tokens outside [0, vocab_size) are replaced by 0 and their slices marked.
  void Build(const engine::StepPlan& plan, int vocab_size, bool all_logits);

  std::span<const TokenId> tokens() const { return tokens_; }
  std::span<const kernels::AttentionSequence> sequences() const { return sequences_; }
  std::span<const HeadRow> head() const { return head_; }
  std::span<const int32_t> head_rows() const { return head_rows_; }  // head()[i].row
  // True where the slice holds a token that the vocabulary does not have.
  bool bad_token(int slice) const { return bad_token_[static_cast<size_t>(slice)] != 0; }

 private:
  void AddHeadRows(const engine::SequenceSlice& slice, int32_t index, int32_t first_row,
                   bool all_logits);

  std::vector<TokenId> tokens_;
  std::vector<kernels::AttentionSequence> sequences_;
  std::vector<HeadRow> head_;
  std::vector<int32_t> head_rows_;
  std::vector<uint8_t> bad_token_;
};

}  // namespace tutti::runner
