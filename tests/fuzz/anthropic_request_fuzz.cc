// Bodies of Anthropic's Messages API: a client's mistake is an invalid argument with a known code,
// never more, and what is accepted is a dialog that the inference API takes. Input: one byte
// (route, strict), then the body.
#include <string>
#include <variant>

#include "api/validate.h"
#include "base/check.h"
#include "fuzz_input.h"
#include "protocol/anthropic/request.h"
#include "protocol/error.h"
#include "protocol/json/field_error.h"
#include "protocol/json/json.h"

namespace {

void CheckRefusal(const tutti::Status& status) {
  CHECK(!status.reason().empty());
  tutti::protocol::ErrorOptions options;
  options.form = tutti::protocol::ErrorForm::kAnthropic;
  const tutti::protocol::ErrorView view = tutti::protocol::ViewError(status, options);
  CHECK(view.http >= 400 && view.http < 500) << status;
  CHECK(tutti::IsValidUtf8(view.message) && tutti::IsValidUtf8(view.param)) << status;
  CHECK(tutti::protocol::ParseJson(tutti::protocol::ErrorBody(view)).ok())
      << "the error body is not JSON";
}

void CheckChat(const tutti::api::Prompt& prompt) {
  const auto& chat = std::get<tutti::api::ChatPrompt>(prompt);
  CHECK(!chat.messages.empty());
  CHECK(chat.continue_final_message != chat.add_generation_prompt);
  for (const tutti::api::ChatMessage& message : chat.messages) {
    CHECK(message.part_ends.empty() || message.part_ends.back() == message.content.size());
    for (const tutti::api::ToolCall& call : message.tool_calls)
      CHECK(tutti::protocol::ParseJson(call.arguments).ok());
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  namespace protocol = tutti::protocol;
  tutti::fuzz::FuzzInput input(data, size);
  const uint8_t choice = input.Byte();
  const tutti::Result<protocol::JsonDocument> body = protocol::ParseJson(input.Rest());
  if (!body.ok()) return 0;
  protocol::ParseOptions options;
  options.strict = (choice & 128) != 0;
  if (choice % 2 == 0) {
    const auto call = protocol::ParseMessages(body->root(), options);
    if (!call.ok()) {
      CheckRefusal(call.status());
      return 0;
    }
    CHECK(call->requests.size() == 1 && call->choices() == 1);
    CHECK(!options.strict || call->ignored.empty());
    CheckChat(call->requests.front().prompt);
    if (const tutti::Status valid = tutti::api::ValidateRequest(call->requests.front());
        !valid.ok())
      CheckRefusal(valid);
    return 0;
  }
  const auto call = protocol::ParseCountTokens(body->root(), options);
  if (!call.ok()) {
    CheckRefusal(call.status());
    return 0;
  }
  CheckChat(call->request.prompt);
  return 0;
}
