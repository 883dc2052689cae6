// Topics and payloads of MQTT's two profiles, and the reasoning filter. Every input gives a refusal
// with a known code or a valid message, and an answer goes only to topics that its client may read.
// Input: one byte (kind), for verbs a topic's session up to a line break, then the payload.
#include <algorithm>
#include <string>

#include "api/reasoning_filter.h"
#include "api/validate.h"
#include "base/check.h"
#include "fuzz_input.h"
#include "protocol/chat/native.h"
#include "protocol/chat/project.h"
#include "protocol/chat/topic.h"
#include "protocol/error.h"
#include "protocol/json/field_error.h"
#include "protocol/json/json.h"
#include "protocol/responses/events.h"

namespace {

namespace protocol = tutti::protocol;

void CheckRefusal(const tutti::Status& status) {
  CHECK(!status.reason().empty());
  CHECK(protocol::ViewError(status).http == 400) << status;
  CHECK(protocol::ParseJson(protocol::ErrorEvent(0, status, "id")).ok()) << "the event is not JSON";
}

void CheckReply(const protocol::ProjectReply& reply, const tutti::Status& status) {
  const std::string root = "p/assistant_response/" + reply.session;
  CHECK(!reply.session.empty() && reply.session.find('/') == std::string::npos);
  CHECK(reply.topic == root || reply.topic.starts_with(root + "/")) << reply.topic;
  CHECK(reply.topic.size() <= protocol::kMaxTopicBytes);
  CHECK(reply.topic.find_first_of("#+") == std::string::npos) << reply.topic;
  CHECK(reply.topic.find('\0') == std::string::npos);
  CHECK(tutti::IsValidUtf8(reply.topic));
  if (status.ok()) return;
  CheckRefusal(status);
  const auto json = protocol::ParseJson(protocol::ProjectErrorJson(reply, status));
  CHECK(json.ok()) << json.status();
  const auto& code = json->root().at("error").at("code").as_string();
  CHECK(std::string_view(code.data(), code.size()) == status.reason());
}

void CheckProject(uint8_t choice, tutti::fuzz::FuzzInput input,
                  const protocol::ParseOptions& options) {
  if (choice % 4 == 3) {
    const auto received = protocol::ParseProjectMessage("p", input.Rest(), "01234567", options);
    CheckReply(received.reply, received.message.status());
    if (!received.message.ok()) return;
    CHECK(!received.message->text.empty() && tutti::IsValidUtf8(received.message->text));
    tutti::api::GenerateRequest request;
    request.model = "m";
    request.prompt = tutti::api::TextPrompt{received.message->text};
    request.sampling = received.message->sampling;
    CHECK(tutti::api::ValidateRequest(request).ok());
    return;
  }
  const std::string topic = "p/clear/" + std::string(input.Until('\n'));
  const auto parsed = protocol::ParseProjectTopic("p", topic);
  const std::string session = parsed.has_value() ? parsed->session : "";
  const auto op = static_cast<protocol::ProjectOp>(choice % 4);
  const auto received = protocol::ParseProjectVerb("p", op, session, input.Rest(), options);
  CheckReply(received.reply, received.verb.status());
  if (!received.verb.ok()) return;
  CHECK(received.verb->session.find('/') == std::string::npos);
  CHECK(received.verb->session == (received.reply.session == "all" ? "" : received.reply.session));
}

void CheckNative(bool control, std::string_view payload, const protocol::ParseOptions& options) {
  protocol::MessageIdOf(payload);
  if (control) {
    const auto call = protocol::ParseMqttControl(payload, options);
    if (!call.ok()) return CheckRefusal(call.status());
    CHECK(call->into.empty() || protocol::IsTopicLevel(call->into));
    CHECK(call->limit >= 1 && call->limit <= 100);
    return;
  }
  const auto message = protocol::ParseMqttMessage(payload, options);
  if (!message.ok()) return CheckRefusal(message.status());
  CHECK(!message->call.message_id.empty() && !message->call.input.empty());
  CHECK(protocol::MessageIdOf(payload) == message->call.message_id);
  CHECK(message->project.empty() || protocol::IsTopicLevel(message->project));
  CHECK(tutti::api::ValidateRequest(message->call.request).ok());
}

void CheckTopic(std::string_view topic) {
  if (const auto native = protocol::ParseNativeTopic(topic); native.has_value())
    CHECK(protocol::BuildNativeTopic(*native) == topic);
  if (protocol::CheckResponseTopic("u", topic).ok()) {
    CHECK(topic.starts_with("llm/v1/u/") && protocol::IsTopicName(topic));
    CHECK(!topic.ends_with("/ctl") || std::count(topic.begin(), topic.end(), '/') != 4);
  }
}

// The first byte is the length of the pieces.
void CheckReasoning(tutti::fuzz::FuzzInput input) {
  const size_t piece = 1 + input.Byte() % 16;
  const std::string_view text = input.Rest();
  std::string whole, whole_reasoning, cut, cut_reasoning;
  tutti::api::ReasoningFilter once(tutti::api::ReasoningMode::kSeparate);
  once.Push(text, &whole, &whole_reasoning);
  once.Finish(&whole, &whole_reasoning);
  tutti::api::ReasoningFilter pieces(tutti::api::ReasoningMode::kSeparate);
  for (size_t at = 0; at < text.size(); at += piece)
    pieces.Push(text.substr(at, piece), &cut, &cut_reasoning);
  pieces.Finish(&cut, &cut_reasoning);
  CHECK(cut == whole && cut_reasoning == whole_reasoning);
  CHECK(whole.size() + whole_reasoning.size() <= text.size());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  tutti::fuzz::FuzzInput input(data, size);
  const uint8_t choice = input.Byte();
  protocol::ParseOptions options;
  options.strict = (choice & 128) != 0;
  switch (choice % 128 / 4 % 4) {
    case 0:
      CheckProject(choice, input, options);
      break;
    case 1:
      CheckNative(choice % 2 == 0, input.Rest(), options);
      break;
    case 2:
      CheckTopic(input.Rest());
      break;
    default:
      CheckReasoning(input);
  }
  return 0;
}
