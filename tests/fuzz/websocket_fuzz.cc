// Bytes behind the upgrade to a WebSocket: what they mean does not depend on how they were cut, no
// limit is exceeded, and each text is a message, of the Responses API and of chat, or a refusal
// with a known code. Input: one byte (how to cut), then the bytes.
#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "base/check.h"
#include "base/utf8.h"
#include "fuzz_input.h"
#include "protocol/chat/chat_frame.h"
#include "protocol/chat/topic.h"
#include "protocol/error.h"
#include "protocol/json/json.h"
#include "protocol/responses/events.h"
#include "protocol/responses/socket_message.h"
#include "protocol/websocket/frame.h"

namespace {

namespace protocol = tutti::protocol;
using Kind = protocol::FrameEvent::Kind;

constexpr protocol::FrameLimits kLimits{
    .frame_bytes = 256, .message_bytes = 512, .empty_fragments = 4};

std::vector<protocol::FrameEvent> Scan(std::string_view bytes, size_t piece) {
  protocol::FrameReader reader(kLimits);
  std::vector<protocol::FrameEvent> events;
  while (!bytes.empty()) {
    std::string_view part = bytes.substr(0, piece);
    bytes.remove_prefix(part.size());
    while (auto event = reader.Next(&part)) {
      events.push_back(*std::move(event));
      const Kind kind = events.back().kind;
      if (kind == Kind::kClose || kind == Kind::kFault) return events;
    }
    CHECK(part.empty()) << "bytes were left without an event";
    CHECK_LE(reader.held(), kLimits.message_bytes);
  }
  return events;
}

// An accepted frame names one dialog, and its tag can be returned in an answer unchanged.
void CheckFrame(const std::string& text) {
  protocol::FrameTag tag;
  const auto frame = protocol::ParseChatFrame(text, {}, &tag);
  CHECK(tag.stream_id.empty() || protocol::IsTopicLevel(tag.stream_id));
  if (frame.ok()) {
    const bool is_message = frame->verb == protocol::ChatFrame::Verb::kMessage;
    CHECK(!is_message || frame->session.empty() != frame->message.call.conversation.empty());
    CHECK(frame->session.empty() || protocol::IsTopicLevel(frame->session));
    return;
  }
  const protocol::ErrorView view = protocol::ViewError(frame.status());
  CHECK(view.http == 400) << frame.status();
  const std::string error = protocol::WithStreamId(
      protocol::ErrorEvent(std::nullopt, frame.status(), tag.id), tag.stream_id);
  CHECK(protocol::ParseJson(error).ok()) << "the error is not JSON: " << error;
}

void CheckText(const std::string& text) {
  CHECK_LE(text.size(), kLimits.message_bytes);
  CHECK(tutti::IsValidUtf8(text));
  CheckFrame(text);
  std::string stream_id;
  const auto message = protocol::ParseSocketMessage(text, {}, &stream_id);
  if (message.ok()) {
    CHECK(message->stream_id == stream_id);
    return;
  }
  const protocol::ErrorView view = protocol::ViewError(message.status());
  CHECK(view.http == 400) << message.status();
  CHECK(protocol::ParseJson(protocol::SocketError(view, stream_id)).ok())
      << "the error is not JSON";
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  tutti::fuzz::FuzzInput input(data, size);
  const size_t piece = input.Byte() % 64 + 1;
  const std::string_view bytes = input.Rest();
  const auto whole = Scan(bytes, std::max<size_t>(bytes.size(), 1));
  for (const size_t other : {size_t{1}, piece}) {
    const auto again = Scan(bytes, other);
    CHECK_EQ(whole.size(), again.size());
    for (size_t i = 0; i < whole.size(); ++i) {
      CHECK(whole[i].kind == again[i].kind && whole[i].payload == again[i].payload &&
            whole[i].code == again[i].code)
          << "in pieces of " << other << " event " << i << " is another";
    }
  }
  for (const protocol::FrameEvent& event : whole) {
    if (event.kind == Kind::kText) CheckText(event.payload);
    if (event.kind == Kind::kPing) CHECK_LE(event.payload.size(), 125u);
  }
  return 0;
}
