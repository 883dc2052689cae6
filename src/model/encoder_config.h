// EncoderConfig: the configuration of an encoder, read from its checkpoint's JSON files and
// validated. What its architecture does otherwise than BERT is in its traits, which
// encoder_families/ sets.
//
// Plain value, immutable once read; any thread. Every field is within the ranges of config.h, so no
// later code needs to check a product of two of them for overflow. Formats: config.json of Hugging
// Face transformers, and the files of vector_modules.h. An unsupported setting that would change a
// vector is refused by name.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "model/vector_modules.h"

namespace tutti::model {

// What is added to a score by the distance of its query and key.
enum class DistanceBias : uint8_t {
  kNone,
  kRelativeBuckets,  // a value of each head for each of kDistanceBuckets ranges of distances (T5)
  kAlibi,            // minus the distance times the head's slope
};
inline constexpr int kDistanceBuckets = 32;

inline constexpr size_t kMaxLabels = 4096;
inline constexpr std::string_view kNomicBert = "nomic-bert";  // as its GGUF files are called
// A table of angles has a row for each position.
inline constexpr int kMaxRotatedPositions = 1 << 17;
inline constexpr int kMaxBiasedPositions = 1 << 15;
// Each layer has a table of all columns and distances.
inline constexpr int kMaxRelativeDistance = 1 << 12;

struct EncoderConfig {
  std::string architecture;  // EncoderFamily::architecture: "bert", "modern-bert"
  int layers = 0;
  int width = 0;
  int feed_forward = 0;
  int heads = 0;
  int vocab_size = 0;
  int positions = 0;       // rows of the position table, or what rotation was made for
  int first_position = 0;  // row of the first token: 0, or behind the padding token's (RoBERTa)
  int token_types = 0;     // rows of the token type table; 0 = no such table
  float norm_eps = 0;

  // --- traits: how it differs from BERT ---
  // Queries and keys are rotated by their position, halves of a head together, and there is no
  // position table. The base of the angles; 0: no rotation.
  double rope_base = 0;
  double rope_window_base = 0;  // in layers with a window; 0: rope_base
  double rope_divisor = 1;      // positions are divided by it
  bool position_table = true;   // without rotation and ALiBi: positions are embedded
  DistanceBias distance = DistanceBias::kNone;
  // Scores have terms of the distance and of the content of one of the tokens (DeBERTa).
  struct Relative {
    int span = 0;      // half of the rows of the distances' embeddings; 0: no such terms
    int buckets = 0;   // even; distances beyond half of them share rows by logarithm; 0: none do
    int farthest = 0;  // from this distance on all have the same row
    bool keys = false,
         queries = false;  // which terms there are: keys of distances, queries of them
    bool shared = false;   // the layers' own projections make them
    bool norm = false;     // of the embeddings
  } relative;
  int score_terms = 1;         // scores are divided by the root of that many head_dim()
  int window = 0;              // tokens on each side that a layer with a window sees; 0: no window
  std::vector<bool> windowed;  // of each layer, or empty: none has one
  // Norms before attention and feed-forward, and one after the last layer; else after each.
  bool norm_first = false;
  bool first_norm = true;  // with norm_first: before the first attention
  bool gated = false;      // two matrices feed the feed-forward block
  Activation activation_function = Activation::kGelu;  // of it: kGelu, or gated kSilu
  bool qkv_bias = true, output_bias = true, up_bias = true, down_bias = true;
  bool norm_bias = true;
  struct Head {         // of a classifier: activation(dense), a norm, then the scores
    bool mean = false;  // of the mean of all rows, else of the first row
    Activation activation = Activation::kTanh;
    bool dense_bias = true;
    bool norm = false;
  } head;

  Pooling pooling = Pooling::kMean;
  bool normalize = false;                      // vectors have length 1
  int max_tokens = 0;                          // of one text, special tokens included
  bool lowercase = false;                      // before tokenising (sentence_bert_config.json)
  std::map<std::string, std::string> prompts;  // put before a text, by name
  std::optional<std::string> default_prompt;   // name of the one used when none is asked for

  // --- what becomes of the rows, in this order; none of it where there are labels ---
  std::optional<LexicalPooling> lexical;  // instead of `pooling`
  std::vector<DenseModule> dense;         // after pooling
  // There is no pooling: the dense modules are applied to each token's row, and texts are compared
  // by their tokens' vectors (ColBERT). These have length 1.
  bool per_token = false;

  // Names of the scores of a cross-encoder or classifier, which gives no embeddings; empty for
  // encoders of embeddings.
  std::vector<std::string> labels;
  ScoreActivation activation = ScoreActivation::kNone;  // of the scores, unless raw ones are wanted

  int head_dim() const { return width / heads; }
  // Floats of a text's vector; 0: it has none. And of a token's.
  int vector_width() const {
    if (per_token) return 0;
    return lexical ? vocab_size : dense.empty() ? width : dense.back().out;
  }
  const char* pooling_name() const {
    return lexical ? "splade" : per_token ? "token" : PoolingName(pooling);
  }
  int token_width() const { return per_token ? dense.back().out : width; }
  bool has_position_table() const {
    return position_table && rope_base == 0 && distance != DistanceBias::kAlibi;
  }
  bool has_window(int layer) const {
    return window > 0 && !windowed.empty() && windowed[static_cast<size_t>(layer)];
  }
  int longest() const { return positions - first_position; }  // tokens of a text, at most
};

// model_hparam where the kernels cannot run a model of this width, feed_forward and heads.
Status CheckEncoderShape(const EncoderConfig& config);

// Errors: model_hparam, naming file, key and value.
Result<EncoderConfig> ReadEncoderConfig(const ModuleFiles& files);

}  // namespace tutti::model
