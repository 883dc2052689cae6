// AnswerKey: everything that can change an answer, serialised, and its keyed hash. Pure; any
// thread.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>

#include "api/answer_cache.h"

namespace tutti::cache {

// Increase when the meaning of the words below changes.
inline constexpr uint32_t kKeyVersion = 3;

// Secret key of the hash: random for this process, or common to all servers that share a cache.
// Clients that do not know it cannot construct two requests that collide.
using HashKey = std::array<unsigned char, 32>;
HashKey DrawHashKey();

// HMAC-SHA-256 (RFC 2104).
std::array<unsigned char, 32> HmacOf(std::span<const char> secret, std::string_view text);
std::array<unsigned char, 32> HmacOf(const HashKey& secret, std::string_view text);

// Cache key of an answer. Two requests have equal `words` if and only if nothing that can change
// the answer differs: tenant (or its cache scope) and salt, model, tokens of the prompt, every
// parameter with its default filled in. The hash is HMAC-SHA-256 (RFC 2104) of the words; a lookup
// by hash must compare the words too.
struct AnswerKey {
  std::array<unsigned char, 32> hash{};
  std::string words;
  friend bool operator==(const AnswerKey&, const AnswerKey&) = default;
};
AnswerKey KeyOf(const api::RenderedRequest& rendered, const HashKey& secret);
// Key for a cache that several servers share. It holds the model's identity, which is equal on all
// servers that compute the same bits, instead of the names and load numbers of this process.
AnswerKey SharedKeyOf(const api::RenderedRequest& rendered, const HashKey& secret);
// Key of one input of an encoder. The cache stores raw rows, so post-processing (normalization,
// dimensions, activation) is not part of the key.
AnswerKey KeyOf(const api::RenderedInputs& inputs, std::span<const TokenId> tokens,
                std::span<const uint8_t> types, const HashKey& secret);

// Key of everything except the last message, which the semantic cache compares by its vector.
// `said_before`: the earlier messages. `encoder`: the model that computes the vectors.
AnswerKey PartitionOf(const api::GenerateRequest& request,
                      std::span<const api::ChatMessage> said_before, const api::ModelInfo& model,
                      const api::ModelInfo& encoder, const HashKey& secret);

struct AnswerKeyHash {
  size_t operator()(const AnswerKey& key) const {
    size_t value = 0;
    std::memcpy(&value, key.hash.data(), sizeof value);
    return value;
  }
};

// Whether an equal request must get an equal answer: greedy, or drawn from a seed that the client
// chose.
bool Deterministic(const api::SamplingParams& sampling);

// Whether the prompt lists functions. Such an answer is neither stored nor shared, because the key
// has the prompt's tokens but not the constraints by tool_choice and schemas.
bool HasTools(const api::Prompt& prompt);

}  // namespace tutti::cache
