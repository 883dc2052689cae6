// What an answer is known by: everything that can change it, written out, and a keyed hash of that.
// Pure; any thread.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>

#include "api/answer_cache.h"
#include "api/encoding_cache.h"

namespace tutti::cache {

// Counted up when the words below change their meaning.
inline constexpr uint32_t kKeyVersion = 3;

// Of this process alone, or of all servers that keep answers together: nobody can make two requests
// collide who does not know it.
using HashKey = std::array<unsigned char, 32>;
HashKey DrawHashKey();

// Two requests have equal `words` if and only if nothing that can change the answer differs:
// tenant (or the scope that it shares) and salt, model, tokens of the prompt, every parameter with
// its default filled in. The hash is HMAC-SHA-256 (RFC 2104) of the words; whoever looks something
// up by the hash compares the words too.
struct AnswerKey {
  std::array<unsigned char, 32> hash{};
  std::string words;
  friend bool operator==(const AnswerKey&, const AnswerKey&) = default;
};
AnswerKey KeyOf(const api::RenderedRequest& rendered, const HashKey& secret);
// Likewise where several servers keep answers: of the model what decides its bits on any of them,
// in place of what tells loads and names of this process apart.
AnswerKey SharedKeyOf(const api::RenderedRequest& rendered, const HashKey& secret);
// Likewise of one input of an encoder, whose raw row is kept: what is done with rows afterwards
// (length 1, leading components, squashing) changes nothing of it.
AnswerKey KeyOf(const api::RenderedInputs& inputs, std::span<const TokenId> tokens,
                std::span<const uint8_t> types, const HashKey& secret);

// What must be equal of two requests whose last messages are compared by sense: all but that
// message. `said_before`: the earlier ones. The encoder is the one whose vectors are compared.
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

// Whether the prompt lists functions. Such an answer is neither kept nor shared: a key holds the
// prompt's tokens, and not what tool_choice and schemas allow of the answer.
bool HasTools(const api::Prompt& prompt);

}  // namespace tutti::cache
