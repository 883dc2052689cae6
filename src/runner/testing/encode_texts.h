// Runs texts as one batch of an encoder, for tests. Any thread that may use the runner.
#pragma once

#include <cstdint>
#include <vector>

#include "api/encoding.h"
#include "base/status.h"
#include "base/types.h"
#include "engine/encoder_runner.h"

namespace tutti::runner {

struct TextToEncode {
  std::vector<TokenId> tokens;
  api::EncodeOutput output = api::EncodeOutput::kPooled;
  std::vector<uint8_t> types = {};  // of the tokens; empty: none, for all texts of a batch
};

struct EncodedTexts {
  Status status;
  std::vector<std::vector<float>> values;  // by text; of kTokens one row for each token
};

// What the runner leaves unwritten stays -77.
inline EncodedTexts EncodeMixedTexts(engine::EncoderRunner& runner,
                                     const std::vector<TextToEncode>& texts) {
  EncodedTexts encoded;
  encoded.values.resize(texts.size());
  std::vector<TokenId> tokens;
  std::vector<uint8_t> types;
  std::vector<int32_t> offsets = {0};
  std::vector<engine::EncodeItem> items;
  for (size_t i = 0; i < texts.size(); ++i) {
    const TextToEncode& text = texts[i];
    const size_t rows = text.output == api::EncodeOutput::kTokens ? text.tokens.size() : 1;
    encoded.values[i].assign(rows * static_cast<size_t>(runner.limits().of(text.output)), -77.0F);
    items.push_back({static_cast<int>(tokens.size()), static_cast<int>(text.tokens.size()),
                     text.output, encoded.values[i]});
    tokens.insert(tokens.end(), text.tokens.begin(), text.tokens.end());
    types.insert(types.end(), text.types.begin(), text.types.end());
    offsets.push_back(static_cast<int32_t>(tokens.size()));
  }
  engine::EncodeBatch batch;
  batch.tokens = tokens;
  batch.types = types;
  batch.items = items;
  batch.offsets = offsets;
  runner.Launch(batch);
  encoded.status = runner.Collect();
  return encoded;
}

// All with the same output.
inline EncodedTexts EncodeTexts(engine::EncoderRunner& runner,
                                const std::vector<std::vector<TokenId>>& texts,
                                api::EncodeOutput output = api::EncodeOutput::kPooled) {
  std::vector<TextToEncode> batch;
  for (const std::vector<TokenId>& text : texts) batch.push_back({text, output});
  return EncodeMixedTexts(runner, batch);
}

}  // namespace tutti::runner
