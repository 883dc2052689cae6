#include "engine/sequence.h"

#include "base/check.h"

namespace tutti::engine {

std::string_view StateName(SequenceState state) {
  constexpr std::array<std::string_view, 4> kNames = {"waiting", "running", "paused", "finished"};
  return kNames[static_cast<size_t>(state)];
}

void Sequence::SetState(SequenceState to) {
  bool legal = false;
  switch (state_) {
    case SequenceState::kWaiting:  // admitted; held back before it ran; cancelled or expired in the
                                   // queue
      legal = to == SequenceState::kRunning || to == SequenceState::kPaused ||
              to == SequenceState::kFinished;
      break;
    case SequenceState::kRunning:  // preempted; reader behind; done, cancelled or failed
      legal = to == SequenceState::kWaiting || to == SequenceState::kPaused ||
              to == SequenceState::kFinished;
      break;
    case SequenceState::kPaused:  // may continue; cancelled
      legal = to == SequenceState::kWaiting || to == SequenceState::kFinished;
      break;
    case SequenceState::kFinished:
      break;
  }
  CHECK(legal) << "sequence " << id << ": " << StateName(state_) << " -> " << StateName(to);
  state_ = to;
}

void NoteWait(Sequence& s, api::WaitReason reason, TimePoint now, int tokens) {
  if (reason == s.waits_for) return;
  if (api::RequestTrace* const trace = s.request->trace.get()) {
    if (s.waits_for != api::WaitReason::kNone) trace->Waited(s.waits_for, now - s.waits_since);
    if (reason != api::WaitReason::kNone) {
      trace->engine().Append({.at = now,
                              .tokens = tokens,
                              .kind = api::TraceEvent::Kind::kWaits,
                              .reason = reason,
                              .choice = static_cast<uint8_t>(s.choice)});
    }
  }
  s.waits_for = reason;
  s.waits_since = now;
}

}  // namespace tutti::engine
