#include "engine/reasoning_budget.h"

#include <algorithm>

namespace tutti::engine {

ReasoningBudget::ReasoningBudget(const ReasoningLimit& limit) {
  if (!limit.limited()) return;
  limit_ = &limit;
  phase_ = limit.inside ? Phase::kInside : Phase::kBefore;
  if (limit.inside && limit.tokens == 0) phase_ = Phase::kClosing;
}

TokenId ReasoningBudget::Forced() const {
  return phase_ == Phase::kClosing ? limit_->close[forced_] : kNoToken;
}

int ReasoningBudget::Unchecked() const {
  if (phase_ == Phase::kDone) return INT_MAX;
  if (phase_ == Phase::kInside) return std::max(limit_->tokens - used_, 1);
  return 1;
}

void ReasoningBudget::Take(std::string_view bytes) {
  if (phase_ == Phase::kDone) return;
  if (phase_ == Phase::kClosing) {
    if (++forced_ == limit_->close.size()) phase_ = Phase::kDone;
    return;
  }
  tail_ += bytes;
  const std::string& open = limit_->open_tag;
  const std::string& close = limit_->close_tag;
  if (phase_ == Phase::kBefore) {
    if (const size_t found = tail_.find(open); found != std::string::npos) {
      tail_.erase(0, found + open.size());
      phase_ = limit_->tokens == 0 ? Phase::kClosing : Phase::kInside;
    } else {
      const size_t text = tail_.find_first_not_of(" \t\r\n");
      // An answer without reasoning.
      if (text != std::string::npos && !open.starts_with(std::string_view(tail_).substr(text)))
        phase_ = Phase::kDone;
      return;
    }
  } else {
    ++used_;
  }
  if (tail_.find(close) != std::string::npos) {
    phase_ = Phase::kDone;
    return;
  }
  if (tail_.size() > close.size()) tail_.erase(0, tail_.size() - close.size());
  if (phase_ == Phase::kInside && used_ >= limit_->tokens) phase_ = Phase::kClosing;
}

}  // namespace tutti::engine
