// Runs texts as one batch of an encoder, for tests. Any thread that may use the runner.
#pragma once

#include <cstdint>
#include <vector>

#include "api/encoding.h"
#include "base/status.h"
#include "base/types.h"
#include "engine/encoder_runner.h"

namespace tutti::runner {

struct EncodedTexts {
  Status status;
  std::vector<std::vector<float>> values;  // by text; of kTokens one row for each token
};

// `output` of each text. What the runner leaves unwritten stays -77.
inline EncodedTexts EncodeTexts(engine::EncoderRunner& runner,
                                const std::vector<std::vector<TokenId>>& texts,
                                api::EncodeOutput output = api::EncodeOutput::kPooled) {
  const auto floats = static_cast<size_t>(runner.limits().of(output));
  EncodedTexts encoded;
  encoded.values.resize(texts.size());
  std::vector<TokenId> tokens;
  std::vector<int32_t> offsets = {0};
  std::vector<engine::EncodeItem> items;
  for (size_t i = 0; i < texts.size(); ++i) {
    const size_t rows = output == api::EncodeOutput::kTokens ? texts[i].size() : 1;
    encoded.values[i].assign(rows * floats, -77.0F);
    items.push_back({static_cast<int>(tokens.size()), static_cast<int>(texts[i].size()), output,
                     encoded.values[i]});
    tokens.insert(tokens.end(), texts[i].begin(), texts[i].end());
    offsets.push_back(static_cast<int32_t>(tokens.size()));
  }
  engine::EncodeBatch batch;
  batch.tokens = tokens;
  batch.items = items;
  batch.offsets = offsets;
  runner.Launch(batch);
  encoded.status = runner.Collect();
  return encoded;
}

}  // namespace tutti::runner
