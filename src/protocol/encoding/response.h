// JSON answers of encoder routes, in the dialect of the call. Pure; large answers take tens of
// milliseconds (40 ns per float written as a number).
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "api/encoding.h"
#include "base/status.h"
#include "protocol/encoding/call.h"

namespace tutti::protocol {

struct EncodingHead {
  std::string id;     // of kEmbeddings, kRerank and kScore
  std::string model;  // as asked, or the one that was chosen
  int64_t created_s = 0;
  std::vector<std::string> labels;  // kTeiPredict: of each score
};

// Estimated bytes of the answer, to reserve memory.
size_t EstimateEncodingBody(const EncodingCall& call, const api::EncodeResult& result);

// Errors: invalid_value (of a model whose files were read after the call was checked, or have
// changed since: it gives other scores than one for each pair that the call ranks).
Result<std::string> EncodingBody(const EncodingCall& call, const EncodingHead& head,
                                 const api::EncodeResult& result);

// Cosine similarity of two vectors, computed in float64; 0 if one of them is zero.
float Cosine(std::span<const float> a, std::span<const float> b);

}  // namespace tutti::protocol
