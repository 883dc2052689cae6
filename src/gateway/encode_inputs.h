// From a door's texts to the tokens an encoder reads: prompt, tokeniser, special tokens,
// truncation. Pure; any thread.
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

// What can be told of a request without reading its texts: whether `model` gives that output, with
// those dimensions, of those inputs. `param` names the OpenAI field. Errors: invalid_value,
// empty_prompt, token_out_of_range.
Status CheckEncodeRequest(const ServedModel& model, const api::EncodeRequest& request);

// A checked request's inputs. Pairs that are too long lose tokens of the longer text first. Errors:
// context_length_exceeded (with the tokens as excess) and invalid_utf8, naming the input;
// invalid_value beyond total_tokens.
Result<EncodeTokens> ReadEncodeInputs(const ServedModel& model, const api::EncodeRequest& request);

// Bytes a request holds while it waits: texts and ids.
size_t EncodeBytes(const api::EncodeRequest& request);

// Leaves those of `kept` (indices, ascending) in `inputs`.
void KeepOnly(const std::vector<size_t>& kept, EncodeTokens* inputs);

}  // namespace tutti::gateway
