#include "services/responses/response_writer.h"

#include <string>
#include <utility>

#include "base/check.h"
#include "wire/json_writer.h"
#include "wire/response_events.h"

namespace tutti::responses {
namespace {

using wire::ResponseState;
using wire::ResponseStatus;

constexpr std::string_view kTruncated = "context.truncated";

// Ours: what of the dialog is no longer in the prompt that was in the one before.
std::string TruncatedEvent(int64_t sequence, std::string_view response_id,
                           const DroppedContext& dropped) {
  std::string out;
  wire::JsonWriter json(&out);
  json.BeginObject().Member("type", kTruncated).Member("sequence_number", sequence);
  json.Member("response_id", response_id).Member("dropped_turns", dropped.turns);
  json.Member("dropped_items", dropped.items).EndObject();
  return out;
}

bool Waits(const ResponseBase& base) { return base.state.background || base.turn.has_value(); }

}  // namespace

void ResponseWriter::Add(std::string_view type, std::string json, bool terminal) {
  response_->log().Append(type, std::move(json), terminal);
}

void ResponseWriter::Open() {
  const ResponseBase& base = response_->base();
  ResponseLog& log = response_->log();
  if (base.turn.has_value()) {
    Add("accepted", wire::AcceptedEvent(log.next(), base.turn->message_id, base.state.id,
                                        base.turn->turn, static_cast<size_t>(base.turn->position)));
  }
  ResponseState state = base.state;
  state.status = Waits(base) ? ResponseStatus::kQueued : ResponseStatus::kInProgress;
  {
    const MutexLock lock(response_->mutex_);
    response_->state_.status = state.status;
  }
  Add("response.created", wire::LifecycleEvent("response.created", log.next(), state));
  if (Waits(base))
    Add("response.queued", wire::LifecycleEvent("response.queued", log.next(), state));
}

void ResponseWriter::Truncated(const DroppedContext& dropped) {
  {
    const MutexLock lock(response_->mutex_);
    response_->dropped_ = dropped;
  }
  Add(kTruncated, TruncatedEvent(response_->log().next(), response_->id(), dropped));
}

void ResponseWriter::Begin() {
  begun_ = true;
  ResponseState state = response_->base().state;
  state.status = ResponseStatus::kInProgress;
  {
    const MutexLock lock(response_->mutex_);
    response_->state_.status = state.status;
  }
  Add("response.in_progress",
      wire::LifecycleEvent("response.in_progress", response_->log().next(), state));
}

void ResponseWriter::AddItem() {
  if (std::exchange(item_, true)) return;
  const ResponseState& state = response_->base().state;
  Add("response.output_item.added", wire::ItemAddedEvent(response_->log().next(), state));
  Add("response.content_part.added", wire::PartAddedEvent(response_->log().next(), state));
}

void ResponseWriter::Piece(std::string_view text) {
  AddItem();
  pieces_.push_back(static_cast<uint32_t>(text.size()));
  {
    const MutexLock lock(response_->mutex_);
    response_->state_.text += text;
  }
  Add("response.output_text.delta",
      wire::TextDeltaEvent(response_->log().next(), response_->base().state, text));
}

void ResponseWriter::End(const ResponseState& end) {
  CHECK(wire::IsFinal(end.status));
  {
    const MutexLock lock(response_->mutex_);
    response_->state_ = end;
  }
  ResponseLog& log = response_->log();
  if (end.status == ResponseStatus::kCompleted || end.status == ResponseStatus::kIncomplete) {
    AddItem();
    Add("response.output_text.done", wire::TextDoneEvent(log.next(), end));
    Add("response.content_part.done", wire::PartDoneEvent(log.next(), end));
    Add("response.output_item.done", wire::ItemDoneEvent(log.next(), end));
  }
  const std::string_view type = wire::LifecycleType(end.status);
  Add(type, wire::LifecycleEvent(type, log.next(), end), /*terminal=*/true);
}

ResponseRecord ResponseWriter::Record(const ResponseState& end) const {
  return {.base = response_->base(),
          .end = end,
          .pieces = pieces_,
          .begun = begun_,
          .dropped = response_->dropped()};
}

std::shared_ptr<Response> Replay(const ResponseRecord& record, size_t log_bytes) {
  auto response = std::make_shared<Response>(record.base, log_bytes);
  ResponseWriter writer(response);
  writer.Open();
  if (record.dropped.turns > 0) writer.Truncated(record.dropped);
  if (record.begun) writer.Begin();
  size_t at = 0;
  for (const uint32_t bytes : record.pieces) {
    if (bytes == 0 || bytes > record.end.text.size() - at) break;  // a record is not trusted
    writer.Piece(std::string_view(record.end.text).substr(at, bytes));
    at += bytes;
  }
  writer.End(record.end);
  return response;
}

}  // namespace tutti::responses
