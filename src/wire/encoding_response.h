// What encoders answer, as JSON in the dialect of the call. Pure; large answers take tens of
// milliseconds (40 ns for each float that is written as a number).
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "api/encoding.h"
#include "wire/encoding_call.h"

namespace tutti::wire {

struct EncodingHead {
  std::string id;     // of kEmbeddings, kRerank and kScore
  std::string model;  // as asked, or the one that was chosen
  int64_t created_s = 0;
  std::vector<std::string> labels;  // kTeiPredict: of each score
};

// Bytes of the answer to come, roughly: for its place in memory.
size_t EstimateEncodingBody(const EncodingCall& call, const api::EncodeResult& result);

std::string EncodingBody(const EncodingCall& call, const EncodingHead& head,
                         const api::EncodeResult& result);

// Cosine of the angle between two vectors, in float64; 0 where one has no direction.
float Cosine(std::span<const float> a, std::span<const float> b);

}  // namespace tutti::wire
