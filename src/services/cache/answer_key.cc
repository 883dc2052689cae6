#include "services/cache/answer_key.h"

#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/rand.h>

#include <bit>
#include <optional>
#include <type_traits>
#include <utility>
#include <vector>

#include "api/models.h"
#include "base/check.h"

namespace tutti::cache {
namespace {

// Values are written with a fixed size or a length prefix, so no two lists of values give the same
// bytes.
class Words {
 public:
  explicit Words(size_t expected) { out_.reserve(expected); }

  template <class T>
  requires std::is_integral_v<T> || std::is_enum_v<T> Words& operator<<(T value) {
    return Bits(static_cast<uint64_t>(value));
  }
  Words& operator<<(double value) { return Bits(std::bit_cast<uint64_t>(value)); }
  Words& operator<<(float value) { return Bits(std::bit_cast<uint32_t>(value)); }
  Words& operator<<(std::string_view text) {
    Bits(text.size());
    out_ += text;
    return *this;
  }
  Words& operator<<(const std::string& text) { return *this << std::string_view(text); }
  Words& operator<<(const std::pair<TokenId, float>& pair) {
    return *this << pair.first << pair.second;
  }
  template <class T>
  Words& operator<<(const std::optional<T>& value) {
    *this << value.has_value();
    return value.has_value() ? *this << *value : *this;
  }
  template <class T>
  Words& operator<<(const std::vector<T>& list) {
    Bits(list.size());
    for (const T& each : list) *this << each;
    return *this;
  }
  Words& operator<<(const api::ToolCall& call) {
    return *this << call.id << call.name << call.arguments;
  }
  Words& operator<<(std::span<const TokenId> tokens) {
    static_assert(std::has_unique_object_representations_v<TokenId>);
    return *this << std::string_view(reinterpret_cast<const char*>(tokens.data()),
                                     tokens.size_bytes());
  }

  std::string Take() { return std::move(out_); }

