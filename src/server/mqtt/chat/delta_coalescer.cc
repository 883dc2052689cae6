#include "server/mqtt/chat/delta_coalescer.h"

namespace tutti::mqtt::chat {

void DeltaCoalescer::Add(int64_t sequence, const protocol::TextDeltaEvent& delta, TimePoint now) {
  if (held_.has_value()) {
    held_->last = sequence;
    held_->event.text += delta.text;
  } else {
    held_ = Deltas{.first = sequence, .last = sequence, .event = delta};
    const bool paused = !sent_.has_value() || now - *sent_ >= options_.hold;
    due_ = paused ? now : now + options_.hold;
  }
  if (held_->event.text.size() >= options_.bytes) due_ = now;
}

void DeltaCoalescer::Sent(TimePoint now) {
  held_.reset();
  due_ = TimePoint::max();
  sent_ = now;
}

}  // namespace tutti::mqtt::chat
