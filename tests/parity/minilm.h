// all-MiniLM-L6-v2 and the texts of tests/golden/minilm_vectors.bin, for the tests that need a real
// encoder.
//
// Everything here fails the running test when a file is missing: real-model tests do not skip.
#pragma once

#include <istream>
#include <memory>
#include <string>
#include <vector>

#include "model/encoder.h"
#include "model/encoder_checkpoint.h"

namespace tutti::parity {

template <typename T>
T ReadNumber(std::istream& in) {
  T value{};
  in.read(reinterpret_cast<char*>(&value), sizeof(value));
  return value;
}

struct TextReference {
  std::string text;
  int tokens = 0;  // cut to what the model reads
  std::vector<float> vector;
};
// The format is that of tools/make_encoder_goldens.py.
std::vector<TextReference> ReadTextReferences();

std::string MiniLmPath();
Result<model::EncoderCheckpoint> OpenMiniLm();

// The checkpoint's weights in `dtype`, as a server loads them.
std::shared_ptr<const model::EncoderWeights> LoadWeights(const model::EncoderCheckpoint& checkpoint,
                                                         model::EncoderDType dtype);
// The weights behind the best kernels of this machine.
std::unique_ptr<model::Encoder> MakeEncoder(std::shared_ptr<const model::EncoderWeights> weights,
                                            int workers, int max_rows);

// To length 1, as vectors are served (gateway/encode_result.cc).
void Normalize(std::vector<float>& vector);
double Cosine(const std::vector<float>& a, const std::vector<float>& b);

}  // namespace tutti::parity
