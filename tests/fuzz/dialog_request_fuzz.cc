// Bodies of the Responses API and of Conversations, their list queries and versions. A client's
// mistake gives a refusal with a known code, and an accepted body satisfies the invariants of its
// type. Input: one byte (route, strict), then the body.
#include <string>
#include <variant>
#include <vector>

#include "api/validate.h"
#include "base/check.h"
#include "fuzz_input.h"
#include "protocol/error.h"
#include "protocol/json/field_error.h"
#include "protocol/json/json.h"
#include "protocol/responses/conversations.h"
#include "protocol/responses/request.h"
#include "protocol/schema/query_parameters.h"

namespace {

namespace api = tutti::api;
namespace protocol = tutti::protocol;

void CheckRefusal(const tutti::Status& status) {
  CHECK(!status.reason().empty());
  const protocol::ErrorView view = protocol::ViewError(status);
  CHECK(view.http == 400) << status;
  CHECK(tutti::IsValidUtf8(view.message) && tutti::IsValidUtf8(view.param)) << status;
  CHECK(protocol::ParseJson(protocol::ErrorBody(view)).ok()) << "the error body is not JSON";
}

void CheckCall(const protocol::ResponsesCall& call) {
  CHECK(!call.input.empty());
  const auto& prompt = std::get<api::ChatPrompt>(call.request.prompt);
  const bool instructed = call.instructions.has_value() && !call.instructions->empty();
  CHECK(prompt.messages.size() == call.input.size() + (instructed ? 1 : 0));
  CHECK(!call.background || call.store);
  CHECK(call.conversation.empty() || call.previous_response_id.empty());
  CHECK(call.metadata.size() <= protocol::kMaxMetadataPairs);
  const tutti::Status valid = api::ValidateRequest(call.request);
  CHECK(valid.ok()) << valid;
}

// An item that was accepted is shown as one that is accepted; its parts are shown as one text.
void CheckItems(const std::vector<protocol::InputItem>& items) {
  CHECK(items.size() <= 20);
  for (const protocol::InputItem& item : items) {
    const std::string json = protocol::ItemJson(
        {.id = "msg_1", .role = item.role, .text = item.text, .reasoning = item.reasoning});
    const auto body = protocol::ParseJson("{\"items\":[" + json + "]}");
    CHECK(body.ok()) << body.status();
    const auto again = protocol::ParseItemsCreate(body->root(), {});
    CHECK(again.ok() && again->items.size() == 1) << json;
    CHECK(again->items[0].role == item.role && again->items[0].text == item.text) << json;
    CHECK(again->items[0].reasoning == item.reasoning) << json;
  }
}

template <typename T>
void CheckIgnored(const tutti::Result<T>& parsed, const protocol::ParseOptions& options) {
  if (!parsed.ok()) return CheckRefusal(parsed.status());
  CHECK(!options.strict || parsed->ignored.empty());
}

void CheckBody(int route, const protocol::Json& body, const protocol::ParseOptions& options) {
  if (route == 0) {
    const auto call = protocol::ParseResponses(body, options);
    CheckIgnored(call, options);
    if (call.ok()) CheckCall(*call);
  } else if (route == 1) {
    const auto create = protocol::ParseConversationCreate(body, options);
    CheckIgnored(create, options);
    if (create.ok()) CheckItems(create->items);
  } else if (route == 2) {
    CheckIgnored(protocol::ParseConversationUpdate(body, options), options);
  } else if (route == 3) {
    const auto create = protocol::ParseItemsCreate(body, options);
    CheckIgnored(create, options);
    if (create.ok()) CheckItems(create->items);
  } else {
    CheckIgnored(protocol::ParseConversationFork(body, options), options);
  }
}

// A version, then a query.
void CheckQuery(tutti::fuzz::FuzzInput input, const protocol::ParseOptions& options) {
  const std::string tag(input.Until('\n'));
  if (const auto version = protocol::ParseIfMatch(tag); !version.ok()) {
    CheckRefusal(version.status());
  } else if (version->has_value()) {
    CHECK(tag.find(protocol::EntityTag(**version)) != std::string::npos) << tag;
  }
  const auto parameters = protocol::DecodeQuery(input.Rest());
  if (!parameters.ok()) return CheckRefusal(parameters.status());
  protocol::IgnoredFields ignored;
  if (const auto list = protocol::ParseListQuery(*parameters, options, &ignored); list.ok()) {
    CHECK(list->limit >= 1 && list->limit <= 100);
  } else {
    CheckRefusal(list.status());
  }
  if (const auto query = protocol::ParseRetrieveQuery(*parameters, options, &ignored); query.ok()) {
    CHECK(query->stream || !query->starting_after.has_value());
  } else {
    CheckRefusal(query.status());
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  tutti::fuzz::FuzzInput input(data, size);
  const uint8_t choice = input.Byte();
  protocol::ParseOptions options;
  options.strict = (choice & 128) != 0;
  const int route = choice % 128 % 6;
  if (route == 5) {
    CheckQuery(input, options);
  } else if (const auto body = protocol::ParseJson(input.Rest()); body.ok()) {
    CheckBody(route, body->root(), options);
  }
  return 0;
}
