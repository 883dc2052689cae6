#include "protocol/openai/parts.h"

#include <algorithm>
#include <cmath>

#include "base/ascii.h"
#include "protocol/json/field_error.h"
#include "protocol/prefix_report.h"

namespace tutti::protocol {
namespace {

constexpr float kNoLogprob = -9999.0f;  // stands for minus infinity, which JSON cannot say

float Finite(float logprob) { return std::isfinite(logprob) ? logprob : kNoLogprob; }

void WriteBytes(std::string_view bytes, JsonWriter* json) {
  json->BeginArray();
  for (const char c : bytes) json->Int(static_cast<unsigned char>(c));
  json->EndArray();
}

void WriteChatToken(const api::Logprob& token, JsonWriter* json) {
  json->Member("token", TokenBytesAsText(token.bytes));
  json->Key("logprob").Float(Finite(token.logprob)).Key("bytes");
  WriteBytes(token.bytes, json);
}

void WriteTopObject(const api::TokenLogprobs& token, int depth, JsonWriter* json) {
  std::vector<std::string> seen;  // tokens of equal text: the more probable one stands
  json->BeginObject();
  const auto add = [&](const api::Logprob& candidate) {
    std::string text = TokenBytesAsText(candidate.bytes);
    if (std::find(seen.begin(), seen.end(), text) != seen.end()) return;
    json->Key(text).Float(Finite(candidate.logprob));
    seen.push_back(std::move(text));
  };
  for (size_t i = 0; i < token.top.size() && i < static_cast<size_t>(depth); ++i) add(token.top[i]);
  add(token.chosen);
  json->EndObject();
}

}  // namespace

std::string TokenBytesAsText(std::string_view bytes) {
  if (IsValidUtf8(bytes)) return std::string(bytes);
  std::string text = "bytes:";
  for (size_t i = 0; i < bytes.size(); ++i) text += "\\x" + ToHex(bytes.substr(i, 1));
  return text;
}

int64_t OffsetCounter::Next(std::string_view bytes, bool shown) {
  const bool continues = !bytes.empty() && (static_cast<unsigned char>(bytes[0]) & 0xC0) == 0x80;
  const int64_t offset = continues && characters_ > 0 ? characters_ - 1 : characters_;
  if (shown) characters_ += static_cast<int64_t>(CountCharacters(bytes));
  return offset;
}

ShownToken MakeShownToken(const api::StreamEvent& event, bool skip_special,
                          OffsetCounter* offsets) {
  ShownToken token{*event.logprobs, true, 0};
  const bool shown = !(token.logprobs.chosen.special && skip_special);
  token.offset = offsets->Next(token.logprobs.chosen.bytes, shown);
  return token;
}

void AppendAfterPrompt(const std::vector<ShownToken>& tokens, OffsetCounter prompt,
                       std::vector<ShownToken>* all) {
  const int64_t start = prompt.Next("", false);
  for (ShownToken token : tokens) {
    token.offset += start;
    all->push_back(std::move(token));
  }
}

ShownToken MakePromptToken(const api::StreamEvent& event, bool first, OffsetCounter* offsets) {
  ShownToken token;
  if (event.logprobs.has_value()) {
    token.logprobs = *event.logprobs;
  } else {
    token.logprobs.chosen.token = event.token;
    token.logprobs.chosen.bytes = event.text;
  }
  token.has_value = !first && event.logprobs.has_value();
  token.offset = offsets->Next(token.logprobs.chosen.bytes, true);
  return token;
}

void WriteReasoning(std::string_view reasoning, JsonWriter* json) {
  json->Member("reasoning_content", reasoning).Member("reasoning", reasoning);
}

void WriteTokenLogprobs(const api::TokenLogprobs& token, JsonWriter* json) {
  json->BeginObject();
  WriteChatToken(token.chosen, json);
  json->Key("top_logprobs").BeginArray();
  for (const api::Logprob& candidate : token.top) {
    json->BeginObject();
    WriteChatToken(candidate, json);
    json->EndObject();
  }
  json->EndArray().EndObject();
}

void WriteTokenList(const std::vector<ShownToken>& tokens, JsonWriter* json) {
  json->BeginArray();
  for (const ShownToken& token : tokens) WriteTokenLogprobs(token.logprobs, json);
  json->EndArray();
}

void WriteChatLogprobs(const std::vector<ShownToken>& tokens, JsonWriter* json) {
  json->BeginObject().Key("content");
  WriteTokenList(tokens, json);
  json->Member("refusal", nullptr).EndObject();
}

void WriteTextLogprobs(const std::vector<ShownToken>& tokens, int depth, JsonWriter* json) {
  json->BeginObject().Key("tokens").BeginArray();
  for (const ShownToken& token : tokens)
    json->String(TokenBytesAsText(token.logprobs.chosen.bytes));
  json->EndArray().Key("token_logprobs").BeginArray();
  for (const ShownToken& token : tokens) {
    if (token.has_value) {
      json->Float(Finite(token.logprobs.chosen.logprob));
    } else {
      json->Null();
    }
  }
  json->EndArray().Key("top_logprobs").BeginArray();
  for (const ShownToken& token : tokens) {
    if (token.has_value) {
      WriteTopObject(token.logprobs, depth, json);
    } else {
      json->Null();
    }
  }
  json->EndArray().Key("text_offset").BeginArray();
  for (const ShownToken& token : tokens) json->Int(token.offset);
  json->EndArray().EndObject();
}

void WritePromptLogprobs(const std::vector<ShownToken>& tokens, JsonWriter* json) {
  json->BeginArray();
  for (const ShownToken& token : tokens) {
    if (!token.has_value) {
      json->Null();
      continue;
    }
    json->BeginObject();
    bool chosen_listed = false;
    const auto add = [&](const api::Logprob& candidate, std::optional<size_t> rank) {
      json->Key(std::to_string(candidate.token))
          .BeginObject()
          .Key("logprob")
          .Float(Finite(candidate.logprob));
      if (rank.has_value()) json->Member("rank", static_cast<int64_t>(*rank));
      json->Member("decoded_token", TokenBytesAsText(candidate.bytes)).EndObject();
      chosen_listed = chosen_listed || candidate.token == token.logprobs.chosen.token;
    };
    for (size_t i = 0; i < token.logprobs.top.size(); ++i) add(token.logprobs.top[i], i + 1);
    if (!chosen_listed) add(token.logprobs.chosen, std::nullopt);
    json->EndObject();
  }
  json->EndArray();
}

void WriteUsage(const api::Usage& usage, JsonWriter* json) {
  json->BeginObject()
      .Member("prompt_tokens", usage.prompt_tokens)
      .Member("completion_tokens", usage.completion_tokens)
      .Member("total_tokens", usage.prompt_tokens + usage.completion_tokens);
  json->Key("prompt_tokens_details").BeginObject().Member("cached_tokens", usage.cached_tokens);
  WritePrefixReport(usage, json);
  json->EndObject();
  json->Key("completion_tokens_details")
      .BeginObject()
      .Member("reasoning_tokens", usage.reasoning_tokens);
  if (usage.accepted_prediction_tokens + usage.rejected_prediction_tokens > 0) {
    json->Member("accepted_prediction_tokens", usage.accepted_prediction_tokens)
        .Member("rejected_prediction_tokens", usage.rejected_prediction_tokens);
  }
  json->EndObject();
  if (usage.cached_response) json->Member("cached_response", true);
  json->EndObject();
}

void AppendUsage(const api::Usage& usage, std::string* out) {
  JsonWriter json(out);
  WriteUsage(usage, &json);
}

void WriteTimings(const api::Usage& usage, const api::Timings& timings, JsonWriter* json) {
  const double prefill_s = ToSeconds(timings.prefill), decode_s = ToSeconds(timings.decode);
  const int computed = usage.prompt_tokens - usage.cached_tokens;
  json->BeginObject()
      .Member("cache_n", usage.cached_tokens)
      .Member("prepare_ms", ToMillis(timings.prepare))
      .Member("queue_ms", ToMillis(timings.queue))
      .Member("prompt_n", computed)
      .Member("prompt_ms", ToMillis(timings.prefill))
      .Member("prompt_per_second", prefill_s > 0 ? computed / prefill_s : 0.0)
      .Member("predicted_n", usage.completion_tokens)
      .Member("predicted_ms", ToMillis(timings.decode))
      .Member("predicted_per_second", decode_s > 0 ? usage.completion_tokens / decode_s : 0.0)
      .EndObject();
}

void WriteStopReason(const api::StreamEvent& end, JsonWriter* json) {
  json->Key("stop_reason");
  if (const auto* token = std::get_if<TokenId>(&end.stop_reason)) {
    json->Int(*token);
  } else if (const auto* text = std::get_if<std::string>(&end.stop_reason)) {
    json->String(*text);
  } else {
    json->Null();
  }
}

void AddUsage(const api::Usage& more, api::Usage* sum) {
  const bool first = sum->prompt_tokens == 0;  // no prompt has none
  sum->cached_response = more.cached_response && (first || sum->cached_response);
  sum->prompt_tokens += more.prompt_tokens;
  sum->cached_tokens += more.cached_tokens;
  if (first) sum->prefix = more.prefix;  // of the first prompt
  sum->completion_tokens += more.completion_tokens;
  sum->reasoning_tokens += more.reasoning_tokens;
  sum->accepted_prediction_tokens += more.accepted_prediction_tokens;
  sum->rejected_prediction_tokens += more.rejected_prediction_tokens;
}

void AddTimings(const api::Timings& more, api::Timings* sum) {
  sum->prepare = std::max(sum->prepare, more.prepare);
  sum->queue = std::max(sum->queue, more.queue);
  sum->prefill = std::max(sum->prefill, more.prefill);
  sum->decode = std::max(sum->decode, more.decode);
}

void WriteToolCalls(std::span<const api::ToolCall> calls, JsonWriter* json) {
  json->BeginArray();
  for (const api::ToolCall& call : calls) {
    json->BeginObject().Member("id", call.id).Member("type", "function");
    json->Key("function").BeginObject().Member("name", call.name);
    json->Member("arguments", call.arguments).EndObject().EndObject();
  }
  json->EndArray();
}

void WriteToolCallDelta(const api::ToolCallDelta& delta, JsonWriter* json) {
  json->BeginArray().BeginObject().Member("index", delta.index);
  if (!delta.id.empty()) json->Member("id", delta.id).Member("type", "function");
  json->Key("function").BeginObject();
  if (!delta.name.empty()) json->Member("name", delta.name);
  json->Member("arguments", delta.arguments).EndObject().EndObject().EndArray();
}

}  // namespace tutti::protocol
