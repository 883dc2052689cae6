// Post-processing of an encoder's raw rows: truncate to the requested dimensions, normalize, apply
// the score activation. Pure functions that run on the thread that takes the result, which keeps
// them off the engine thread.
#pragma once

#include <optional>

#include "api/encoding.h"
#include "gateway/served_model.h"

namespace tutti::gateway {

struct EncodeFinish {
  std::optional<int> dimensions;  // leading components kept of each row; 1..width
  bool normalize = false;         // rows to length 1, after cutting
  ScoreScale scale = ScoreScale::kRaw;

  // Vectors: sums of squares in float64, and a length below 1e-12 counts as that, so that zeros
  // stay zeros. Softmax subtracts the greatest score first.
  void operator()(api::EncodeResult& result) const;
};

// For a checked request of `model`.
EncodeFinish FinishFor(const ServedEncoder& model, const api::EncodeRequest& request);

}  // namespace tutti::gateway
