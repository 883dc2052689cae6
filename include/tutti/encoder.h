// Encoder: a loaded model that turns texts into vectors or scores, shared by all threads of a
// program.
//
//   tutti::Encoder encoder =
//       tutti::Encoder::Load(tutti::ModelOptions("all-minilm-l6-v2")).value();
//   tutti::Vectors vectors = encoder.Embed({"A cat", "A dog"}).value();
//   std::vector<float> scores = encoder.Rank("a pet", {"A cat", "A stone"}).value();
//
// An Encoder is a handle: copies share the weights. All calls are const and block; any thread may
// use them. Texts of all threads are batched into common forward passes, and no result depends on
// the other texts.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tutti/error.h"
#include "tutti/export.h"
#include "tutti/model.h"

namespace tutti {

struct EncodeOptions {
  std::optional<bool> normalize = {};  // vectors to length 1; absent: as the model's files say
  // Leading components of each vector, normalised again: 1 to EncoderInfo::dimensions, of models
  // that are trained for it. Absent: all.
  std::optional<int> dimensions = {};
  std::optional<std::string> prompt_name = {};  // one of EncoderInfo::prompts; absent: the default
  bool truncate = false;    // read the beginning of a text that is too long, instead of an error
  bool raw_scores = false;  // scores as the model leaves them, without sigmoid or softmax
};

// A matrix in row-major order, one row for each text.
struct Vectors {
  int width = 0;                   // floats of a row
  std::vector<float> values = {};  // rows * width
  std::vector<int> tokens = {};    // read of each text, special ones included

  size_t rows() const { return tokens.size(); }
  const float* row(size_t index) const {
    return values.data() + index * static_cast<size_t>(width);
  }
};

struct EncoderInfo {
  int dimensions = 0;                // floats of a vector; 0: no vectors
  std::vector<std::string> labels;   // names of a classifier's scores; empty: no scores
  bool pairs = false;                // a cross-encoder, which reads two texts together
  std::vector<std::string> prompts;  // names of what can be put before a text
};

class TUTTI_API Encoder {
 public:
  // Reads and packs the weights and starts the model's threads. Models that generate give vectors
  // too. Errors: as Model::Load.
  static Expected<Encoder> Load(const ModelOptions& options);

  Encoder(const Encoder&);
  Encoder& operator=(const Encoder&);
  Encoder(Encoder&&) noexcept;  // a moved-from Encoder can only be assigned to or destroyed
  Encoder& operator=(Encoder&&) noexcept;
  ~Encoder();  // the last handle unloads the model

  // A vector of each text, in their order; any number of texts. Errors name a text by its position:
  // empty_prompt and context_length_exceeded with param "texts[3]", invalid_value for options.
  Expected<Vectors> Embed(const std::vector<std::string>& texts,
                          const EncodeOptions& options = {}) const;

  // How well each document answers the query, in the order of the documents; more is better. A
  // cross-encoder reads the query with each document. Another model gives the cosine of their
  // vectors; of its prompts "query" and "document" (or "passage") are used if it has them and
  // `options` names none. Errors: as Embed, with "documents[3]" and "query".
  Expected<std::vector<float>> Rank(const std::string& query,
                                    const std::vector<std::string>& documents,
                                    const EncodeOptions& options = {}) const;

  // The score of each label for each text: a matrix with a column for each of EncoderInfo::labels.
  Expected<Vectors> Classify(const std::vector<std::string>& texts,
                             const EncodeOptions& options = {}) const;

  ModelInfo info() const;  // `context`: tokens of one text
  EncoderInfo encoder_info() const;

 private:
  explicit Encoder(std::shared_ptr<Model::State> state);

  std::shared_ptr<Model::State> state_;
};

}  // namespace tutti
