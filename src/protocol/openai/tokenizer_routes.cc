#include "protocol/openai/tokenizer_routes.h"

#include <utility>

#include "api/encoding.h"
#include "protocol/json/field_error.h"
#include "protocol/json/json_writer.h"
#include "protocol/response_writer.h"
#include "protocol/responses/request.h"
#include "protocol/schema/chat_fields.h"
#include "protocol/schema/checked_object.h"
#include "protocol/schema/field_check.h"
#include "protocol/schema/schema.h"

namespace tutti::protocol {
namespace {

api::TextPrompt MakeText(std::string text, bool add_special, const CheckedObject& object) {
  return {std::move(text), add_special, object.Bool("parse_special").value_or(true)};
}

Status ReadTeiInputs(const CheckedObject& object, const std::string& model, TokenizeCall* call) {
  const Json& inputs = *object.Find("inputs");
  const bool add_special = object.Bool("add_special_tokens").value_or(true);
  const auto add = [&](const Json& text, const std::string& param) -> Status {
    if (!text.is_string()) return BadValue(param, param + " must be a string");
    const std::string copy(TextOf(text));
    call->requests.push_back({model, MakeText(copy, add_special, object)});
    return OkStatus();
  };
  if (!inputs.is_array()) return add(inputs, "inputs");
  const JsonArray& array = inputs.get_array();
  const auto most = static_cast<size_t>(FindField(kTokenize, "inputs")->high);
  if (array.empty() || array.size() > most) {
    return BadValue(
        "inputs", "inputs must be a string or a list of 1 to " + std::to_string(most) + " strings");
  }
  for (size_t i = 0; i < array.size(); ++i)
    RETURN_IF_ERROR(add(array[i], ElementPath("inputs", i)));
  return OkStatus();
}

void WritePiece(const std::string& bytes, JsonWriter* json) {
  if (IsValidUtf8(bytes)) {
    json->String(bytes);
    return;
  }
  json->BeginArray();
  for (const char c : bytes) json->Int(static_cast<unsigned char>(c));
  json->EndArray();
}

void WriteVllm(const TokenizeCall& call, const api::TokenizeResult& result, JsonWriter* json) {
  json->BeginObject()
      .Member("count", static_cast<int64_t>(result.tokens.size()))
      .Member("max_model_len", result.max_model_len);
  json->Key("tokens").BeginArray();
  for (const TokenId id : result.tokens) json->Int(id);
  json->EndArray().Key("token_strs");
  if (call.pieces) {
    json->BeginArray();
    for (const std::string& piece : result.pieces) json->String(TokenBytesAsText(piece));
    json->EndArray();
  } else {
    json->Null();
  }
  json->EndObject();
}

void WriteLlama(const TokenizeCall& call, const api::TokenizeResult& result, JsonWriter* json) {
  json->BeginObject().Key("tokens").BeginArray();
  for (size_t i = 0; i < result.tokens.size(); ++i) {
    if (call.pieces && i < result.pieces.size()) {
      json->BeginObject().Member("id", result.tokens[i]).Key("piece");
      WritePiece(result.pieces[i], json);
      json->EndObject();
    } else {
      json->Int(result.tokens[i]);
    }
  }
  json->EndArray().EndObject();
}

void WriteTei(std::span<const api::TokenizeResult> results, JsonWriter* json) {
  json->BeginArray();
  for (const api::TokenizeResult& result : results) {
    json->BeginArray();
    for (size_t i = 0; i < result.tokens.size(); ++i) {
      json->BeginObject().Member("id", result.tokens[i]);
      json->Member("text",
                   i < result.pieces.size() ? TokenBytesAsText(result.pieces[i]) : std::string());
      json->Member("special", i < result.special.size() && result.special[i]).EndObject();
    }
    json->EndArray();
  }
  json->EndArray();
}

}  // namespace

Result<TokenizeCall> ParseTokenize(const Json& body, const ParseOptions& options) {
  IgnoredFields ignored;
  ASSIGN_OR_RETURN(const CheckedObject object,
                   CheckedObject::Check(kTokenize, body, "", options.strict, &ignored));
  const int given =
      object.Has("prompt") + object.Has("messages") + object.Has("content") + object.Has("inputs");
  if (given == 0) {
    return IsMissing("prompt", "one of prompt, messages, content and inputs is needed");
  }
  if (given > 1)
    return BadValue("prompt", "prompt, messages, content and inputs exclude each other");

  TokenizeCall call;
  const std::string model = object.Text("model").value_or("");
  if (object.Has("messages")) {
    if (object.Bool("add_special_tokens").value_or(false)) {
      return NotSupported("add_special_tokens",
                          "add_special_tokens is not supported with messages: the chat "
                          "template writes them");
    }
    ASSIGN_OR_RETURN(api::ChatPrompt chat, ParseChatPrompt(object, options.strict, &ignored));
    call.requests.push_back({model, std::move(chat)});
    call.pieces = object.Bool("return_token_strs").value_or(false);
  } else if (const Status alone = RefuseTemplateArguments(object); !alone.ok()) {
    return alone;
  } else if (const Status tools = RefuseTools(object); !tools.ok()) {
    return tools;
  } else if (object.Has("prompt")) {
    const bool add_special = object.Bool("add_special_tokens").value_or(true);
    call.requests.push_back({model, MakeText(*object.Text("prompt"), add_special, object)});
    call.pieces = object.Bool("return_token_strs").value_or(false);
  } else if (object.Has("content")) {
    call.dialect = TokenizeDialect::kLlama;
    const bool add_special = object.Bool("add_special").value_or(false);
    call.requests.push_back({model, MakeText(*object.Text("content"), add_special, object)});
    call.pieces = object.Bool("with_pieces").value_or(false);
  } else {
    call.dialect = TokenizeDialect::kTei;
    RETURN_IF_ERROR(ReadTeiInputs(object, model, &call));
  }
  const bool pieces = call.pieces || call.dialect == TokenizeDialect::kTei;
  for (api::TokenizeRequest& request : call.requests) request.pieces = pieces;
  call.ignored = ignored.names();
  return call;
}

std::string TokenizeBody(const TokenizeCall& call, std::span<const api::TokenizeResult> results) {
  JsonWriter json;
  switch (call.dialect) {
    case TokenizeDialect::kVllm:
      WriteVllm(call, results[0], &json);
      break;
    case TokenizeDialect::kLlama:
      WriteLlama(call, results[0], &json);
      break;
    case TokenizeDialect::kTei:
      WriteTei(results, &json);
      break;
  }
  return json.Take();
}

Result<DetokenizeCall> ParseDetokenize(const Json& body, const ParseOptions& options) {
  IgnoredFields ignored;
  ASSIGN_OR_RETURN(const CheckedObject object,
                   CheckedObject::Check(kDetokenize, body, "", options.strict, &ignored));
  return DetokenizeCall{object.Text("model").value_or(""), object.Tokens("tokens"),
                        ignored.names()};
}

std::string DetokenizeBody(std::string_view text) {
  JsonWriter json;
  json.BeginObject().Member("prompt", text).Member("content", text).EndObject();
  return json.Take();
}

Result<ApplyTemplateCall> ParseApplyTemplate(const Json& body, const ParseOptions& options) {
  IgnoredFields ignored;
  ASSIGN_OR_RETURN(const CheckedObject object,
                   CheckedObject::Check(kApplyTemplate, body, "", options.strict, &ignored));
  ASSIGN_OR_RETURN(api::ChatPrompt chat, ParseChatPrompt(object, options.strict, &ignored));
  return ApplyTemplateCall{{object.Text("model").value_or(""), std::move(chat)}, ignored.names()};
}

std::string ApplyTemplateBody(const api::TokenizeResult& result) {
  return JsonWriter()
      .BeginObject()
      .Member("prompt", result.text)
      .Member("count", static_cast<int64_t>(result.tokens.size()))
      .Member("max_model_len", result.max_model_len)
      .EndObject()
      .Take();
}

Result<InputTokensCall> ParseInputTokens(const Json& body, const ParseOptions& options) {
  ASSIGN_OR_RETURN(ResponsesCall call, ParseResponses(body, options));
  const char* const dialog = !call.conversation.empty()           ? "conversation"
                             : !call.previous_response_id.empty() ? "previous_response_id"
                                                                  : nullptr;
  if (dialog != nullptr) {
    return NotSupported(dialog, std::string(dialog) + " is not counted; send its items as input");
  }
  InputTokensCall counted;
  counted.request.model = std::move(call.model);
  counted.request.prompt = std::move(call.request.prompt);
  counted.ignored = std::move(call.ignored);
  return counted;
}

std::string InputTokensBody(const api::TokenizeResult& result) {
  return JsonWriter()
      .BeginObject()
      .Member("object", "response.input_tokens")
      .Member("input_tokens", static_cast<int64_t>(result.tokens.size()))
      .EndObject()
      .Take();
}

Result<DecodeCall> ParseDecode(const Json& body, const ParseOptions& options) {
  IgnoredFields ignored;
  ASSIGN_OR_RETURN(const CheckedObject object,
                   CheckedObject::Check(kDecode, body, "", options.strict, &ignored));
  DecodeCall call;
  call.model = object.Text("model").value_or("");
  call.skip_special = object.Bool("skip_special_tokens").value_or(true);
  const Json& ids = *object.Find("ids");
  if (!ids.is_array())
    return BadValue("ids", "ids must be a list of token ids, or a list of such lists");
  const JsonArray& array = ids.get_array();
  if (array.empty()) return InvalidArgument("empty_prompt", "ids is empty").WithParam("ids");
  call.listed = array[0].is_array();
  if (!call.listed) {
    ASSIGN_OR_RETURN(std::vector<TokenId> one, ReadTokenIds(array, "ids"));
    call.ids.push_back(std::move(one));
  }
  if (call.listed && array.size() > api::kMaxEncodeInputs) {
    return BadValue("ids",
                    "ids must hold at most " + std::to_string(api::kMaxEncodeInputs) + " lists");
  }
  for (size_t i = 0; call.listed && i < array.size(); ++i) {
    const std::string param = ElementPath("ids", i);
    if (!array[i].is_array()) return BadValue(param, param + " must be a list of token ids");
    ASSIGN_OR_RETURN(std::vector<TokenId> one, ReadTokenIds(array[i].get_array(), param));
    call.ids.push_back(std::move(one));
  }
  call.ignored = ignored.names();
  return call;
}

std::string DecodeBody(std::span<const std::string> texts) {
  JsonWriter json;
  json.BeginArray();
  for (const std::string& text : texts) json.String(text);
  json.EndArray();
  return json.Take();
}

}  // namespace tutti::protocol
