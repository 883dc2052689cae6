#include "services/responses/response_writer.h"

#include <string>
#include <utility>

#include "base/check.h"
#include "protocol/responses/events.h"

namespace tutti::responses {
namespace {

using protocol::ResponseState;
using protocol::ResponseStatus;

bool Waits(const ResponseBase& base) { return base.state.background || base.turn.has_value(); }

// A record is not trusted: what its pieces do not fit to is left out.
void ReplayOutput(const ResponseRecord& record, ResponseWriter* writer) {
  auto piece = record.pieces.begin();
  auto token = record.end.tokens.begin();
  size_t text_bytes = 0;
  int calls = 0;
  for (const protocol::OutputItem& item : protocol::OutputOf(record.end)) {
    api::ToolCallDelta more{.index = calls};
    if (item.call.has_value()) {
      writer->Call({.index = calls++, .id = item.call->id, .name = item.call->name});
    }
    std::string_view left = item.call.has_value() ? item.call->arguments : item.text;
    const auto say = [&](std::string_view text) {
      if (item.reasoning) return writer->Reason(text);
      if (!item.call.has_value()) {
        std::vector<api::TokenLogprobs> tokens;
        for (; token != record.end.tokens.end() && token->text_before <= text_bytes; ++token)
          tokens.push_back(token->logprobs);
        text_bytes += text.size();
        return writer->Piece(text, std::move(tokens));
      }
      more.arguments = text;
      writer->Call(more);
    };
    while (!left.empty()) {
      if (piece == record.pieces.end() || *piece == 0 || *piece > left.size()) return;
      say(left.substr(0, *piece));
      left.remove_prefix(*piece++);
    }
  }
}

}  // namespace

void ResponseWriter::Add(protocol::ResponseEvent event) {
  response_->log().Append(std::move(event));
}

void ResponseWriter::AddLifecycle(ResponseState state, bool created) {
  Add(protocol::LifecycleEvent{created, std::make_shared<const ResponseState>(std::move(state))});
}

void ResponseWriter::Open() {
  const ResponseBase& base = response_->base();
  if (base.turn.has_value()) {
    Add(protocol::AcceptedEvent{base.turn->message_id, base.state.id, base.turn->turn,
                                static_cast<size_t>(base.turn->position)});
  }
  ResponseState state = base.state;
  state.status = Waits(base) ? ResponseStatus::kQueued : ResponseStatus::kInProgress;
  {
    const MutexLock lock(response_->mutex_);
    response_->state_.status = state.status;
  }
  AddLifecycle(state, /*created=*/true);
  if (Waits(base)) AddLifecycle(std::move(state));
}

void ResponseWriter::Truncated(const DroppedContext& dropped) {
  {
    const MutexLock lock(response_->mutex_);
    response_->dropped_ = dropped;
  }
  Add(protocol::ContextTruncatedEvent{response_->id(), dropped.turns, dropped.items});
}

void ResponseWriter::Begin() {
  begun_ = true;
  ResponseState state = response_->base().state;
  state.status = ResponseStatus::kInProgress;
  {
    const MutexLock lock(response_->mutex_);
    response_->state_.status = state.status;
  }
  AddLifecycle(std::move(state));
}

void ResponseWriter::OpenMessage() {
  blank_.clear();
  if (open_ == OpenItem::kMessage) return;
  CloseItem(response_->State(), "completed");
  open_ = OpenItem::kMessage;
  AddOpened({.id = protocol::MessageItemId(response_->base().state, messages_++)});
}

void ResponseWriter::OpenReasoning() {
  CloseItem(response_->State(), "completed");
  open_ = OpenItem::kReasoning;
  AddOpened(
      {.id = protocol::ReasoningItemId(response_->base().state, thoughts_++), .reasoning = true});
}

// The newest item, before it has a text.
void ResponseWriter::AddOpened(protocol::OutputItem item) {
  const auto shared = std::make_shared<const protocol::OutputItem>(std::move(item));
  Add(protocol::ItemAddedEvent{items() - 1, shared});
  Add(protocol::PartAddedEvent{items() - 1, shared});
}

// `state`: with the item's whole text or arguments.
void ResponseWriter::CloseItem(const ResponseState& state, std::string_view status) {
  if (open_ == OpenItem::kNone) return;
  const OpenItem kind = std::exchange(open_, OpenItem::kNone);
  std::vector<protocol::OutputItem> output = protocol::OutputOf(state);
  const size_t index = items() - 1;
  // A record that cannot be trusted may have fewer items, or others.
  if (index >= output.size()) return;
  const auto item = std::make_shared<const protocol::OutputItem>(std::move(output[index]));
  if ((kind == OpenItem::kCall) != item->call.has_value() ||
      (kind == OpenItem::kReasoning) != item->reasoning)
    return;
  if (kind == OpenItem::kCall) {
    Add(protocol::ArgumentsDoneEvent{index, item});
  } else {
    Add(protocol::TextDoneEvent{index, item});
    Add(protocol::PartDoneEvent{index, item});
  }
  Add(protocol::ItemDoneEvent{index, item, status});
}

// Models with reasoning off still write an empty pair of tags. So the item begins with its first
// text, and earlier white space belongs to the first delta.
void ResponseWriter::Reason(std::string_view text) {
  const bool opens = open_ != OpenItem::kReasoning;
  if (opens) {
    blank_ += text;
    if (blank_.find_first_not_of(" \t\r\n") == std::string::npos) return;
    OpenReasoning();
  }
  std::string piece = opens ? std::exchange(blank_, {}) : std::string(text);
  pieces_.push_back(static_cast<uint32_t>(piece.size()));
  {
    const MutexLock lock(response_->mutex_);
    ResponseState& state = response_->state_;
    if (opens) state.reasoning.push_back({"", state.text.size(), state.calls.size()});
    state.reasoning.back().text += piece;
  }
  Add(protocol::TextDeltaEvent{items() - 1,
                               protocol::ReasoningItemId(response_->base().state, thoughts_ - 1),
                               std::move(piece), /*reasoning=*/true});
}

void ResponseWriter::Piece(std::string_view text, std::vector<api::TokenLogprobs> tokens) {
  OpenMessage();
  pieces_.push_back(static_cast<uint32_t>(text.size()));
  {
    const MutexLock lock(response_->mutex_);
    ResponseState& state = response_->state_;
    for (const api::TokenLogprobs& token : tokens)
      state.tokens.push_back({token, state.text.size()});
    state.text += text;
  }
  Add(protocol::TextDeltaEvent{
      .index = items() - 1,
      .item_id = protocol::MessageItemId(response_->base().state, messages_ - 1),
      .text = std::string(text),
      .tokens = std::move(tokens)});
}

void ResponseWriter::Call(const api::ToolCallDelta& delta) {
  const ResponseState& base = response_->base().state;
  const auto index = static_cast<size_t>(delta.index);
  if (index == calls_) {
    blank_.clear();
    CloseItem(response_->State(), "completed");
    open_ = OpenItem::kCall;
    ++calls_;
    const auto item = std::make_shared<const protocol::OutputItem>(protocol::OutputItem{
        .id = protocol::CallItemId(base, index), .call = api::ToolCall{delta.id, delta.name, ""}});
    {
      const MutexLock lock(response_->mutex_);
      response_->state_.calls.push_back({*item->call, response_->state_.text.size()});
    }
    Add(protocol::ItemAddedEvent{items() - 1, item});
  }
  // Calls come one after the other: there is no more of one that the next item has ended.
  if (delta.arguments.empty() || open_ != OpenItem::kCall || index + 1 != calls_) return;
  pieces_.push_back(static_cast<uint32_t>(delta.arguments.size()));
  {
    const MutexLock lock(response_->mutex_);
    response_->state_.calls.back().call.arguments += delta.arguments;
  }
  Add(protocol::ArgumentsDeltaEvent{items() - 1, protocol::CallItemId(base, index),
                                    delta.arguments});
}

void ResponseWriter::End(const ResponseState& end) {
  CHECK(protocol::IsFinal(end.status));
  if (end.status == ResponseStatus::kCompleted || end.status == ResponseStatus::kIncomplete) {
    const bool answered = messages_ + calls_ > 0;
    if (items() == 0 || (end.status == ResponseStatus::kCompleted && !answered)) OpenMessage();
    CloseItem(end, protocol::LastItemStatus(end.status));
  }
  {
    const MutexLock lock(response_->mutex_);
    response_->state_ = end;
  }
  AddLifecycle(end);
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
  ReplayOutput(record, &writer);
  writer.End(record.end);
  return response;
}

}  // namespace tutti::responses
