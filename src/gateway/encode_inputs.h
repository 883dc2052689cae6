// Preparation of encode requests: converts texts to an encoder's input tokens (prompt, tokenizer,
// special tokens, truncation). Pure; any thread.
#pragma once

#include <cstdint>
#include <vector>

#include "api/encoding.h"
#include "base/status.h"
#include "base/types.h"
#include "gateway/served_model.h"

namespace tutti::gateway {

struct EncodeTokens {
  std::vector<TokenId> tokens;   // of all inputs, one after the other
  std::vector<uint8_t> types;    // kind of each token; none: all 0
  std::vector<int32_t> lengths;  // tokens of each input
};

// Checks of a request that do not tokenize its texts: whether `model` supports the output, the
// dimensions and the kinds of inputs. `param` names the OpenAI field. Errors: invalid_value,
// empty_prompt, token_out_of_range.
Status CheckEncodeRequest(const ServedModel& model, const api::EncodeRequest& request);

// Tokenizes the inputs of a checked request. Truncation of a pair removes tokens of the longer text
// first. Errors: context_length_exceeded (with the excess tokens) and invalid_utf8, which name the
// input; invalid_value beyond total_tokens.
Result<EncodeTokens> ReadEncodeInputs(const ServedModel& model, const api::EncodeRequest& request);

// Bytes a request holds while it waits: texts and ids.
size_t EncodeBytes(const api::EncodeRequest& request);

// Removes all inputs except those with the indices `kept`, ascending.
void KeepOnly(const std::vector<size_t>& kept, EncodeTokens* inputs);

}  // namespace tutti::gateway