 private:
  Words& Bits(uint64_t value) {
    char bytes[sizeof value];
    std::memcpy(bytes, &value, sizeof value);
    out_.append(bytes, sizeof bytes);
    return *this;
  }
  std::string out_;
};

void Write(const api::SamplingParams& sampling, Words* words) {
  // Binds all members by name, so that a new member does not compile until it is handled here.
  const auto& [temperature, top_p, top_k, min_p, repetition_penalty, presence_penalty,
               frequency_penalty, logit_bias, allowed_token_ids, banned_token_ids, seed, max_tokens,
               min_tokens, stop, stop_token_ids, ignore_eos, include_stop_in_output,
               skip_special_tokens, logprobs, prompt_logprobs] = sampling;
  // Values after the model's defaults have been applied: explicit and default values are equal.
  *words << temperature.value() << top_p.value() << top_k.value() << min_p.value()
         << repetition_penalty.value() << presence_penalty << frequency_penalty << logit_bias
         << allowed_token_ids << banned_token_ids << seed << max_tokens << min_tokens << stop
         << stop_token_ids << ignore_eos << include_stop_in_output << skip_special_tokens
         << logprobs << prompt_logprobs;
}

// `sampled`: the sampling of `request` with its model's defaults.
void Write(const api::GenerateRequest& request, const api::SamplingParams& sampled, Words* words) {
  // All members by name, as above. Members that are not written do not change the answer: caller,
  // time and priority, traces, truncation (the tokens of the prompt are in the key), prediction,
  // and cache control. Scores of a continuation and orders to pin are never cached.
  const auto& [request_id, model, prompt, sampling, constraint, max_reasoning_tokens, n, priority,
               deadline, detached, caller, user, route, rate_limits, cache, cache_report,
               keep_alive, tenant, tenant_weight, observer, cache_salt, cache_scope,
               use_prefix_cache, explain_prefix, prediction, truncate_prompt_tokens, call_bytes,
               score_only, continuation, pin, trace_context, trace] = request;
  *words << !cache_scope.empty() << (cache_scope.empty() ? tenant : cache_scope);
  *words << cache_salt << n << score_only;
  *words << max_reasoning_tokens.value_or(-1);
  // Only answers to chats are parsed for channels and reasoning.
  *words << std::holds_alternative<api::ChatPrompt>(prompt);
  *words << constraint.has_value();
  if (constraint.has_value()) {
    const auto& [kind, text, choices, param] = *constraint;
    *words << kind << text << choices;
  }
  *words << use_prefix_cache << explain_prefix;  // visible in the answer's usage
  // In infilling (a prompt with a suffix), the infill tokens end the answer; other prompts with
  // equal tokens may have another answer.
  const auto* const text_prompt = std::get_if<api::TextPrompt>(&prompt);
  *words << (text_prompt != nullptr && text_prompt->suffix.has_value());
  Write(sampled, words);
}

AnswerKey Hashed(std::string words, const HashKey& secret) {
  AnswerKey key;
  key.words = std::move(words);
  key.hash = HmacOf(secret, key.words);
  return key;
}

}  // namespace

HashKey DrawHashKey() {
  HashKey key;
  CHECK_EQ(RAND_bytes(key.data(), static_cast<int>(key.size())), 1) << "no random numbers";
  return key;
}

std::array<unsigned char, 32> HmacOf(std::span<const char> secret, std::string_view text) {
  std::array<unsigned char, 32> mac{};
  unsigned int size = 0;
  CHECK(HMAC(EVP_sha256(), secret.data(), static_cast<int>(secret.size()),
             reinterpret_cast<const unsigned char*>(text.data()), text.size(), mac.data(),
             &size) != nullptr)
      << "no SHA-256";
  CHECK_EQ(size, mac.size());
  return mac;
}

std::array<unsigned char, 32> HmacOf(const HashKey& secret, std::string_view text) {
  return HmacOf(std::span(reinterpret_cast<const char*>(secret.data()), secret.size()), text);
}

AnswerKey KeyOf(const api::RenderedRequest& rendered, const HashKey& secret) {
  Words words(rendered.prompt.size_bytes() + 512);
  words << kKeyVersion << rendered.model_instance << rendered.model.id << rendered.model.digest
        << rendered.reasoning << rendered.begins_inside;
  Write(rendered.request, rendered.request.sampling, &words);
  words << rendered.prompt;

  return Hashed(words.Take(), secret);
}

AnswerKey SharedKeyOf(const api::RenderedRequest& rendered, const HashKey& secret) {
  Words words(rendered.prompt.size_bytes() + 512);
  words << kKeyVersion << rendered.model_identity << rendered.model.max_model_len
        << rendered.reasoning << rendered.begins_inside;
  Write(rendered.request, rendered.request.sampling, &words);
  words << rendered.prompt;
  return Hashed(words.Take(), secret);
}

AnswerKey KeyOf(const api::RenderedInputs& inputs, std::span<const TokenId> tokens,
                std::span<const uint8_t> types, const HashKey& secret) {
  Words words(tokens.size_bytes() + types.size() + 256);
  words << kKeyVersion << inputs.model_instance << inputs.model.id << inputs.model.digest
        << !inputs.request.cache_scope.empty()
        << (inputs.request.cache_scope.empty() ? inputs.request.tenant : inputs.request.cache_scope)
        << inputs.request.output;
  words << std::string_view(reinterpret_cast<const char*>(types.data()), types.size());
  words << tokens;
  return Hashed(words.Take(), secret);
}

AnswerKey PartitionOf(const api::GenerateRequest& request,
                      std::span<const api::ChatMessage> said_before, const api::ModelInfo& model,
                      const api::ModelInfo& encoder, const HashKey& secret) {
  Words words(1024);
  words << kKeyVersion << model.id << model.digest << model.created_unix_s << encoder.id
        << encoder.digest << request.truncate_prompt_tokens;
  api::SamplingParams sampled = request.sampling;
  api::ApplyDefaults(model.sampling, &sampled);
  Write(request, sampled, &words);
  // Tools are not written: a request that has some is not kept (HasTools()).
  const auto& [messages, add_generation_prompt, continue_final_message, template_arguments, tools,
               tool_choice, parallel_tool_calls] = std::get<api::ChatPrompt>(request.prompt);
  words << add_generation_prompt << continue_final_message << template_arguments
        << messages.back().name << messages.back().part_ends << said_before.size();
  for (const auto& [role, content, name, part_ends, tool_calls, tool_call_id, reasoning] :
       said_before)
    words << role << content << name << part_ends << tool_calls << tool_call_id << reasoning;
  return Hashed(words.Take(), secret);
}

bool HasTools(const api::Prompt& prompt) {
  const auto* chat = std::get_if<api::ChatPrompt>(&prompt);
  return chat != nullptr && !chat->tools.empty();
}

bool Deterministic(const api::SamplingParams& sampling) {
  return sampling.temperature == 0 || sampling.seed.has_value();
}

}  // namespace tutti::cache
