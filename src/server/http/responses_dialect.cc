#include "server/http/responses_dialect.h"

#include <algorithm>
#include <optional>

namespace tutti::http {
namespace {

using SocketVerb = wire::SocketMessage::Verb;

}  // namespace

ResponsesDialect::Understood ResponsesDialect::Understand(std::string_view text,
                                                          const wire::ParseOptions& options) {
  Understood understood;
  understood.message = wire::ParseSocketMessage(text, options, &understood.tag);
  return understood;
}

const std::string* ResponsesDialect::TokenOf(const wire::SocketMessage& message) {
  return message.verb == SocketVerb::kAuth ? &message.token : nullptr;
}

void ResponsesDialect::Take(wire::SocketMessage message, Tag, BudgetShare share) {
  switch (message.verb) {
    case SocketVerb::kPing:
      return host_.Say(wire::SocketPong(message.id));
    case SocketVerb::kAuth:
      return SayError(InvalidArgument("invalid_value", "the connection is already authenticated"),
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
      [here = connection_.Return(), this](Result<std::shared_ptr<responses::Response>> cancelled) {
        here([this, status = cancelled.status()] {
          if (!status.ok()) SayError(status, "");
        });
      });
}

void ResponsesDialect::Accept(wire::SocketMessage message, BudgetShare share) {
  const std::string stream_id = message.stream_id;
  if (!host_.leaving().ok()) return SayError(host_.leaving(), stream_id);
  SocketChannel* const channel = ChannelOf(stream_id);
  if (channel == nullptr) {
    const size_t most = connection_.context().options.socket.channels;
    return SayError(InvalidArgument("websocket_stream_limit_reached",
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
    return SayError(added, stream_id);
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

void ResponsesDialect::SayError(const Status& why, Connection::Origin origin,
                                std::string_view stream_id) {
  const wire::ErrorView error = connection_.request_context().MakeErrorView(why, origin);
  std::optional<wire::ContextNumbers> numbers;
  if (const auto excess = why.excess(); excess && error.code == "context_length_exceeded")
    numbers = {static_cast<int>(excess->asked), static_cast<int>(excess->most)};
  host_.Say(wire::SocketError(error, stream_id, numbers));
}

const ResponseStart::Messages* ResponsesDialect::Remembered(const std::string& response_id) const {
  for (const auto& [id, channel] : channels_) {
    if (const auto* dialog = channel->Remembered(response_id)) return dialog;
  }
  return nullptr;
}

}  // namespace tutti::http
