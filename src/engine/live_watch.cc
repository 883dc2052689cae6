#include "engine/live_watch.h"

#include <algorithm>
#include <chrono>

namespace tutti::engine {
namespace {

// The time over which rates are computed.
constexpr Duration kRateTime = std::chrono::seconds(5);

}  // namespace

void StepRing::CopyTo(api::LiveEngine* out, TimePoint now) const {
  const uint64_t kept = std::min<uint64_t>(count_, steps_.size());
  out->steps_total = count_;
  TimePoint from = now - kRateTime;
  int64_t output_tokens = 0, prompt_tokens = 0;
  Duration busy{0};
  for (uint64_t i = count_ - kept; i < count_; ++i) {
    const api::LiveStep& step = steps_[i % steps_.size()];
    // Older steps were overwritten: the rates are those of the time that the ring covers.
    if (i == count_ - kept && kept == steps_.size()) from = std::max(from, step.begin);
    out->steps.push_back(step);
    if (step.begin < from) continue;
    output_tokens += step.output_tokens;
    prompt_tokens += step.prefill_tokens;
    busy += step.plan + step.launch + step.collect + step.commit;
  }
  const double seconds = std::max(ToSeconds(now - from), 1e-3);
  out->output_tokens_per_s = static_cast<double>(output_tokens) / seconds;
  out->prompt_tokens_per_s = static_cast<double>(prompt_tokens) / seconds;
  out->busy_share = std::min(ToSeconds(busy) / seconds, 1.0);
}

void LiveWatch::Ask() {
  {
    const MutexLock lock(mutex_);
    buffer_.sequences.reserve(api::LiveEngine::kMaxRows);
    buffer_.kv_map.reserve(api::LiveEngine::kMaxCells);
    buffer_.steps.reserve(api::LiveEngine::kSteps);
  }
  wanted_.store(true, std::memory_order_release);
  signal_->Notify();
}

bool LiveWatch::Read(api::LiveEngine* out) const {
  const MutexLock lock(mutex_);
  if (buffer_.taken == TimePoint{}) return false;
  *out = buffer_;
  return true;
}

void LiveWatch::Clear(TimePoint now) {
  api::LiveEngine empty;
  empty.taken = now;
  empty.sequences = std::move(buffer_.sequences);
  empty.kv_map = std::move(buffer_.kv_map);
  empty.steps = std::move(buffer_.steps);
  empty.sequences.clear();
  empty.kv_map.clear();
  empty.steps.clear();
  buffer_ = std::move(empty);
}

void DrawBlocks(const std::vector<char>& states, api::LiveEngine* out) {
  const size_t cell = (states.size() + api::LiveEngine::kMaxCells - 1) / api::LiveEngine::kMaxCells;
  out->kv_cell_blocks = static_cast<int>(std::max<size_t>(cell, 1));
  if (cell <= 1) {
    out->kv_map.assign(states.data(), states.size());
    return;
  }
  // If several states are equally frequent, the first of these is shown.
  constexpr std::array kOrder = {api::LiveEngine::kPinned, api::LiveEngine::kShared,
                                 api::LiveEngine::kUsed, api::LiveEngine::kCached,
                                 api::LiveEngine::kFree};
  for (size_t first = 0; first < states.size(); first += cell) {
    const auto begin = states.begin() + static_cast<std::ptrdiff_t>(first);
    const auto end = begin + static_cast<std::ptrdiff_t>(std::min(cell, states.size() - first));
    char most = kOrder.front();
    std::ptrdiff_t most_blocks = -1;
    for (const char state : kOrder) {
      const std::ptrdiff_t blocks = std::count(begin, end, state);
      if (blocks <= most_blocks) continue;
      most = state;
      most_blocks = blocks;
    }
    out->kv_map.push_back(most);
  }
}

}  // namespace tutti::engine
