// Bodies of Anthropic's Messages API: a client's mistake is an invalid argument with a known code,
// never more, and what is accepted is a dialog that the inference API takes. Input: one byte
// (route, strict), then the body.
#include <string>
#include <variant>

#include "api/validate.h"
#include "base/check.h"
#include "fuzz_input.h"
#include "wire/anthropic_request.h"
#include "wire/error.h"
#include "wire/json.h"
#include "wire/utf8.h"

namespace {

void CheckRefusal(const tutti::Status& status) {
  CHECK(!status.reason().empty());
  tutti::wire::ErrorOptions options;
  options.form = tutti::wire::ErrorForm::kAnthropic;
  const tutti::wire::ErrorView view = tutti::wire::ViewError(status, options);
  CHECK(view.http >= 400 && view.http < 500) << status;
  CHECK(tutti::IsValidUtf8(view.message) && tutti::IsValidUtf8(view.param)) << status;
  CHECK(tutti::wire::ParseJson(tutti::wire::ErrorBody(view)).ok()) << "the error body is not JSON";
}

void CheckChat(const tutti::api::Prompt& prompt) {
  const auto& chat = std::get<tutti::api::ChatPrompt>(prompt);
  CHECK(!chat.messages.empty());
  CHECK(chat.continue_final_message != chat.add_generation_prompt);
  for (const tutti::api::ChatMessage& message : chat.messages) {
    CHECK(message.part_ends.empty() || message.part_ends.back() == message.content.size());
    for (const tutti::api::ToolCall& call : message.tool_calls)
      CHECK(tutti::wire::ParseJson(call.arguments).ok());
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  namespace wire = tutti::wire;
  tutti::fuzz::FuzzInput input(data, size);
  const uint8_t choice = input.Byte();
  const tutti::Result<wire::JsonDocument> body = wire::ParseJson(input.Rest());
  if (!body.ok()) return 0;
  wire::ParseOptions options;
  options.strict = (choice & 128) != 0;
  if (choice % 2 == 0) {
    const auto call = wire::ParseMessages(body->root(), options);
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
  const auto call = wire::ParseCountTokens(body->root(), options);
  if (!call.ok()) {
    CheckRefusal(call.status());
    return 0;
  }
  CheckChat(call->request.prompt);
  return 0;
}
