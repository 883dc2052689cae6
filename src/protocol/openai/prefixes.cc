#include "protocol/openai/prefixes.h"

#include <utility>
#include <variant>

#include "base/clock.h"
#include "protocol/json/field_error.h"
#include "protocol/json/json_writer.h"
#include "protocol/openai/parts.h"

namespace tutti::protocol {
namespace {

void WritePrefix(const api::PinnedPrefix& pin, JsonWriter* json) {
  json->Member("id", pin.id)
      .Member("object", "prefix")
      .Member("model", pin.model)
      .Member("pinned_tokens", pin.tokens)
      .Member("expires_at", pin.expires_unix_ms / 1000);
}

class PrefixWriter final : public ResponseWriter {
 public:
  PrefixWriter(const GenerationCall& call, ResponseHead head)
      : call_(call), head_(std::move(head)) {}

  void OnEvent(int /*prompt*/, const api::StreamEvent& event, std::string* /*out*/) override {
    if (event.kind == api::StreamEvent::Kind::kEnd) usage_ = event.usage;
  }

  void OnDone(std::string* out) override {
    const int64_t ttl_s = static_cast<int64_t>(ToSeconds(call_.requests.front().pin->ttl));
    JsonWriter json(out);
    json.BeginObject();
    WritePrefix({.id = head_.id,
                 .model = head_.model,
                 .tokens = usage_.pinned_tokens,
                 .expires_unix_ms = (head_.created_s + ttl_s) * 1000},
                &json);
    json.Member("created", head_.created_s).Key("usage");
    WriteUsage(usage_, &json);
    json.EndObject();
  }

  void OnError(const ErrorView& error, std::string* out) override { *out += ErrorBody(error); }

 private:
  const GenerationCall& call_;
  const ResponseHead head_;
  api::Usage usage_;
};

}  // namespace

Result<GenerationCall> ParsePrefix(const Json& body, const ParseOptions& options) {
  if (!body.is_object()) return InvalidArgument("invalid_json", "the body must be a JSON object");
  JsonObject fields = body.get_object();
  int64_t ttl_s = kDefaultPinSeconds;
  if (const Json* given = fields.if_contains("ttl_s"); given != nullptr && !given->is_null()) {
    if (given->is_uint64() && given->get_uint64() <= static_cast<uint64_t>(kMaxPinSeconds)) {
      ttl_s = static_cast<int64_t>(given->get_uint64());
    } else {
      ttl_s = given->is_int64() ? given->get_int64() : 0;
    }
    if (ttl_s < 1 || ttl_s > kMaxPinSeconds) {
      return BadValue("ttl_s", "ttl_s must be a whole number of seconds, 1 to " +
                                   std::to_string(kMaxPinSeconds));
    }
  }
  fields.erase("ttl_s");
  const Json* stream = fields.if_contains("stream");
  if (stream != nullptr && stream->is_bool() && stream->get_bool())
    return NotSupported("stream", "a prefix has no answer to stream");
  for (const char* const name : {"n", "max_tokens", "max_completion_tokens", "echo", "logprobs",
                                 "prompt_logprobs", "top_logprobs", "response_format"}) {
    const Json* given = fields.if_contains(name);
    if (given == nullptr || given->is_null()) continue;
    return NotSupported(name, std::string(name) + " has no meaning for a prefix");
  }
  const bool chat = fields.contains("messages");
  // What follows the messages is the next message and not yet an answer.
  if (chat && !fields.contains("add_generation_prompt")) fields["add_generation_prompt"] = false;
  ASSIGN_OR_RETURN(GenerationCall call, ParseGeneration(chat ? Dialect::kChat : Dialect::kText,
                                                        Json(std::move(fields)), options));
  if (call.requests.size() != 1) return BadValue("prompt", "a prefix has one prompt");
  call.dialect = Dialect::kPrefix;
  api::GenerateRequest& request = call.requests.front();
  request.score_only = true;
  request.sampling.max_tokens = 0;
  request.pin = {.id = {}, .ttl = std::chrono::seconds(ttl_s)};
  return call;
}

std::unique_ptr<ResponseWriter> MakePrefixWriter(const GenerationCall& call, ResponseHead head) {
  return std::make_unique<PrefixWriter>(call, std::move(head));
}

std::string PrefixListBody(const std::vector<api::PinnedPrefix>& pins) {
  JsonWriter json;
  json.BeginObject().Member("object", "list").Key("data").BeginArray();
  for (const api::PinnedPrefix& pin : pins) {
    json.BeginObject();
    WritePrefix(pin, &json);
    json.EndObject();
  }
  json.EndArray().EndObject();
  return json.Take();
}

std::string PrefixDeletedBody(const std::string& id) {
  JsonWriter json;
  json.BeginObject()
      .Member("id", id)
      .Member("object", "prefix")
      .Member("deleted", true)
      .EndObject();
  return json.Take();
}

}  // namespace tutti::protocol
