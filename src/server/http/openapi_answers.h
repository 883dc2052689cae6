// Shapes of answers in the OpenAPI document, and of the bodies that are not in the schema table, as
// JSON Schema. Only members that a client may rely on are required; others may be added.
#pragma once

#include <array>
#include <string_view>

#include "protocol/error.h"

namespace tutti::http {

struct AnswerSchema {
  std::string_view name, schema;
};

inline constexpr std::string_view kUploadSchema =
    R"({"type":"object","properties":{"file":{"type":"string","format":"binary"},)"
    R"("purpose":{"enum":["batch"]}},"required":["file","purpose"]})";

inline constexpr std::string_view ErrorSchemaOf(protocol::ErrorForm form) {
  switch (form) {
    case protocol::ErrorForm::kOpenAi:
      return "Error";
    case protocol::ErrorForm::kTei:
      return "TeiError";
    case protocol::ErrorForm::kKserve:
    case protocol::ErrorForm::kOllama:
      return "ErrorText";
    case protocol::ErrorForm::kAnthropic:
      return "MessagesError";
  }
  return "Error";
}

inline constexpr auto kAnswerSchemas = std::to_array<AnswerSchema>({
    // --- errors ---
    {"Error", R"({"type":"object","required":["error"],"properties":{"error":{"type":"object",
      "required":["message","type","param","code"],"properties":{"message":{"type":"string"},
      "type":{"type":"string"},"param":{"type":["string","null"]},"code":{"type":["string","null"]}}}}})"},
    {"TeiError", R"({"type":"object","required":["error","error_type"],"properties":{
      "error":{"type":"string"},"error_type":{"type":"string"},"param":{"type":["string","null"]},
      "code":{"type":["string","null"]}}})"},
    {"ErrorText",
     R"({"type":"object","required":["error"],"properties":{"error":{"type":"string"}}})"},
    {"MessagesError", R"({"type":"object","required":["type","error"],"properties":{
      "type":{"const":"error"},"error":{"type":"object","required":["type","message"],"properties":{
      "type":{"type":"string"},"message":{"type":"string"}}},"request_id":{"type":["string","null"]}}})"},

    // --- bodies outside the schema table ---
    {"ModelRequest", R"({"type":"object","required":["model"],"properties":{
      "model":{"type":"string","minLength":1}}})"},
    {"LoadAdapterRequest", R"({"type":"object","required":["lora_name","lora_path"],"properties":{
      "lora_name":{"type":"string"},"lora_path":{"type":"string"},
      "base_model_name":{"type":["string","null"]}}})"},
    {"UnloadAdapterRequest", R"({"type":"object","required":["lora_name"],"properties":{
      "lora_name":{"type":"string"}}})"},
    {"RerankOrTeiRequest", R"({"anyOf":[{"$ref":"#/components/schemas/RerankRequest"},
      {"$ref":"#/components/schemas/TeiRerankRequest"}]})"},
    {"InferRequest", R"({"type":"object","required":["inputs"],"properties":{"id":{"type":"string"},
      "parameters":{"type":"object"},"inputs":{"type":"array","items":{"type":"object",
      "required":["name","shape","datatype"],"properties":{"name":{"type":"string"},
      "shape":{"type":"array","items":{"type":"integer","minimum":0}},"datatype":{"type":"string"},
      "parameters":{"type":"object"},"data":{"type":"array"}}}},
      "outputs":{"type":"array","items":{"type":"object","required":["name"],"properties":{
      "name":{"type":"string"},"parameters":{"type":"object"}}}}}})"},
    {"KserveGenerateRequest", R"({"type":"object","required":["text_input"],"properties":{
      "text_input":{"type":"string"},"parameters":{"type":"object"}}})"},

    // --- generation ---
    {"Usage", R"({"type":"object","properties":{"prompt_tokens":{"type":"integer","minimum":0},
      "completion_tokens":{"type":"integer","minimum":0},"total_tokens":{"type":"integer","minimum":0}}})"},
    {"ChatCompletion", R"({"type":"object","required":["id","object","created","model","choices"],
      "properties":{"id":{"type":"string"},"object":{"const":"chat.completion"},
      "created":{"type":"integer"},"model":{"type":"string"},"choices":{"type":"array","items":{
      "type":"object","required":["index","message","finish_reason"],"properties":{
      "index":{"type":"integer"},"message":{"type":"object","required":["role"],"properties":{
      "role":{"const":"assistant"},"content":{"type":["string","null"]},
      "tool_calls":{"type":["array","null"]}}},"finish_reason":{"type":["string","null"]}}}},
      "usage":{"$ref":"#/components/schemas/Usage"}}})"},
    {"Completion", R"({"type":"object","required":["id","object","created","model","choices"],
      "properties":{"id":{"type":"string"},"object":{"const":"text_completion"},
      "created":{"type":"integer"},"model":{"type":"string"},"choices":{"type":"array","items":{
      "type":"object","required":["index","text","finish_reason"],"properties":{
      "index":{"type":"integer"},"text":{"type":"string"},
      "finish_reason":{"type":["string","null"]}}}},"usage":{"$ref":"#/components/schemas/Usage"}}})"},
    {"Generated", R"({"type":"object"})"},
    {"Infilled",
     R"({"type":"object","required":["content"],"properties":{"content":{"type":"string"}}})"},
    {"Decisions", R"({"type":"object"})"},
    {"Message", R"({"type":"object","required":["id","type","role","content","model"],"properties":{
      "id":{"type":"string"},"type":{"const":"message"},"role":{"const":"assistant"},
      "content":{"type":"array"},"model":{"type":"string"},"stop_reason":{"type":["string","null"]}}})"},
    {"InputTokens", R"({"type":"object","required":["input_tokens"],"properties":{
      "input_tokens":{"type":"integer","minimum":0}}})"},
    {"Tokenized", R"({"type":"object"})"},
    {"Detokenized", R"({"type":"object"})"},

    // --- dialogs, jobs, files ---
    {"Response", R"({"type":"object","required":["id","object","status","model","output"],
      "properties":{"id":{"type":"string"},"object":{"const":"response"},"status":{"type":"string"},
      "model":{"type":"string"},"output":{"type":"array"}}})"},
    {"Conversation", R"({"type":"object","required":["id","object"],"properties":{
      "id":{"type":"string"},"object":{"const":"conversation"}}})"},
    {"Deleted",
     R"({"type":"object","required":["id","deleted"],"properties":{"id":{"type":"string"},
      "deleted":{"const":true}}})"},
    {"List",
     R"({"type":"object","required":["object","data"],"properties":{"object":{"const":"list"},
      "data":{"type":"array","items":{"type":"object"}},"has_more":{"type":"boolean"}}})"},
    {"Job", R"({"type":"object","required":["id","object","status"],"properties":{
      "id":{"type":"string"},"object":{"type":"string"},"status":{"type":"string"}}})"},
    {"File",
     R"({"type":"object","required":["id","object","bytes","filename","purpose"],"properties":{
      "id":{"type":"string"},"object":{"const":"file"},"bytes":{"type":"integer","minimum":0},
      "filename":{"type":"string"},"purpose":{"type":"string"}}})"},
    {"Batch", R"({"type":"object","required":["id","object","status"],"properties":{
      "id":{"type":"string"},"object":{"const":"batch"},"status":{"type":"string"}}})"},

    // --- vectors and scores ---
    {"Embeddings", R"({"type":"object","required":["object","data","model"],"properties":{
      "object":{"const":"list"},"model":{"type":"string"},"data":{"type":"array","items":{
      "type":"object","required":["index","embedding"],"properties":{"index":{"type":"integer"},
      "embedding":{"anyOf":[{"type":"string"},{"type":"array","items":{"type":"number"}}]}}}}}})"},
    {"Ranking", R"({"type":"object","required":["results"],"properties":{"results":{"type":"array",
      "items":{"type":"object","required":["index","relevance_score"],"properties":{
      "index":{"type":"integer"},"relevance_score":{"type":"number"}}}}}})"},
    {"RankingOrList", R"({"anyOf":[{"$ref":"#/components/schemas/Ranking"},{"type":"array"}]})"},
    {"Scores",
     R"({"type":"object","required":["data"],"properties":{"data":{"type":"array","items":{
      "type":"object","required":["index","score"],"properties":{"index":{"type":"integer"},
      "score":{"type":"number"}}}}}})"},
    {"Numbers", R"({"type":"array"})"},
    {"AnyJson", R"({})"},
    {"ModelReady", R"({"type":"object","required":["name","ready"],"properties":{
      "name":{"type":"string"},"ready":{"type":"boolean"}}})"},
    {"InferResponse", R"({"type":"object","required":["model_name","outputs"],"properties":{
      "model_name":{"type":"string"},"outputs":{"type":"array"}}})"},

    // --- models and health ---
    {"Model", R"({"type":"object","required":["id","object"],"properties":{"id":{"type":"string"},
      "object":{"const":"model"}}})"},
    {"Models",
     R"({"type":"object","required":["object","data"],"properties":{"object":{"const":"list"},
      "data":{"type":"array","items":{"$ref":"#/components/schemas/Model"}}}})"},
    {"OllamaModels",
     R"({"type":"object","required":["models"],"properties":{"models":{"type":"array"}}})"},
    {"Status",
     R"({"type":"object","required":["status"],"properties":{"status":{"type":"string"}}})"},
    {"Version",
     R"({"type":"object","required":["version"],"properties":{"version":{"type":"string"}}})"},
    {"Load", R"({"type":"object","required":["running","waiting"],"properties":{
      "running":{"type":"integer","minimum":0},"waiting":{"type":"integer","minimum":0}}})"},
});

}  // namespace tutti::http
