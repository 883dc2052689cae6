// What the stock client is shown: one line for each kind of object and event, with the name of the
// client's type. The file is the other half of tests/e2e/test_response_shapes.py, which has the
// client's own types check each line; here it is what this code writes.
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "protocol/responses/conversations.h"
#include "protocol/responses/events.h"
#include "test_paths.h"

namespace tutti::protocol {
namespace {

constexpr const char* kFile = "tests/data/openai/response_shapes.txt";

ResponseState State(ResponseStatus status, std::string text) {
  ResponseState state;
  state.id = "resp_0123456789abcdef0123456789abcdef";
  state.item_id = "msg_0123456789abcdef0123456789abcdef";
  state.created_s = 1700000000;
  state.status = status;
  state.model = "SmolLM2-135M-Instruct";
  state.text = std::move(text);
  if (!IsFinal(status)) return state;
  state.usage = api::Usage{10, 4, 3};
  if (status == ResponseStatus::kCompleted) state.completed_s = 1700000002;
  if (status == ResponseStatus::kIncomplete) state.incomplete_reason = "max_output_tokens";
  if (status == ResponseStatus::kFailed) {
    state.error_code = "server_error";
    state.error_message = "the server failed to answer this request";
  }
  return state;
}

ResponseState Full() {
  ResponseState state = State(ResponseStatus::kCompleted, "Hello \"you\"\n\xF0\x9F\x98\x80");
  state.background = true;
  state.instructions = "Be brief.";
  state.max_output_tokens = 64;
  state.temperature = 0;
  state.top_p = 0.9;
  state.service_tier = "flex";
  state.truncation = "auto";
  state.metadata = {{"topic", "demo"}};
  state.conversation = "conv_1";
  return state;
}

ResponseState Calling() {
  ResponseState state = State(ResponseStatus::kCompleted, "One moment.");
  state.tools = {{.name = "weather",
                  .description = "The weather now",
                  .parameters = R"({"type":"object","properties":{"city":{"type":"string"}}})",
                  .strict = true},
                 {.name = "time"}};
  state.tool_choice = {api::ToolChoice::Kind::kNamed, "weather"};
  state.parallel_tool_calls = false;
  state.calls = {{{"call_1", "weather", R"({"city":"Oslo"})"}, state.text.size()}};
  return state;
}

ResponseState Thinking() {
  ResponseState state = State(ResponseStatus::kCompleted, "Because.");
  state.reasoning = {{"Why?\n", 0, 0}};
  state.usage->reasoning_tokens = 2;
  return state;
}

SharedItem SharedCopy(const OutputItem& item) { return std::make_shared<const OutputItem>(item); }

std::vector<std::string> Lines() {
  std::vector<std::string> lines;
  const auto add = [&](const std::string& type, const std::string& json) {
    lines.push_back(type + " " + json);
  };
  add("Response", ResponseJson(Full()));
  const ResponseState running = State(ResponseStatus::kInProgress, "");
  add("ResponseStreamEvent",
      EventJson(LifecycleEvent{true, std::make_shared<const ResponseState>(running)}, 0));
  for (const auto status :
       {ResponseStatus::kQueued, ResponseStatus::kInProgress, ResponseStatus::kCompleted,
        ResponseStatus::kIncomplete, ResponseStatus::kFailed, ResponseStatus::kCancelled}) {
    const ResponseState state = State(status, IsFinal(status) ? "Hello" : "");
    add("Response", ResponseJson(state));
    if (status == ResponseStatus::kCancelled) continue;  // the event is ours alone
    add("ResponseStreamEvent",
        EventJson(LifecycleEvent{false, std::make_shared<const ResponseState>(state)}, 1));
  }
  const OutputItem done = OutputOf(Full()).front();
  add("ResponseStreamEvent", EventJson(ItemAddedEvent{0, SharedCopy(done)}, 2));
  add("ResponseStreamEvent", EventJson(PartAddedEvent{0, SharedCopy(done)}, 3));
  add("ResponseStreamEvent", EventJson(TextDeltaEvent{0, done.id, "Hel"}, 4));
  const api::TokenLogprobs token{.chosen = {7, -0.5F, "Hel"}, .top = {{7, -0.5F, "Hel"}}};
  add("ResponseStreamEvent",
      EventJson(TextDeltaEvent{.item_id = done.id, .text = "Hel", .tokens = {token}}, 4));
  add("ResponseStreamEvent",
      EventJson(ItemDoneEvent{0, SharedCopy({.id = "msg_1", .text = "Hel", .tokens = {token}}),
                              "completed"},
                7));
  add("ResponseStreamEvent", EventJson(TextDoneEvent{0, SharedCopy(done)}, 5));
  add("ResponseStreamEvent", EventJson(PartDoneEvent{0, SharedCopy(done)}, 6));
  add("ResponseStreamEvent", EventJson(ItemDoneEvent{0, SharedCopy(done), "completed"}, 7));
  const ResponseState calling = Calling();
  add("Response", ResponseJson(calling));
  const OutputItem call = OutputOf(calling).back();
  add("ResponseStreamEvent", EventJson(ItemAddedEvent{1, SharedCopy(call)}, 8));
  add("ResponseStreamEvent", EventJson(ArgumentsDeltaEvent{1, call.id, "{\"city\""}, 9));
  add("ResponseStreamEvent", EventJson(ArgumentsDoneEvent{1, SharedCopy(call)}, 10));
  add("ResponseStreamEvent", EventJson(ItemDoneEvent{1, SharedCopy(call), "completed"}, 11));
  const ResponseState thinking = Thinking();
  add("Response", ResponseJson(thinking));
  const OutputItem thought = OutputOf(thinking).front();
  add("ResponseStreamEvent", EventJson(ItemAddedEvent{0, SharedCopy(thought)}, 2));
  add("ResponseStreamEvent", EventJson(PartAddedEvent{0, SharedCopy(thought)}, 3));
  add("ResponseStreamEvent", EventJson(TextDeltaEvent{0, thought.id, "Why", true}, 4));
  add("ResponseStreamEvent", EventJson(TextDoneEvent{0, SharedCopy(thought)}, 5));
  add("ResponseStreamEvent", EventJson(PartDoneEvent{0, SharedCopy(thought)}, 6));
  add("ResponseStreamEvent", EventJson(ItemDoneEvent{0, SharedCopy(thought), "completed"}, 7));
  add("ResponseStreamEvent",
      ErrorEvent(8, InvalidArgument("invalid_value", "no").WithParam("input"), ""));
  add("Conversation", ConversationJson({"conv_1", 1700000000, 17, {{"a", "b"}}, "", 0}));
  add("Conversation", ConversationJson({"conv_2", 1700000000, 3, {}, "conv_1", 3}));
  const std::vector<ItemView> items = {
      {"msg_1", api::Role::kSystem, "Be brief.", false},
      {"msg_2", api::Role::kUser, "Hi", false},
      {"msg_3", api::Role::kAssistant, "Ho", true},
      {.id = "fc_4",
       .role = api::Role::kAssistant,
       .text = {},
       .call = api::ToolCall{"call_1", "weather", "{}"}},
      {.id = "fco_5", .role = api::Role::kTool, .text = "21", .tool_call_id = "call_1"},
      {.id = "rs_6", .role = api::Role::kAssistant, .text = {}, .reasoning = "Why?"}};
  for (const ItemView& item : items) add("ConversationItem", ItemJson(item));
  add("ConversationItemList", ItemListJson(items, true));
  add("ConversationItemList", ItemListJson({}, false));
  add("ConversationDeletedResource", DeletedJson("conv_1", "conversation"));
  return lines;
}

TEST(ResponseShapes, AreThoseThatTheStockClientsTypesAreAskedAbout) {
  std::string written;
  for (const std::string& line : Lines()) written += line + "\n";
  std::ifstream file(support::SourcePath(kFile));
  const std::string kept((std::istreambuf_iterator<char>(file)), {});
  if (written == kept) return;
  const std::string now = testing::TempDir() + "response_shapes.txt";
  std::ofstream(now) << written;
  FAIL() << kFile << " holds other shapes than are written. If they are meant, copy " << now
         << " there and run tests/e2e/test_response_shapes.py.";
}

}  // namespace
}  // namespace tutti::protocol
