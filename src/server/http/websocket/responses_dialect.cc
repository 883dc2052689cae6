#include "server/http/websocket/responses_dialect.h"

#include <algorithm>

#include "services/responses/call_state.h"

namespace tutti::http {
namespace {

using SocketVerb = protocol::SocketMessage::Verb;

}  // namespace

Status SocketChannel::Add(protocol::SocketMessage message, BudgetShare share) {
  if (waiting_.size() >= connection_.context().options.socket.channel_messages) {
    return ResourceExhausted("session_queue_full", std::to_string(waiting_.size()) +
                                                       " messages of this stream_id wait already");
  }
  waiting_.push_back({std::move(message), std::move(share)});
  return OkStatus();
}

void SocketChannel::Next() {
  if (std::exchange(beginning_, true)) return;  // what ends at once is followed in the loop
  while (!busy_ && !waiting_.empty()) {
    Waiting next = std::move(waiting_.front());
    waiting_.pop_front();
    share_ = std::move(next.share);
    busy_ = true;
    Begin(std::move(next.message));
  }
  beginning_ = false;
  if (idle()) host_.ChannelIdle();
}

void SocketChannel::Begin(protocol::SocketMessage message) {
  if (!message.job_id.empty()) return FollowJob(message.job_id, message.starting_after);
  if (message.verb == protocol::SocketMessage::Verb::kSubscribe)
    return Subscribe(message.response_id, message.starting_after);
  Create(std::move(message.call));
}

void SocketChannel::Create(protocol::ResponsesCall call) {
  ResponseStart::Given given;
  if (const auto* dialog = host_.Remembered(call.previous_response_id)) {
    if (call.store || !call.conversation.empty()) {
      return Fail(InvalidArgument("invalid_value",
                                  "what is not stored can be followed only by what is not stored "
                                  "either: send store: false")
                      .WithParam("previous_response_id"));
    }
    given.said_before = *dialog;
  }
  start_ = std::make_shared<ResponseStart>(connection_, std::move(call), std::move(given));
  start_->Run([this](const Status& why, Connection::Origin origin) {
    share_.Release();  // the model has it
    if (!why.ok()) return Fail(why, origin);
    Show(start_->response(), -1);
  });
}

void SocketChannel::Subscribe(const std::string& response_id, int64_t starting_after) {
  using Found = Result<std::shared_ptr<responses::Response>>;
  connection_.context().deps.responses->Find(
      connection_.request_context().tenant(), response_id,
      connection_.Later([this, starting_after](const Found& found) {
        if (!found.ok()) return Fail(found.status());
        Show(*found, starting_after);
      }));
}

void SocketChannel::FollowJob(const std::string& id, int64_t version) {
  job_ = std::make_shared<JobFollow>(connection_, id, version);
  job_->Run(
      [this](const protocol::JobView& job) {
        host_.Send(protocol::WithStreamId(protocol::JobEvent(job), stream_id_));
      },
      [this](const Status& status) { return status.ok() ? End() : Fail(status); });
}

void SocketChannel::Show(const std::shared_ptr<responses::Response>& response,
                         int64_t starting_after) {
  Result<ResponseCursor> cursor =
      ResponseCursor::Open(response, starting_after, connection_.loop());
  if (!cursor.ok()) return Fail(cursor.status());
  cursor_.emplace(*std::move(cursor));
  Pump();
}

bool SocketChannel::Pump() {
  if (!cursor_.has_value() || !host_.HasRoom()) return false;
  const Result<std::vector<ResponseCursor::Event>> events = cursor_->Next();
  if (!events.ok()) {
    Fail(events.status());
    return true;
  }
  for (const ResponseCursor::Event& event : *events)
    host_.Send(protocol::WithStreamId(event.Json(), stream_id_));
  if (!cursor_->ended()) return !events->empty();
  if (const Status place = cursor_->Place(); !place.ok()) {
    Fail(place);
    return true;
  }
  Remember();
  End();
  return true;
}

void SocketChannel::Remember() {
  if (start_ == nullptr || start_->call().store) return;
  remembered_id_.clear();
  remembered_ = start_->TakeDialog();
  const protocol::ResponseState state = start_->response()->State();
  for (api::ChatMessage& said : responses::AnswerOf(state)) {
    if (!said.content.empty() || !said.tool_calls.empty() || !said.reasoning.empty())
      remembered_.push_back(std::move(said));
  }
  size_t bytes = 0;
  for (const api::ChatMessage& message : remembered_) {
    bytes += message.content.size() + message.reasoning.size();
    for (const api::ToolCall& call : message.tool_calls) bytes += call.arguments.size();
  }
  const bool ended_well = state.status == protocol::ResponseStatus::kCompleted ||
                          state.status == protocol::ResponseStatus::kIncomplete;
  if (ended_well && bytes <= connection_.context().options.socket.channel_memory_bytes) {
    remembered_id_ = state.id;
  } else {
    remembered_.clear();
  }
}

const ResponseStart::Messages* SocketChannel::Remembered(const std::string& response_id) const {
  return !response_id.empty() && response_id == remembered_id_ ? &remembered_ : nullptr;
}

void SocketChannel::Fail(const Status& why, Connection::Origin origin) {
  host_.SendError(why, origin, stream_id_);
  End();
}

void SocketChannel::End() {
  cursor_.reset();
  start_.reset();
  job_.reset();
  share_.Release();
  busy_ = false;
  idle_since_ = connection_.loop()->clock().Now();
  Next();
}

ResponsesDialect::Understood ResponsesDialect::Understand(std::string_view text,
                                                          const protocol::ParseOptions& options) {
  Understood understood;
  understood.message = protocol::ParseSocketMessage(text, options, &understood.tag);
  return understood;
}

const std::string* ResponsesDialect::TokenOf(const protocol::SocketMessage& message) {
  return message.verb == SocketVerb::kAuth ? &message.token : nullptr;
}

void ResponsesDialect::Take(protocol::SocketMessage message, Tag, BudgetShare share) {
  switch (message.verb) {
    case SocketVerb::kPing:
      return host_.Send(protocol::SocketPong(message.id));
    case SocketVerb::kAuth:
      return SendError(InvalidArgument("invalid_value", "the connection is already authenticated"),
                       "");
    case SocketVerb::kCancel:
      return Cancel(message.response_id);
    case SocketVerb::kCreate:
    case SocketVerb::kSubscribe:
      return Accept(std::move(message), std::move(share));
  }
}

void ResponsesDialect::Cancel(const std::string& response_id) {
  connection_.context().deps.responses->Cancel(
      connection_.request_context().tenant(), response_id,
      connection_.Later([this](const Result<std::shared_ptr<responses::Response>>& cancelled) {
        if (!cancelled.ok()) SendError(cancelled.status(), "");
      }));
}

void ResponsesDialect::Accept(protocol::SocketMessage message, BudgetShare share) {
  const std::string stream_id = message.stream_id;
  if (!host_.leaving().ok()) return SendError(host_.leaving(), stream_id);
  SocketChannel* const channel = ChannelOf(stream_id);
  if (channel == nullptr) {
    const size_t most = connection_.context().options.socket.channels;
    return SendError(InvalidArgument("websocket_stream_limit_reached",
                                     "at most " + std::to_string(most) +
                                         " values of stream_id are answered at once")
                         .WithParam("stream_id"),
                     stream_id);
  }
  if (message.verb == SocketVerb::kCreate) {
    std::string& id = message.call.request.request_id;
    if (id.empty()) id = "req-" + connection_.loop()->RandomId(24);
  }
  if (const Status added = channel->Add(std::move(message), std::move(share)); !added.ok())
    return SendError(added, stream_id);
  channel->Next();
}

SocketChannel* ResponsesDialect::ChannelOf(const std::string& stream_id) {
  const auto found = channels_.find(stream_id);
  if (found != channels_.end()) return found->second.get();
  if (channels_.size() >= connection_.context().options.socket.channels) {
    auto oldest = channels_.end();
    for (auto channel = channels_.begin(); channel != channels_.end(); ++channel) {
      if (channel->second->idle() && (oldest == channels_.end() ||
                                      channel->second->idle_since() < oldest->second->idle_since()))
        oldest = channel;
    }
    if (oldest == channels_.end()) return nullptr;
    channels_.erase(oldest);
  }
  ChannelHost& host = *this;
  return channels_.emplace(stream_id, std::make_unique<SocketChannel>(connection_, host, stream_id))
      .first->second.get();
}

void ResponsesDialect::Pump() {
  bool any = true;
  while (any && host_.HasRoom()) {
    any = false;
    auto channel = channels_.upper_bound(last_pumped_);
    for (size_t i = channels_.size(); i > 0 && host_.HasRoom(); --i) {
      if (channel == channels_.end()) channel = channels_.begin();
      last_pumped_ = channel->first;
      any |= channel->second->Pump();
      ++channel;
    }
  }
}

bool ResponsesDialect::idle() const {
  return std::all_of(channels_.begin(), channels_.end(),
                     [](const auto& channel) { return channel.second->idle(); });
}

void ResponsesDialect::SendError(const Status& why, Connection::Origin origin,
                                 std::string_view stream_id) {
  const protocol::ErrorView error = connection_.request_context().MakeErrorView(why, origin);
  std::optional<protocol::ContextNumbers> numbers;
  if (const auto excess = why.excess(); excess && error.code == "context_length_exceeded")
    numbers = {static_cast<int>(excess->asked), static_cast<int>(excess->most)};
  host_.Send(protocol::SocketError(error, stream_id, numbers));
}

const ResponseStart::Messages* ResponsesDialect::Remembered(const std::string& response_id) const {
  for (const auto& [id, channel] : channels_) {
    if (const auto* dialog = channel->Remembered(response_id)) return dialog;
  }
  return nullptr;
}

}  // namespace tutti::http
