#include "doors/mqtt/profile/delta_coalescer.h"

namespace tutti::mqtt::profile {

void DeltaCoalescer::Add(int64_t sequence, std::string_view text, TimePoint now) {
  if (!held_.has_value()) {
    held_ = Deltas{.first = sequence, .last = sequence, .text = {}};
    const bool paused = !sent_.has_value() || now - *sent_ >= options_.hold;
    due_ = paused ? now : now + options_.hold;
  }
  held_->last = sequence;
  held_->text += text;
  if (held_->text.size() >= options_.bytes) due_ = now;
}

void DeltaCoalescer::Sent(TimePoint now) {
  held_.reset();
  due_ = TimePoint::max();
  sent_ = now;
}

}  // namespace tutti::mqtt::profile
