#include "server/mqtt/profile/delta_coalescer.h"

namespace tutti::mqtt::profile {

void DeltaCoalescer::Add(int64_t sequence, const TextDelta& delta, TimePoint now) {
  if (!held_.has_value()) {
    held_ = Deltas{.first = sequence,
                   .last = sequence,
                   .item_id = delta.item_id,
                   .output_index = delta.output_index,
                   .reasoning = delta.reasoning};
    const bool paused = !sent_.has_value() || now - *sent_ >= options_.hold;
    due_ = paused ? now : now + options_.hold;
  }
  held_->last = sequence;
  held_->text += delta.text;
  if (held_->text.size() >= options_.bytes) due_ = now;
}

void DeltaCoalescer::Sent(TimePoint now) {
  held_.reset();
  due_ = TimePoint::max();
  sent_ = now;
}

}  // namespace tutti::mqtt::profile
