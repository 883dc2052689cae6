#include "protocol/schema/json_schema.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <vector>

#include "base/ascii.h"
#include "base/check.h"
#include "base/types.h"

namespace tutti::protocol {
namespace {

struct Named {
  Scope scope;
  std::string_view name;
};
constexpr auto kNames = std::to_array<Named>({
    {kChat, "ChatCompletionRequest"},
    {kText, "CompletionRequest"},
    {kGenerate, "GenerateRequest"},
    {kTokenize, "TokenizeRequest"},
    {kDetokenize, "DetokenizeRequest"},
    {kApplyTemplate, "ApplyTemplateRequest"},
    {kMessage, "ChatMessage"},
    {kPart, "ContentPart"},
    {kStreamOptions, "StreamOptions"},
    {kEmbeddings, "EmbeddingsRequest"},
    {kRerank, "RerankRequest"},
    {kScore, "ScoreRequest"},
    {kTeiEmbed, "TeiEmbedRequest"},
    {kTeiEmbedAll, "TeiEmbedAllRequest"},
    {kTeiPredict, "TeiPredictRequest"},
    {kTeiRerank, "TeiRerankRequest"},
    {kTeiSimilarity, "TeiSimilarityRequest"},
    {kSimilarityInputs, "TeiSimilarityInputs"},
    {kSimilarityParameters, "TeiSimilarityParameters"},
    {kDocument, "Document"},
    {kDecode, "TeiDecodeRequest"},
    {kResponses, "ResponseRequest"},
    {kTextOptions, "ResponseTextOptions"},
    {kReasoningOptions, "ResponseReasoningOptions"},
    {kResponseStreamOptions, "ResponseStreamOptions"},
    {kConversationName, "ConversationReference"},
    {kInputItem, "InputMessage"},
    {kInputPart, "InputPart"},
    {kConversation, "ConversationRequest"},
    {kConversationUpdate, "ConversationUpdateRequest"},
    {kConversationItems, "ConversationItemsRequest"},
    {kConversationFork, "ConversationForkRequest"},
    {kMqttMessage, "MqttMessage"},
    {kMqttControl, "MqttControl"},
    {kProjectMessage, "MqttProjectMessage"},
    {kProjectVerb, "MqttProjectVerb"},
    {kSocketEnvelope, "SocketResponseCreate"},
    {kSocketControl, "SocketControl"},
    {kBatch, "BatchRequest"},
    {kExpiresAfter, "BatchExpiresAfter"},
    {kBatchLine, "BatchLine"},
    {kChatMessage, "ChatSocketMessage"},
    {kChatControl, "ChatSocketControl"},
    {kPrediction, "Prediction"},
    {kTool, "Tool"},
    {kToolFunction, "ToolFunction"},
    {kResponseTool, "ResponseTool"},
    {kToolCall, "ToolCall"},
    {kCalledFunction, "CalledFunction"},
    {kCallItem, "FunctionCallItem"},
    {kCallOutputItem, "FunctionCallOutputItem"},
    {kReasoningItem, "ReasoningItem"},
    {kMessages, "MessagesRequest"},
    {kCountTokens, "CountTokensRequest"},
    {kMessagesTurn, "MessagesTurn"},
    {kContentBlock, "ContentBlock"},
    {kMessagesTool, "MessagesTool"},
    {kMessagesToolChoice, "MessagesToolChoice"},
    {kThinkingOptions, "MessagesThinking"},
    {kRequestMetadata, "MessagesMetadata"},
    {kOutputConfig, "MessagesOutputConfig"},
    {kMessageBatch, "MessageBatchRequest"},
    {kMessageBatchRequest, "MessageBatchEntry"},
    {kInfill, "InfillRequest"},
});
static_assert(kNames.size() == static_cast<size_t>(std::countr_zero(uint64_t{kLastScope})) + 1,
              "every scope has a name");

// Shapes of members that rows leave to their readers.
#define REF(name) R"({"$ref":"#/components/schemas/)" name R"("})"
#define LIST(items) R"({"type":"array","items":)" items "}"
#define EITHER(a, b) R"({"anyOf":[)" a "," b "]}"
#define TEXT R"({"type":"string"})"
#define TOKENS R"({"type":"array","items":{"type":"integer","minimum":0,"maximum":2147483647}})"
constexpr ScopeSet kAny = ~ScopeSet{0};
constexpr auto kMembers = std::to_array<MemberSchema>({
    {"messages", kAnthropic, LIST(REF("MessagesTurn"))},
    {"messages", kAny, LIST(REF("ChatMessage"))},
    {"content", kMessage | kPrediction, EITHER(TEXT, LIST(REF("ContentPart")))},
    {"content", kInputItem, EITHER(TEXT, LIST(REF("InputPart")))},
    {"content", kMessagesTurn, EITHER(TEXT, LIST(REF("ContentBlock")))},
    {"system", kAnthropic, EITHER(TEXT, LIST(REF("ContentBlock")))},
    {"tool_calls", kMessage, LIST(REF("ToolCall"))},
    {"tools", kAnthropic, LIST(REF("MessagesTool"))},
    {"tools", kTurn, LIST(REF("ResponseTool"))},
    {"tools", kAny, LIST(REF("Tool"))},
    {"function", kTool, REF("ToolFunction")},
    {"function", kToolCall, REF("CalledFunction")},
    {"parameters", kToolFunction | kResponseTool, R"({"type":"object"})"},
    {"tool_choice", kAnthropic, REF("MessagesToolChoice")},
    {"tool_choice", kAny, EITHER(R"({"enum":["none","auto","required"]})", R"({"type":"object"})")},
    {"prediction", kChat, REF("Prediction")},
    {"response_format", kAny,
     R"({"type":"object","properties":{"type":{"type":"string"}},"required":["type"]})"},
    {"stream_options", kResponses, REF("ResponseStreamOptions")},
    {"stream_options", kAny, REF("StreamOptions")},
    {"prompt", kText, R"({"anyOf":[{"type":"string"},)" TOKENS "," LIST(EITHER(TEXT, TOKENS)) "]}"},
    {"input", kTurn,
     EITHER(TEXT, LIST(R"({"anyOf":[)" REF("InputMessage") "," REF("FunctionCallItem") "," REF(
                      "FunctionCallOutputItem") "," REF("ReasoningItem") "]}"))},
    {"input", kEmbeddings,
     EITHER(TEXT, LIST(EITHER(TEXT, EITHER(TOKENS, R"({"type":"integer"})"))))},
    {"inputs", kTeiEmbed | kTeiEmbedAll, EITHER(TEXT, LIST(EITHER(TEXT, TOKENS)))},
    {"inputs", kTeiPredict, EITHER(TEXT, LIST(EITHER(TEXT, LIST(TEXT))))},
    {"inputs", kTeiSimilarity, REF("TeiSimilarityInputs")},
    {"parameters", kTeiSimilarity, REF("TeiSimilarityParameters")},
    {"sentences", kSimilarityInputs, LIST(TEXT)},
    {"texts", kTeiRerank, LIST(TEXT)},
    {"documents", kRerank | kScore, EITHER(TEXT, LIST(EITHER(TEXT, REF("Document"))))},
    {"text_1", kScore, EITHER(TEXT, LIST(TEXT))},
    {"text_2", kScore, EITHER(TEXT, LIST(TEXT))},
    {"queries", kScore, EITHER(TEXT, LIST(TEXT))},
    {"items", kScore, EITHER(TEXT, LIST(TEXT))},
    {"data_1", kScore, EITHER(TEXT, LIST(TEXT))},
    {"data_2", kScore, EITHER(TEXT, LIST(TEXT))},
    {"ids", kDecode, EITHER(TOKENS, LIST(TOKENS))},
    {"conversation", kResponses, EITHER(TEXT, REF("ConversationReference"))},
    {"text", kResponses, REF("ResponseTextOptions")},
    {"reasoning", kResponses, REF("ResponseReasoningOptions")},
    {"include", kResponses | kConversationItems, LIST(TEXT)},
    {"items", kConversation | kConversationItems, LIST(REF("InputMessage"))},
    {"output_expires_after", kBatch, REF("BatchExpiresAfter")},
    {"requests", kMessageBatch, LIST(REF("MessageBatchEntry"))},
    {"params", kMessageBatchRequest, REF("MessagesRequest")},
    {"thinking", kAnthropic, REF("MessagesThinking")},
    {"output_config", kAnthropic, REF("MessagesOutputConfig")},
    {"metadata", kMessages, REF("MessagesMetadata")},
});
#undef TOKENS
#undef TEXT
#undef EITHER
#undef LIST
#undef REF

// Bounds that say nothing a reader of the document wants to know.
bool IsLimit(double high) { return high < kInt32Max; }

void WriteNumber(std::string_view key, double number, bool whole, JsonWriter* json) {
  if (whole) {
    json->Member(key, static_cast<int64_t>(number));
  } else {
    json->Member(key, number);
  }
}

void WriteRange(const FieldSpec& row, JsonWriter* json) {
  const bool whole = row.type == FieldType::kInteger;
  constexpr double kExact = 9007199254740992.0;  // 2^53
  if (std::abs(row.low) < kExact)
    WriteNumber(row.above_low ? "exclusiveMinimum" : "minimum", row.low, whole, json);
  if (std::abs(row.high) < kExact) WriteNumber("maximum", row.high, whole, json);
}

// The schema of a value that is not null.
void WriteValue(const FieldSpec& row, std::string_view member, JsonWriter* json) {
  const auto list_of = [&](size_t low, size_t high) {
    json->BeginObject().Member("type", "array");
    if (low > 0) json->Member("minItems", static_cast<int64_t>(low));
    if (high > 0 && IsLimit(static_cast<double>(high)))
      json->Member("maxItems", static_cast<int64_t>(high));
  };
  switch (row.type) {
    case FieldType::kBool:
      json->BeginObject().Member("type", "boolean").EndObject();
      return;
    case FieldType::kInteger:
    case FieldType::kNumber:
      json->BeginObject().Member("type", row.type == FieldType::kInteger ? "integer" : "number");
      WriteRange(row, json);
      json->EndObject();
      return;
    case FieldType::kString:
      json->BeginObject().Member("type", "string");
      // The table counts bytes. A character has at least one, so that the upper bound holds too.
      if (row.low > 0) json->Member("minLength", 1);
      if (row.high <= 65536) json->Member("maxLength", static_cast<int64_t>(row.high));
      json->EndObject();
      return;
    case FieldType::kChoice:
      json->BeginObject().Key("enum").BeginArray();
      for (const std::string_view word : SplitAt(row.words, '|')) json->String(word);
      json->EndArray().EndObject();
      return;
    case FieldType::kStrings:
      json->BeginObject().Key("anyOf").BeginArray().Raw(R"({"type":"string"})");
      list_of(0, row.count);
      json->Key("items").Raw(R"({"type":"string"})").EndObject().EndArray().EndObject();
      return;
    case FieldType::kTokenIds:
      list_of(static_cast<size_t>(row.low), row.count);
      json->Key("items").Raw(R"({"type":"integer"})").EndObject();
      return;
    case FieldType::kBias:
      json->BeginObject().Member("type", "object");
      json->Key("additionalProperties").BeginObject().Member("type", "number");
      WriteRange(row, json);
      json->EndObject().EndObject();
      return;
    case FieldType::kArray:
      if (member.empty()) {
        list_of(static_cast<size_t>(row.low), static_cast<size_t>(row.high));
        json->EndObject();
      } else {
        json->Raw(member);
      }
      return;
    case FieldType::kObject:
      json->Raw(member.empty() ? R"({"type":"object"})" : member);
      return;
    case FieldType::kAny:
      json->Raw(member.empty() ? "{}" : member);
      return;
  }
}

void WriteProperty(const FieldSpec& row, std::string_view member, JsonWriter* json) {
  json->Key(row.name);
  const bool any = row.type == FieldType::kAny && member.empty();
  if (row.required || any) return WriteValue(row, member, json);
  json->BeginObject().Key("anyOf").BeginArray();
  WriteValue(row, member, json);
  json->Raw(R"({"type":"null"})").EndArray();
  if (row.field_class == FieldClass::kNoEffect)
    json->Member("description", "Accepted and checked, without effect.");
  json->EndObject();
}

}  // namespace

std::string_view SchemaName(Scope scope) {
  const auto found = std::find_if(kNames.begin(), kNames.end(),
                                  [scope](const Named& each) { return each.scope == scope; });
  CHECK(found != kNames.end()) << "scope " << scope << " has no name";
  return found->name;
}

void WriteObjectSchema(std::span<const FieldSpec> rows, ScopeSet scope,
                       std::span<const MemberSchema> members, JsonWriter* json) {
  std::vector<const FieldSpec*> mine, refused;
  for (const FieldSpec& row : rows) {
    if (scope == 0 || (row.scopes & scope) != 0)
      (row.field_class == FieldClass::kRefused ? refused : mine).push_back(&row);
  }
  json->BeginObject().Member("type", "object").Key("properties").BeginObject();
  for (const FieldSpec* row : mine) {
    const auto member = std::find_if(members.begin(), members.end(), [&](const MemberSchema& each) {
      return each.name == row->name && (scope == 0 || (each.scopes & scope) != 0);
    });
    WriteProperty(*row, member == members.end() ? std::string_view() : member->schema, json);
  }
  json->EndObject();
  if (std::any_of(mine.begin(), mine.end(), [](const FieldSpec* row) { return row->required; })) {
    json->Key("required").BeginArray();
    for (const FieldSpec* row : mine) {
      if (row->required) json->String(row->name);
    }
    json->EndArray();
  }
  if (!refused.empty()) {
    json->Key("x-refused").BeginArray();
    for (const FieldSpec* row : refused) json->String(row->name);
    json->EndArray();
  }
  json->EndObject();
}

void WriteSchemas(JsonWriter* json) {
  for (const Named& each : kNames) {
    json->Key(each.name);
    WriteObjectSchema(Schema(), each.scope, kMembers, json);
  }
}

}  // namespace tutti::protocol
