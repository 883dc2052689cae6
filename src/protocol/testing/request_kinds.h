// Every kind of object in the schema table, with a valid example and its parser. Tests generated
// from the table (schema_test.cc) run over all of them. For tests only.
#pragma once

#include <boost/json/parse.hpp>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/status.h"
#include "protocol/anthropic/message_batch.h"
#include "protocol/anthropic/request.h"
#include "protocol/chat/chat_frame.h"
#include "protocol/chat/native.h"
#include "protocol/chat/project.h"
#include "protocol/encoding/request.h"
#include "protocol/json/json.h"
#include "protocol/openai/batch.h"
#include "protocol/openai/request.h"
#include "protocol/openai/tokenizer_routes.h"
#include "protocol/responses/conversations.h"
#include "protocol/responses/request.h"
#include "protocol/responses/socket_message.h"
#include "protocol/schema/checked_object.h"
#include "protocol/schema/schema.h"

namespace tutti::protocol {

using ParseKind = std::function<Status(const Json&, const ParseOptions&)>;

struct Kind {
  Scope scope;
  const char* base;  // a valid request with the fields that others need
  ParseKind parse;
};

// Errors in an object inside a request name their parameter without the path to the object, like
// the errors of other kinds.
inline Status Below(const std::string& path, Status status) {
  if (status.ok() || !status.param().starts_with(path + ".")) return status;
  std::string inner = status.param().substr(path.size() + 1);
  return std::move(status).WithParam(std::move(inner));
}

inline ParseKind Tei(EncodingKind kind) {
  return [kind](const Json& j, const ParseOptions& o) { return ParseTei(kind, j, o).status(); };
}

inline ParseKind InSimilarity(const std::string& member) {
  return [member](const Json& j, const ParseOptions& o) {
    JsonObject body{{"inputs", {{"source_sentence", "q"}, {"sentences", {"x"}}}}};
    body[member] = j;
    return Below(member, ParseTei(EncodingKind::kTeiSimilarity, body, o).status());
  };
}

inline ParseKind InResponses(const std::string& member) {
  return [member](const Json& j, const ParseOptions& o) {
    JsonObject body{{"model", "m"}, {"input", "x"}, {"stream", true}};
    body[member] = j;
    return Below(member, ParseResponses(body, o).status());
  };
}

inline Status ParseItem(const Json& j, const ParseOptions& o) {
  const Json body{{"model", "m"}, {"input", JsonArray{j}}};
  return Below("input[0]", ParseResponses(body, o).status());
}

// Reasoning alone is no input.
inline Status ParseReasoning(const Json& j, const ParseOptions& o) {
  const JsonObject said{{"role", "user"}, {"content", "x"}};
  const Json body{{"model", "m"}, {"input", JsonArray{j, said}}};
  return Below("input[0]", ParseResponses(body, o).status());
}

inline Status ParseResponseTool(const Json& j, const ParseOptions& o) {
  const Json body{{"model", "m"}, {"input", "x"}, {"tools", JsonArray{j}}};
  return Below("tools[0]", ParseResponses(body, o).status());
}

inline Status ParsePart(const Json& j, const ParseOptions& o) {
  const JsonObject item{{"role", "user"}, {"content", JsonArray{j}}};
  return Below("content[0]", ParseItem(item, o));
}

inline Status ParseTool(const Json& j, const ParseOptions& o) {
  const Json body{{"model", "m"},
                  {"messages", JsonArray{JsonObject{{"role", "user"}, {"content", "x"}}}},
                  {"tools", JsonArray{j}}};
  return Below("tools[0]", ParseGeneration(Dialect::kChat, body, o).status());
}

inline Status ParseToolFunction(const Json& j, const ParseOptions& o) {
  return Below("function", ParseTool(JsonObject{{"type", "function"}, {"function", j}}, o));
}

inline Status ParseToolCall(const Json& j, const ParseOptions& o) {
  const JsonObject message{{"role", "assistant"}, {"tool_calls", JsonArray{j}}};
  const Json body{{"model", "m"}, {"messages", JsonArray{message}}};
  return Below("messages[0].tool_calls[0]", ParseGeneration(Dialect::kChat, body, o).status());
}

inline Status ParseCalledFunction(const Json& j, const ParseOptions& o) {
  return Below("function", ParseToolCall(JsonObject{{"id", "c"}, {"function", j}}, o));
}

// An object in the place of `member` in a body of /v1/messages.
inline ParseKind InMessages(const std::string& member) {
  return [member](const Json& j, const ParseOptions& o) {
    JsonObject body{{"model", "m"}, {"max_tokens", 9}};
    body["messages"] = JsonArray{JsonObject{{"role", "user"}, {"content", "x"}}};
    body["tools"] = JsonArray{JsonObject{{"name", "f"}, {"input_schema", JsonObject()}}};
    body[member] = j;
    return Below(member, ParseMessages(body, o).status());
  };
}

inline Status ParseMessagesTurn(const Json& j, const ParseOptions& o) {
  return Below("messages[0]", InMessages("messages")(JsonArray{j}, o));
}

inline Status ParseContentBlock(const Json& j, const ParseOptions& o) {
  const JsonObject turn{{"role", "user"}, {"content", JsonArray{j}}};
  return Below("content[0]", ParseMessagesTurn(turn, o));
}

inline Status ParseMessagesTool(const Json& j, const ParseOptions& o) {
  return Below("tools[0]", InMessages("tools")(JsonArray{j}, o));
}

inline Status ParseSocket(const Json& j, const ParseOptions& o) {
  std::string stream_id;
  return ParseSocketMessage(PrintJson(j), o, &stream_id).status();
}

inline Status ParseChat(const Json& j, const ParseOptions& o) {
  FrameTag tag;
  return ParseChatFrame(PrintJson(j), o, &tag).status();
}

inline const std::vector<Kind>& Kinds() {
  static const std::vector<Kind> kinds = {
      {kChat,
       R"({"model":"m","messages":[{"role":"user","content":"x"}],"logprobs":true,"stream":true})",
       [](const Json& j, const ParseOptions& o) {
         return ParseGeneration(Dialect::kChat, j, o).status();
       }},
      {kText, R"({"model":"m","prompt":"x","echo":true,"max_tokens":2147483647})",
       [](const Json& j, const ParseOptions& o) {
         return ParseGeneration(Dialect::kText, j, o).status();
       }},
      {kGenerate, R"({"prompt":"x","max_tokens":2147483647})",
       [](const Json& j, const ParseOptions& o) {
         return ParseGeneration(Dialect::kGenerate, j, o).status();
       }},
      {kInfill, R"({"input_prefix":"x","input_suffix":"y"})",
       [](const Json& j, const ParseOptions& o) {
         return ParseGeneration(Dialect::kInfill, j, o).status();
       }},
      {kTokenize, R"({"prompt":"x"})",
       [](const Json& j, const ParseOptions& o) { return ParseTokenize(j, o).status(); }},
      {kDetokenize, R"({"tokens":[1]})",
       [](const Json& j, const ParseOptions& o) { return ParseDetokenize(j, o).status(); }},
      {kDecode, R"({"ids":[1]})",
       [](const Json& j, const ParseOptions& o) { return ParseDecode(j, o).status(); }},
      {kEmbeddings, R"({"model":"m","input":"x"})",
       [](const Json& j, const ParseOptions& o) { return ParseEmbeddings(j, o).status(); }},
      {kRerank, R"({"query":"q","documents":["x"]})",
       [](const Json& j, const ParseOptions& o) { return ParseRerank(j, o).status(); }},
      {kScore, R"({"text_1":"q","text_2":["x"]})",
       [](const Json& j, const ParseOptions& o) { return ParseScore(j, o).status(); }},
      {kTeiEmbed, R"({"inputs":"x"})", Tei(EncodingKind::kTeiEmbed)},
      {kTeiEmbedAll, R"({"inputs":"x"})", Tei(EncodingKind::kTeiEmbedAll)},
      {kTeiPredict, R"({"inputs":"x"})", Tei(EncodingKind::kTeiPredict)},
      {kTeiRerank, R"({"query":"q","texts":["x"]})", Tei(EncodingKind::kTeiRerank)},
      {kTeiSimilarity, R"({"inputs":{"source_sentence":"q","sentences":["x"]}})",
       Tei(EncodingKind::kTeiSimilarity)},
      {kSimilarityInputs, R"({"source_sentence":"q","sentences":["x"]})", InSimilarity("inputs")},
      {kSimilarityParameters, R"({"truncate":true})", InSimilarity("parameters")},
      {kApplyTemplate, R"({"messages":[{"role":"user","content":"x"}]})",
       [](const Json& j, const ParseOptions& o) { return ParseApplyTemplate(j, o).status(); }},
      {kResponses,
       R"({"model":"m","input":"x","stream":true,"conversation":"c","max_output_tokens":2147483647})",
       [](const Json& j, const ParseOptions& o) { return ParseResponses(j, o).status(); }},
      {kTool, R"({"type":"function","function":{"name":"f"}})", &ParseTool},
      {kToolFunction, R"({"name":"f"})", &ParseToolFunction},
      {kToolCall, R"({"id":"c","type":"function","function":{"name":"f"}})", &ParseToolCall},
      {kCalledFunction, R"({"name":"f","arguments":"{}"})", &ParseCalledFunction},
      {kTextOptions, "{}", InResponses("text")},
      {kReasoningOptions, "{}", InResponses("reasoning")},
      {kResponseStreamOptions, "{}", InResponses("stream_options")},
      {kConversationName, R"({"id":"c"})", InResponses("conversation")},
      {kInputItem, R"({"role":"user","content":"x"})", ParseItem},
      {kInputPart, R"({"type":"input_text","text":"x"})", ParsePart},
      {kCallItem, R"({"type":"function_call","call_id":"c","name":"f","arguments":"{}"})",
       ParseItem},
      {kCallOutputItem, R"({"type":"function_call_output","call_id":"c","output":"x"})", ParseItem},
      {kReasoningItem, R"({"type":"reasoning","summary":[]})", &ParseReasoning},
      {kResponseTool, R"({"type":"function","name":"f"})", &ParseResponseTool},
      {kConversation, "{}",
       [](const Json& j, const ParseOptions& o) { return ParseConversationCreate(j, o).status(); }},
      {kConversationUpdate, R"({"metadata":{}})",
       [](const Json& j, const ParseOptions& o) { return ParseConversationUpdate(j, o).status(); }},
      {kConversationItems, R"({"items":[{"role":"user","content":"x"}]})",
       [](const Json& j, const ParseOptions& o) { return ParseItemsCreate(j, o).status(); }},
      {kConversationFork, "{}",
       [](const Json& j, const ParseOptions& o) { return ParseConversationFork(j, o).status(); }},
      {kMqttMessage, R"({"id":"1","input":"x","max_output_tokens":2147483647})",
       [](const Json& j, const ParseOptions& o) {
         return ParseMqttMessage(PrintJson(j), o).status();
       }},
      {kMqttControl, R"({"type":"ping"})",
       [](const Json& j, const ParseOptions& o) {
         return ParseMqttControl(PrintJson(j), o).status();
       }},
      {kSocketCreate,
       R"({"type":"response.create","model":"m","input":"x","stream":true,"conversation":"c",)"
       R"("max_output_tokens":2147483647})",
       &ParseSocket},
      {kSocketControl, R"({"type":"ping"})", &ParseSocket},
      {kChatMessage,
       R"({"type":"message","session":"s","id":"1","input":"x","max_output_tokens":2147483647})",
       &ParseChat},
      {kChatControl, R"({"type":"ping"})", &ParseChat},
      {kBatch, R"({"input_file_id":"f","endpoint":"/v1/completions","completion_window":"24h"})",
       [](const Json& j, const ParseOptions& o) { return ParseBatchCreate(j, o).status(); }},
      {kExpiresAfter, R"({"anchor":"created_at","seconds":3600})",
       [](const Json& j, const ParseOptions& o) {
         const Json body{{"input_file_id", "f"},
                         {"endpoint", "/v1/completions"},
                         {"completion_window", "24h"},
                         {"output_expires_after", j}};
         return Below("output_expires_after", ParseBatchCreate(body, o).status());
       }},
      {kMessages,
       R"({"model":"m","max_tokens":2147483647,"messages":[{"role":"user","content":"x"}]})",
       [](const Json& j, const ParseOptions& o) { return ParseMessages(j, o).status(); }},
      {kCountTokens, R"({"model":"m","messages":[{"role":"user","content":"x"}]})",
       [](const Json& j, const ParseOptions& o) { return ParseCountTokens(j, o).status(); }},
      {kMessageBatch,
       R"({"requests":[{"custom_id":"a","params":{"model":"m","max_tokens":1,)"
       R"("messages":[{"role":"user","content":"x"}]}}]})",
       [](const Json& j, const ParseOptions& o) { return ParseMessageBatch(j, o).status(); }},
      {kMessageBatchRequest,
       R"({"custom_id":"a","params":{"model":"m","max_tokens":1,)"
       R"("messages":[{"role":"user","content":"x"}]}})",
       [](const Json& j, const ParseOptions& o) {
         return Below("requests[0]", ParseMessageBatch({{"requests", JsonArray{j}}}, o).status());
       }},
      {kMessagesTurn, R"({"role":"user","content":"x"})", &ParseMessagesTurn},
      {kContentBlock, R"({"type":"text","text":"x"})", &ParseContentBlock},
      {kMessagesTool, R"({"name":"f","input_schema":{}})", &ParseMessagesTool},
      {kMessagesToolChoice, R"({"type":"auto"})", InMessages("tool_choice")},
      {kThinkingOptions, R"({"type":"enabled"})", InMessages("thinking")},
      {kRequestMetadata, "{}", InMessages("metadata")},
      {kOutputConfig, "{}", InMessages("output_config")},
      {kProjectMessage, R"({"message":"x"})",
       [](const Json& j, const ParseOptions& o) {
         return ParseProjectMessage("p", PrintJson(j), "01234567", o).message.status();
       }},
      {kProjectVerb, R"({"reset":true})",
       [](const Json& j, const ParseOptions& o) {
         return ParseProjectVerb("p", ProjectOp::kTemplate, "", PrintJson(j), o).verb.status();
       }},
  };
  return kinds;
}

inline Json With(const Kind& kind, std::string_view field, const Json& value) {
  Json body = boost::json::parse(kind.base);
  body.as_object()[boost::json::string_view(field.data(), field.size())] = value;
  return body;
}

}  // namespace tutti::protocol
