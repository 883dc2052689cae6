// TokenizedRequest: an api::EncodeRequest after tokenisation, as EncoderEngine::Submit takes it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "api/encoding.h"
#include "api/types.h"
#include "base/clock.h"
#include "base/types.h"

namespace tutti::engine {

// Moved into the engine by Submit and immutable from then on.
struct TokenizedRequest {
  std::string id;                // for traces and logs
  std::vector<TokenId> tokens;   // of all items, one item after the other, special tokens included
  std::vector<uint8_t> types;    // the kind of each token; none: all 0
  std::vector<int32_t> lengths;  // tokens of each item; 1..api::kMaxEncodeInputs items
  api::EncodeOutput output = api::EncodeOutput::kPooled;
  api::Priority priority = api::Priority::kInteractive;
  TimePoint deadline = TimePoint::max();
  std::string tenant;          // unit of fair share
  double tenant_weight = 1.0;  // > 0; of several at once the newest request's holds
  Duration prepare{0};         // time spent in the tokeniser, for the timings
};

}  // namespace tutti::engine
